"""The live snapshots of each keyspace: those of this process, and the pins, which may be limited to a few keyspaces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.types import KEYSPACE_PREFIX


@dataclass(frozen=True, slots=True)
class Living:
    """The horizon of each keyspace: ``everywhere`` for most, and another one for those that a limited pin keeps."""

    everywhere: Exact
    scoped: dict[bytes, Exact]

    def of(self, full_key: bytes) -> Exact:
        """The horizon for a key."""
        return self.scoped.get(full_key[:KEYSPACE_PREFIX], self.everywhere)

    def for_ended(self) -> Living:
        """The same horizons for versions that ended at or before their bound, see ``Exact.for_ended``."""
        scoped = {prefix: horizon.for_ended() for prefix, horizon in self.scoped.items()}
        return Living(self.everywhere.for_ended(), scoped)

    @property
    def empty(self) -> bool:
        """Whether there is no live snapshot at all, so that no superseded version is needed."""
        return not self.everywhere.live and not self.scoped


def with_pins(snapshots: Exact, pins: Iterable[PinRow]) -> Living:
    """The horizons of ``snapshots``, which see all keyspaces, and of ``pins``, read in the transaction that
    collects."""
    rows = list(pins)
    everywhere = snapshots.plus(row.ts for row in rows if row.prefixes is None)
    prefixes = {prefix for row in rows for prefix in row.prefixes or ()}
    scoped = {
        prefix: everywhere.plus(row.ts for row in rows if row.prefixes is not None and prefix in row.prefixes)
        for prefix in prefixes
    }
    return Living(everywhere, scoped)
