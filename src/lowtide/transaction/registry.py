"""The live snapshots: who reads at which timestamp, so that what they see is kept.

``live`` maps a token to an entry. Anybody adds and removes their own entry without a lock: single dict operations are
atomic. The draw of a timestamp and its registration are *one step for whoever collects*, by this protocol:

    begin:    t = published; live[token] = t; repeat unless published is still t
    collect:  bound = published; sample = live

If the sample misses the entry, it was taken before the entry was set, and ``bound`` was read before that; ``begin``
then read ``published == t`` after it, so ``bound <= t``. A collector drops only what ended at or before ``bound``:
nothing that a snapshot at ``t >= bound`` sees. Without the second look at ``published`` a commit could slip in
between the draw and the registration, and a collection after it drop what the snapshot is about to read.

Nothing here keeps a transaction alive: entries hold plain values, and a transaction that is dropped removes its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType

from lowtide.errors import SnapshotExpired, UsageError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the user's program a snapshot was opened; turned into words only when somebody asks."""

    code: CodeType
    instruction: int

    def __str__(self) -> str:
        line = None
        for start, end, number in self.code.co_lines():
            if start <= self.instruction < end:
                line = number
        return f"{self.code.co_filename}:{line if line is not None else self.code.co_firstlineno}"


Entry = tuple[int, bool, bool, float, CodeType, int]
"""(timestamp, may still commit, tracks its reads, begun at, code, instruction)"""


class Registry:
    """The live snapshots of one open store. See the module for the protocol."""

    def __init__(self, published: int) -> None:
        self.live: dict[int, Entry] = {}
        self.serializable: dict[int, int] = {}
        """Token to timestamp of the live transactions that track their reads."""
        self.published = published
        """The last commit that everyone may see. Written by the leader of a commit group only, and only upwards."""
        self._tokens = itertools.count(1)
        self.next_token: Callable[[], int] = self._tokens.__next__

    def last_published(self) -> int:
        return self.published

    def register(
        self, writer: bool, tracks_reads: bool, begun: float, code: CodeType, instruction: int
    ) -> tuple[int, int]:
        """Draw a timestamp and register it; returns the token and the timestamp."""
        token = self.next_token()
        live = self.live
        while True:
            ts = self.published
            if tracks_reads:
                self.serializable[token] = ts
            live[token] = (ts, writer, tracks_reads, begun, code, instruction)  # point: begin.drawn
            if self.published == ts:
                return token, ts

    def register_at(self, at: int, begun: float, code: CodeType, instruction: int) -> int:
        """Register a snapshot at ``at``, which must be the last commit or a timestamp that another snapshot holds.

        The other one is looked for after this one was registered, so at every moment at least one of them is there.
        """
        if at > self.published:
            raise UsageError(f"commit {at} does not exist yet; the last one is {self.published}")
        token = self.next_token()
        self.live[token] = (at, False, False, begun, code, instruction)
        if self.published != at and not any(entry[0] == at for key, entry in self._entries() if key != token):
            self.release(token)
            raise SnapshotExpired(f"the state as of commit {at} is no longer kept: no live snapshot or pin holds it")
        return token

    def release(self, token: int) -> Entry | None:
        """Forget a snapshot. Harmless when repeated; takes no lock, so it may run in a destructor."""
        if self.serializable:
            self.serializable.pop(token, None)
        return self.live.pop(token, None)

    def _entries(self) -> list[tuple[int, Entry]]:
        while True:
            try:
                return list(self.live.items())
            except RuntimeError:  # a destructor that ran meanwhile removed its entry
                continue

    def entries(self) -> list[Entry]:
        """The live snapshots at one moment."""
        return [entry for _, entry in self._entries()]

    def timestamps(self) -> list[int]:
        """What the collector must keep. Read ``published`` first, see the module."""
        return [entry[0] for _, entry in self._entries()]

    def oldest_writer(self) -> int | None:
        """The oldest snapshot that may still commit, for write-write conflicts."""
        return min((entry[0] for _, entry in self._entries() if entry[1]), default=None)

    def oldest_serializable(self) -> int | None:
        """The oldest snapshot whose reads will be validated."""
        while True:
            try:
                return min(self.serializable.values(), default=None)
            except RuntimeError:
                continue
