"""Pins taken and read in a process that does not own the store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import Leases, check_process
from lowtide.engine.base.pins import PinRow
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.errors import SnapshotExpired, UsageError
from lowtide.options import Options
from lowtide.sharing.pins.owner import At, NamedPins, check_at
from lowtide.sharing.pins.pin import Pin
from lowtide.sharing.pins.snapshot import snapshot_at
from lowtide.sharing.takeover import refresh, tell_of_pins
from lowtide.system.identity import Identity


class FollowerPinning(NamedPins):
    """As ``pinning.Pinning``, beside an owner: a fresh pin costs that one a checkpoint, if it has committed since its
    last, and nothing else. ``published`` is the last commit, as the shared page tells it; it was written anew when this
    store was opened, and by every owner since."""

    def __init__(
        self,
        path: Path,
        options: Options,
        base: Base,
        leases: Leases,
        engine: Callable[[], Engine],
        older: Callable[[], list[Engine]],
        published: Callable[[], int],
    ) -> None:
        super().__init__(leases, options.clock.time, lambda _: tell_of_pins(path))
        self._path = path
        self._options = options
        self._base = base
        self._engine = engine
        self._older = older
        self._published = published

    def pin(
        self,
        name: str,
        ttl: float,
        keyspaces: Iterable[str] | None,
        at: At | None,
        depth: int,
        process: int | None = None,
    ) -> Pin:
        """Pin the last commit, or what another pin holds."""
        wanted, where = self._checked(name, ttl, keyspaces, depth)
        bound = check_process(process)
        if at is None:
            self._bring_up_to_date()
            row = self.leases.take(name, ttl, keyspaces=wanted, where=where, process=bound)
        else:
            check_at(at)
            stands_on, other = self._pin_at(at)
            row = self.leases.take(
                name,
                ttl,
                beside=(stands_on, other),
                keyspaces=wanted or other.keyspaces,
                where=where,
                process=bound,
            )
        return self._handle(name, row)

    def _bring_up_to_date(self) -> None:
        if (self._base.read_boundary() or 0) < self._published():
            refresh(self._path, self._options, checkpoint=True)  # else the base has all that was acknowledged

    def share(
        self,
        user: tuple[str, str],
        name: str,
        ttl: float,
        keyspaces: Iterable[str] | None,
        at: At | None,
        process: Identity | None,
    ) -> Pin:
        """Have a part in a pin of the last commit, or of what another pin holds; see ``Leases.share``."""
        if at is None:
            self._bring_up_to_date()
            return self._handle(*self.leases.share(user, name, ttl, keyspaces=keyspaces, process=process))
        check_at(at)
        stands_on, other = self._pin_at(at)
        wanted = keyspaces if keyspaces is not None else other.keyspaces
        beside = (stands_on, other)
        return self._handle(*self.leases.share(user, name, ttl, beside=beside, keyspaces=wanted, process=process))

    def join(self, name: str, user: tuple[str, str], ttl: float) -> Pin:
        """Have a part in the pin ``name``."""
        return self._handle(name, self.leases.join(name, user, ttl))

    def hand_over(self, pin: Pin, successor: str) -> None:
        """Give a pin up, to those that have a part in it."""
        row = self.leases.hand_over(pin.name, pin.id, successor)
        if row is not None:
            self._unpinned(row.ts)

    def leave(self, token: str) -> int:
        """Give up the parts that a user has in shared pins; returns how many pins went."""
        removed = self.leases.leave(token)
        for row in removed:
            self._unpinned(row.ts)
        return len(removed)

    def pin_of(self, token: str) -> Pin | None:
        """The living pin that a user has a part in."""
        now = self._time()
        found = ((name, row) for name, row in self.leases.all() if row.has_user(token) and row.expires > now)
        return next((self._handle(name, row) for name, row in found), None)

    def snapshot(self, at: At | None, depth: int) -> EngineSnapshot:
        """A snapshot of the last commit, at a pin, or at the timestamp of a live snapshot of this process."""
        engine = self._engine()
        if at is None:
            return EngineSnapshot(engine, None, depth + 1)
        check_at(at)
        if isinstance(at, int):
            with contextlib.suppress(SnapshotExpired):
                return EngineSnapshot(engine, at, depth + 1)
            for older in self._older():
                with contextlib.suppress(SnapshotExpired, UsageError):  # it may be too old, or have just ended
                    return EngineSnapshot(older, at, depth + 1)
        name, row = self._pin_at(at)
        return snapshot_at(self._base, self._options, name, row, depth + 1)

    def _pin_at(self, at: At) -> tuple[str, PinRow]:
        """The living pin that is meant."""
        if isinstance(at, Pin):
            return at.name, self.leases.find(at.name, at.id)
        if isinstance(at, str):
            return at, self.leases.find(at)
        return self.leases.holder_of(at)
