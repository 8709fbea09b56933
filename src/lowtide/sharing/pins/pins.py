"""The pins of a store: what its owner and a follower have in common.

A subclass defines how a new pin is made durable (``_take``) and how a snapshot at a pin is opened (``_open_at``).
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lowtide.engine.base.leases import Leases, check_process, check_ttl
from lowtide.engine.base.names import check_keyspaces, check_name
from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.origin import Origin, caller
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.errors import SnapshotExpired, UsageError
from lowtide.sharing.pins.pin import Pin
from lowtide.system.identity import Identity

At = int | str | Pin
"""What ``store.snapshot`` accepts: a timestamp, the name of a pin, or a pin."""


def check_at(at: object) -> None:
    """Raise UsageError unless ``at`` is an ``At``."""
    if isinstance(at, bool) or not isinstance(at, int | str | Pin):
        raise UsageError(f"at must be a pin, the name of a pin, or the timestamp of a commit, not {at!r}")


@dataclass(frozen=True, slots=True)
class PinRequest:
    """A pin that a user requested, with checked arguments; ``where`` is the user's line."""

    name: str
    ttl: float
    keyspaces: tuple[str, ...] | None
    where: str
    process: Identity | None


class Pins(ABC):
    """The pins of an open store. ``time`` is the wall-clock time; ``unpinned`` is called with the timestamp of each pin
    that was removed here."""

    def __init__(self, leases: Leases, time: Callable[[], float], unpinned: Callable[[int], None]) -> None:
        self._time = time
        self._unpinned = unpinned
        self.leases = leases

    @abstractmethod
    def _take(self, request: PinRequest, at: At | None) -> PinRow:
        """Write the row of a new pin, at the last commit or at ``at``. When the row is written, the base has what the
        pin keeps."""

    @abstractmethod
    def _open_at(self, name: str, row: PinRow) -> EngineSnapshot:
        """Open a snapshot at a live pin."""

    @abstractmethod
    def _current_engine(self) -> Engine:
        """The engine that has the last commit."""

    def _older_engines(self) -> list[Engine]:
        """Engines of this process that may still have snapshots at older timestamps."""
        return []

    def pin(
        self,
        name: str,
        ttl: float,
        *,
        keyspaces: Iterable[str] | None = None,
        at: At | None = None,
        process: int | None = None,
    ) -> Pin:
        """Pin the last commit, or ``at``."""
        check_name(name)
        check_ttl(ttl)
        where = str(Origin(*caller()))
        request = PinRequest(name, ttl, check_keyspaces(keyspaces), where=where, process=check_process(process))
        return self._handle(name, self._take(request, at))

    def renew(self, name: str, ttl: float | None) -> Pin:
        """Extend the life of a pin, which any process may have taken."""
        check_name(name)
        return self._handle(name, self.leases.renew(name, None, ttl))

    def unpin(self, name: str) -> bool:
        """Remove a pin; false if there is none of this name."""
        check_name(name)
        row = self.leases.remove(name)
        if row is not None:
            self._unpinned(row.ts)  # point: unpin.removed
        return row is not None

    def pins(self) -> list[Pin]:
        """The pins that have not expired, by name."""
        now = self._time()
        return [self._handle(name, row) for name, row in self.leases.all() if row.expires > now]

    def snapshot(self, at: At | None) -> EngineSnapshot:
        """Open a snapshot of the last commit, at a pin, or at a timestamp that a live snapshot of this process or a
        pin holds."""
        engine = self._current_engine()
        if at is None:
            return EngineSnapshot(engine, None)
        check_at(at)
        if isinstance(at, int):
            with contextlib.suppress(SnapshotExpired):  # no snapshot of this engine holds it; an older one or a pin may
                return EngineSnapshot(engine, at)
            for older in self._older_engines():
                with contextlib.suppress(SnapshotExpired, UsageError):  # it may be too old, or have just ended
                    return EngineSnapshot(older, at)
        name, row = self._find(at)
        return self._open_at(name, row)

    def _find(self, at: At) -> tuple[str, PinRow]:
        """The live pin that ``at`` means: the pin itself, the one of this name, or one that holds this timestamp."""
        check_at(at)
        if isinstance(at, Pin):
            return at.name, self.leases.find(at.name, at.id)
        if isinstance(at, str):
            return at, self.leases.find(at)
        return self.leases.holder_of(at)

    def _handle(self, name: str, row: PinRow) -> Pin:
        return Pin(self.leases, name, row, self._unpinned)
