"""Pins in the process that owns the store: taken at the last commit, read at, and given up.

A pin must not lie above the boundary. So its instant is registered like a snapshot, a checkpoint brings the boundary
there, and only when the pin's row is in the base the registration goes: at every moment one of the two holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial

from lowtide.engine.base.leases import Leases, check_process, check_ttl
from lowtide.engine.base.names import check_keyspaces, check_name
from lowtide.engine.base.pins import PinRow
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.registry import Origin
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.errors import SnapshotExpired, UsageError
from lowtide.sharing.pins.pin import Pin

At = int | str | Pin
"""What ``store.snapshot`` can be asked for: a timestamp, the name of a pin, or a pin."""


def check_at(at: object) -> None:
    """Refuse what is none of these."""
    if isinstance(at, bool) or not isinstance(at, int | str | Pin):
        raise UsageError(f"a snapshot is at a pin, the name of one, or the timestamp of a commit, not at {at!r}")


class NamedPins:
    """What can be done with pins by their names, in any process. ``unpinned`` is told the timestamp of one that is
    gone; ``time`` is the time of day."""

    def __init__(self, leases: Leases, time: Callable[[], float], unpinned: Callable[[int], None]) -> None:
        self._time = time
        self._unpinned = unpinned
        self.leases = leases

    def _checked(
        self, name: str, ttl: float, keyspaces: Iterable[str] | None, depth: int
    ) -> tuple[tuple[str, ...] | None, str]:
        """The arguments of a pin, checked: the keyspaces that are meant, and the user's line."""
        check_name(name)
        check_ttl(ttl)
        frame = sys._getframe(depth + 1)
        return check_keyspaces(keyspaces), str(Origin(frame.f_code, frame.f_lasti))

    def _handle(self, name: str, row: PinRow) -> Pin:
        return Pin(self.leases, name, row, self._unpinned)

    def renew(self, name: str, ttl: float | None) -> Pin:
        """Let a pin live for longer, whoever took it."""
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


class Pinning(NamedPins):
    """The pins of an open store. ``checkpoint`` brings the boundary to a timestamp at least; ``depth`` tells how far up
    the stack the user's line is."""

    def __init__(
        self,
        engine: Engine,
        leases: Leases,
        checkpoint: Callable[[int], object],
        unpinned: Callable[[int], None],
    ) -> None:
        super().__init__(leases, engine.time, unpinned)
        self._engine = engine
        self._checkpoint = checkpoint

    def pin(
        self,
        name: str,
        ttl: float,
        keyspaces: Iterable[str] | None,
        at: At | None,
        depth: int,
        process: int | None = None,
    ) -> Pin:
        """Pin the last commit, or ``at``, which a snapshot or a pin holds."""
        wanted, where = self._checked(name, ttl, keyspaces, depth)
        bound = check_process(process)
        with self.snapshot(at, depth + 1) as held:
            if wanted is None:
                wanted = held.keyspaces
            for each in wanted or ():
                held.keyspace(each)  # refused if the pin that it stands on does not hold it
            self._checkpoint(held.ts)  # point: pin.held
            take = partial(self.leases.take, name, ttl, keyspaces=wanted, where=where, process=bound)
            row = take(at=held.ts)  # point: pin.take
            self._check_held(held, name, row)
        return self._handle(name, row)

    def _check_held(self, held: EngineSnapshot, name: str, row: PinRow) -> None:
        """Take the pin back if ``held`` was expired before the row was there: what it sees may be gone."""
        try:
            held._open_ts()
        except SnapshotExpired:
            self.leases.remove(name, row.id)
            raise

    def expire(self) -> None:
        """Remove the pins whose time is over, and have what they held collected; also what was held by pins that other
        processes removed, even if they died before they could say so."""
        for row in self.leases.expire():
            self._unpinned(row.ts)
        for ts in self.leases.removed_elsewhere():
            self._unpinned(ts)

    def snapshot(self, at: At | None, depth: int) -> EngineSnapshot:
        """A snapshot of the last commit, of a pin, or of a timestamp that is held. It holds by itself from then on."""
        if at is None:
            return EngineSnapshot(self._engine, None, depth + 1)
        check_at(at)
        if isinstance(at, int):
            try:
                return EngineSnapshot(self._engine, at, depth + 1)
            except SnapshotExpired:
                pass  # no snapshot holds all of it; a pin may
        name, row = self._pin_at(at)

        def pinned() -> bool:
            self.leases.find(name, row.id)  # the very same: another one of this name may lie elsewhere
            return True

        return EngineSnapshot(self._engine, row.ts, depth + 1, pinned=pinned, keyspaces=row.keyspaces)

    def _pin_at(self, at: At) -> tuple[str, PinRow]:
        """The living pin that is meant."""
        if isinstance(at, Pin):
            return at.name, self.leases.find(at.name, at.id)
        if isinstance(at, str):
            return at, self.leases.find(at)
        return self.leases.holder_of(at)
