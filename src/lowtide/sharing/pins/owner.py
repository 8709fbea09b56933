"""Pins in the process that owns the store.

A pin is never above the boundary. So a new pin takes three steps: a snapshot holds its timestamp, a checkpoint moves
the boundary there, and the pin's row is written. Only then is the snapshot closed, so that one of the two always holds
the timestamp.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lowtide.engine.base.leases import Leases
from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.errors import SnapshotExpired
from lowtide.sharing.pins.pins import At, PinRequest, Pins


class OwnerPins(Pins):
    """The pins of a store, in its owner. ``checkpoint`` moves the boundary to a timestamp or beyond."""

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

    def _current_engine(self) -> Engine:
        return self._engine

    def _take(self, request: PinRequest, at: At | None) -> PinRow:
        with self.snapshot(at) as held:
            wanted = request.keyspaces if request.keyspaces is not None else held.keyspaces
            for each in wanted or ():
                held.keyspace(each)  # raises if ``at`` is a pin that does not hold it
            self._checkpoint(held.ts)  # point: pin.held
            take = partial(self.leases.take, request.name, request.ttl, keyspaces=wanted, where=request.where)
            row = take(at=held.ts, process=request.process)  # point: pin.take
            self._check_held(held, request.name, row)
        return row

    def _check_held(self, held: EngineSnapshot, name: str, row: PinRow) -> None:
        """Remove the pin if ``held`` expired before the row was written: what it sees may have been collected."""
        try:
            held.open_ts()
        except SnapshotExpired:
            self.leases.remove(name, row.id)
            raise

    def _open_at(self, name: str, row: PinRow) -> EngineSnapshot:
        """Open a snapshot that holds its timestamp itself, so that it stays valid after the pin is removed."""

        def pinned() -> bool:
            self.leases.find(name, row.id)  # by id: a later pin of this name may have another timestamp
            return True

        return EngineSnapshot(self._engine, row.ts, pinned=pinned, keyspaces=row.keyspaces)

    def expire(self) -> None:
        """Remove the pins that have expired, and collect what they held. Also collect what was held by pins that other
        processes removed, even if those died before they could report it."""
        for row in self.leases.expire():
            self._unpinned(row.ts)
        for ts in self.leases.removed_elsewhere():
            self._unpinned(ts)
