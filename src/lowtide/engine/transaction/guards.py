"""Guards: keys and ranges that a commit relies on, so they must not have changed since they were read.

Documents need them at every isolation level. A write of a document relies on the collection's indexes. Below SNAPSHOT,
where the last write wins, it also relies on the document that the new index entries were computed from. Each key and
range has its own timestamp, because a statement below SNAPSHOT has its own snapshot.

Written by the transaction's thread, then read by the leader of the commit group, under the commit lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.engine.transaction.registration import Registration
from lowtide.engine.types import Range

if TYPE_CHECKING:
    from lowtide.engine.transaction.yielding import Yielding


class Guards:
    """Keys and ranges of keys, each with the commit as of which it was read. A key keeps the oldest of these
    commits."""

    __slots__ = ("keys", "ranges", "registration", "yielding")

    def __init__(self) -> None:
        self.keys: dict[bytes, int] = {}
        self.ranges: list[tuple[Range, int]] = []
        self.registration: Registration | None = None
        """Below SNAPSHOT, a writer's registration as of the oldest guard, so that a later deletion leaves a tombstone
        until the commit. The transaction releases it."""
        self.yielding: Yielding | None = None
        """The keys at which the commit yields instead of failing; at SNAPSHOT and above."""

    def add(self, full_key: bytes, seen: int) -> None:
        self.keys.setdefault(full_key, seen)

    def add_range(self, wanted: Range, seen: int) -> None:
        self.ranges.append((wanted, seen))

    def seen(self, key: bytes) -> int:
        """The commit as of which a guarded key was read."""
        if key in self.keys:
            return self.keys[key]
        return min(seen for each, seen in self.ranges if each.covers(key))

    def meet(self, key: bytes) -> bool:
        """Whether a key is guarded."""
        return key in self.keys or any(each.covers(key) for each, _ in self.ranges)
