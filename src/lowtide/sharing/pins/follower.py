"""Pins in a process that does not own the store, and pins that several users share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import Leases
from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.options import Options
from lowtide.sharing.pins.pin import Pin
from lowtide.sharing.pins.pins import At, PinRequest, Pins
from lowtide.sharing.pins.snapshot import snapshot_at
from lowtide.sharing.takeover import refresh, tell_of_pins
from lowtide.system.identity import Identity


class FollowerPins(Pins):
    """The pins of a store, in a follower. A fresh pin costs the owner a checkpoint if it has committed since its last
    one, and nothing otherwise.

    ``published`` is the last commit, from the shared page. The page was current when the follower was opened, and
    every owner since has updated it. ``engine`` is the engine of the current generation, ``older`` are those of the
    generations that still have snapshots.
    """

    def __init__(
        self,
        *,
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

    def _current_engine(self) -> Engine:
        return self._engine()

    def _older_engines(self) -> list[Engine]:
        return self._older()

    def _take(self, request: PinRequest, at: At | None) -> PinRow:
        beside, wanted = self._placed(at, request.keyspaces)
        return self.leases.take(
            request.name, request.ttl, beside=beside, keyspaces=wanted, where=request.where, process=request.process
        )

    def _placed(
        self, at: At | None, keyspaces: Iterable[str] | None
    ) -> tuple[tuple[str, PinRow] | None, Iterable[str] | None]:
        """The existing pin whose timestamp a new one takes, and the keyspaces that the new one holds. Without ``at``
        there is no such pin: the base then has every acknowledged commit, and the new pin is taken at its boundary."""
        if at is not None:
            beside = self._find(at)
            return beside, keyspaces if keyspaces is not None else beside[1].keyspaces
        if (self._base.read_boundary() or 0) < self._published():
            refresh(self._path, self._options, checkpoint=True)
        return None, keyspaces

    def _open_at(self, name: str, row: PinRow) -> EngineSnapshot:
        """A snapshot that ends with the pin."""
        return snapshot_at(self._base, self._options, name, row)

    # Pins that several users share

    def share(
        self,
        user: tuple[str, str],
        name: str,
        ttl: float,
        *,
        keyspaces: Iterable[str] | None,
        at: At | None,
        process: Identity | None,
    ) -> Pin:
        """Add ``user`` to a shared pin of the last commit, or of ``at``; see ``Leases.share``."""
        beside, wanted = self._placed(at, keyspaces)
        return self._handle(*self.leases.share(user, name, ttl, beside=beside, keyspaces=wanted, process=process))

    def join(self, name: str, user: tuple[str, str], ttl: float) -> Pin:
        """Add ``user`` to the pin ``name``."""
        return self._handle(name, self.leases.join(name, user, ttl))

    def hand_over(self, pin: Pin, successor: str) -> None:
        """Release a pin, but keep what it holds for its users; see ``Leases.hand_over``."""
        row = self.leases.hand_over(pin.name, pin.id, successor)
        if row is not None:
            self._unpinned(row.ts)

    def leave(self, token: str) -> int:
        """Remove a user from its shared pins; return how many pins were removed with their last user."""
        removed = self.leases.leave(token)
        for row in removed:
            self._unpinned(row.ts)
        return len(removed)

    def pin_of(self, token: str) -> Pin | None:
        """The live pin of a user."""
        now = self._time()
        found = ((name, row) for name, row in self.leases.all() if row.has_user(token) and row.expires > now)
        return next((self._handle(name, row) for name, row in found), None)
