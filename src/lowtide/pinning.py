"""Pins in the process that owns the store: taken at the last commit, read at, and given up.

A pin must not lie above the boundary. So its instant is registered like a snapshot, a checkpoint brings the boundary
there, and only when the pin's row is in the base the registration goes: at every moment one of the two holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from lowtide.base.pins import PinRow
from lowtide.pins.leases import Leases, check_keyspaces, check_name, check_ttl
from lowtide.pins.pin import Pin
from lowtide.transaction.engine import Engine
from lowtide.transaction.registry import Origin
from lowtide.transaction.snapshot import Snapshot

At = int | str | Pin
"""What ``store.snapshot`` can be asked for: a timestamp, the name of a pin, or a pin."""


class Pinning:
    """The pins of an open store. ``checkpoint`` brings the boundary to a timestamp at least; ``depth`` tells how far up
    the stack the user's line is."""

    def __init__(self, engine: Engine, leases: Leases, checkpoint: Callable[[int], object]) -> None:
        self._engine = engine
        self._checkpoint = checkpoint
        self.leases = leases

    def pin(self, name: str, ttl: float, keyspaces: Iterable[str] | None, at: At | None, depth: int) -> Pin:
        """Pin the last commit, or ``at``, which a snapshot or a pin holds."""
        check_name(name)
        check_ttl(ttl)
        wanted = check_keyspaces(keyspaces)
        frame = sys._getframe(depth)
        where = str(Origin(frame.f_code, frame.f_lasti))
        with self.snapshot(at, depth + 1) as held:
            if wanted is None:
                wanted = held.keyspaces
            for each in wanted or ():
                held.keyspace(each)  # refused if the pin that it stands on does not hold it
            self._checkpoint(held.ts)
            row = self.leases.take(name, ttl, at=held.ts, keyspaces=wanted, where=where)
        return self._handle(name, row)

    def _handle(self, name: str, row: PinRow) -> Pin:
        return Pin(self.leases, name, row, self._engine.released)

    def unpin(self, name: str) -> bool:
        """Remove a pin; false if there is none of this name."""
        check_name(name)
        row = self.leases.remove(name)
        if row is not None:
            self._engine.released(row.ts)
        return row is not None

    def pins(self) -> list[Pin]:
        """The pins that have not expired, by name."""
        now = self._engine.time()
        return [self._handle(name, row) for name, row in self.leases.all() if row.expires > now]

    def expire(self) -> None:
        """Remove the pins whose time is over, and have what they held collected."""
        for row in self.leases.expire():
            self._engine.released(row.ts)

    def snapshot(self, at: At | None, depth: int) -> Snapshot:
        """A snapshot of the last commit, of a pin, or of a timestamp that is held. It holds by itself from then on."""
        if at is None:
            return Snapshot(self._engine, None, depth + 1)
        name, row = self._pin_at(at)
        if row is None:
            return Snapshot(self._engine, at if isinstance(at, int) else None, depth + 1)
        identity = row.id

        def pinned() -> bool:
            return bool(self.leases.find(name, identity))

        return Snapshot(self._engine, row.ts, depth + 1, pinned=pinned, keyspaces=row.keyspaces)

    def _pin_at(self, at: At) -> tuple[str, PinRow | None]:
        """The living pin that is meant, and its name; for a timestamp None if there is none."""
        if isinstance(at, Pin):
            return at.name, self.leases.find(at.name, at.id)
        if isinstance(at, str):
            return at, self.leases.find(at)
        if self._engine.registry.holds(at):
            return "", None
        return self.leases.holder_of(at)
