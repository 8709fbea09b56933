"""Registrations: each holds a live snapshot. An expired one leaves a note.

They are not in the module of the registry, which a compiled build compiles: a registration needs weak references and a
destructor, which only an interpreted class has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from lowtide.engine.transaction.origin import Origin
from lowtide.errors import SnapshotExpired

if TYPE_CHECKING:
    from lowtide.engine.transaction.registry import Registry


@dataclass(frozen=True, slots=True)
class Entry:
    """A live snapshot, as ``entries`` lists it. ``begun`` is the clock's monotonic time."""

    token: int
    ts: int
    writer: bool
    begun: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Expired:
    """The note about a snapshot that was ended at ``age``, in seconds, because of the ``limit`` at that time. ``owner``
    is its registration."""

    ts: int
    age: float
    limit: float
    origin: Origin
    owner: ref[Registration]

    def error(self) -> SnapshotExpired:
        where = str(self.origin)
        return SnapshotExpired(
            f"the snapshot of commit {self.ts} that was opened at {where} was ended at the age of {self.age:.1f} s, "
            f"because max_snapshot_age is {self.limit:g} s; what it sees is no longer kept: begin another one",
            age=self.age,
            where=where,
        )


Details = tuple[Any, ...]
"""(may still commit: bool, begun at: float, opened by: Caller | None). Typed loosely: a compiled build passes a plain
tuple as one object, but unpacks a tuple of known types."""

NOT_DRAWN: Final = -1


class Registration:
    """A live snapshot, held by the transaction, snapshot, statement or scan that reads at ``ts``, until it is released
    or dropped. Used by the thread of its owner; created by ``Registry.register`` and ``register_at``.

    ``token`` is 0 before it is registered, and after it was released and reported. ``ts`` is ``NOT_DRAWN`` until other
    snapshots may rely on it. ``ref`` is the tables' weak reference.
    """

    __slots__ = ("__weakref__", "_registry", "ref", "token", "ts")

    def __init__(self, registry: Registry) -> None:
        self.token = 0
        self.ts = NOT_DRAWN
        self._registry = registry
        self.ref = ref(self)

    def release(self, released: Callable[[int], None]) -> None:
        """Release the snapshot and call ``released`` with its timestamp. It can be repeated, and must be after an
        interrupt: by the owner, or else by the destructor."""
        if token := self.token:
            self._registry.release(token)
            released(self.ts)
            self.token = 0

    def __del__(self) -> None:
        try:
            token = self.token
        except AttributeError:  # the constructor was interrupted
            return
        if token:
            registry = self._registry
            ts = registry.live.get(token, self.ts)
            registry.release(token)
            if ts != NOT_DRAWN:
                registry.abandoned(ts)
