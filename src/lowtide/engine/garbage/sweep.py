"""Sweeping the history: dropping what was kept for a snapshot after the snapshot has ended.

The work is proportional to what can be reclaimed. A version that only snapshot ``s`` still saw ended after ``s`` and at
or before the next live snapshot ``n``. The history is ordered by end, so when ``s`` ends, exactly the stretch ``(s,
n]`` is worth walking. Versions in it that are still seen are skipped. Tombstone rows are swept in the order of their
timestamps, up to the oldest writer that could conflict with them.

A sweep that has a ledger settles it with its own sample of live snapshots, and drops only what the ledger has counted.
So the ledger's garbage is exactly what the sweep finds. A sweep of everything counts what it leaves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from lowtide.engine.base.codec import decode_ts, encode_tombstone, encode_ts
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval
from lowtide.engine.base.pin_table import oldest_writer_among
from lowtide.engine.base.types import Txn
from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.garbage.ledger import Cell, Ledger
from lowtide.engine.garbage.living import Living, with_pins
from lowtide.engine.types import KEYSPACE_PREFIX

_FOREVER = 1 << 62

Stretch: TypeAlias = tuple[bytes, int]
"""The part of the history from a row key on, up to and including an end timestamp."""


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of one budgeted sweep: how many versions it dropped, the stretches it did not reach, the versions it
    left, by the snapshots that see them, and the base's boundary. ``emptied`` if the history is now empty."""

    dropped: int
    rest: list[Stretch]
    left: dict[Cell, int] = field(default_factory=dict)
    boundary: int = 0
    emptied: bool = False


EVERYTHING: Stretch = (b"", _FOREVER)


def stretches(released: Iterable[int], live: tuple[int, ...]) -> list[Stretch]:
    """The stretches of the history in which the end of the ``released`` snapshots may have left garbage."""
    found: list[Stretch] = []
    for ts in sorted(set(released)):
        index = bisect_right(live, ts)
        upto = live[index] if index < len(live) else _FOREVER
        if not found or found[-1][1] < upto:
            found.append((encode_ts(ts + 1), upto))
    return found


def sweep_history(
    base: Base, sample: Callable[[], Exact], wanted: list[Stretch], budget: int, ledger: Ledger | None = None
) -> Swept:
    """Drop what no snapshot needs in the ``wanted`` stretches, examining at most ``budget`` versions.

    The live snapshots are sampled inside the write transaction, in which the pins are read too. So no checkpoint can
    add versions for a snapshot that is missing from the sample.
    """
    if not wanted or base.count_history() == 0:
        return Swept(0, [], emptied=bool(wanted))

    def change(txn: Txn) -> Swept:
        snapshots = sample()  # point: sweep.sampled
        living = with_pins(snapshots, (row for _, row in base.pins.all(txn)))
        boundary = base.boundary_in(txn) or 0
        if living.empty:
            dropped = base.history.count(txn)
            base.history.clear(txn)
            return Swept(dropped, [], boundary=boundary, emptied=True)
        if ledger is not None:
            ledger.settle(living)
        counted = ledger.upto if ledger is not None and not ledger.counting else _FOREVER
        garbage, left, rest = _find_garbage(txn, base, living, _up_to(wanted, counted), budget)
        base.history.remove(txn, garbage)
        return Swept(len(garbage), rest, left, boundary)

    return base.write(change)


def _up_to(wanted: list[Stretch], last: int) -> list[Stretch]:
    """The stretches without what ended after ``last``."""
    return [(first, min(upto, last)) for first, upto in wanted]


def _find_garbage(
    txn: Txn, base: Base, living: Living, wanted: list[Stretch], budget: int
) -> tuple[list[Interval], dict[Cell, int], list[Stretch]]:
    """The garbage in the ``wanted`` stretches, the other versions there by the snapshots that see them, and the
    stretches that the budget left out."""
    garbage: list[Interval] = []
    left: dict[Cell, int] = {}
    for index, (first, upto) in enumerate(wanted):
        for interval in base.history.intervals(txn, first):
            if interval.end > upto:
                break
            if budget == 0:
                return garbage, left, [(interval.row_key, upto), *wanted[index + 1 :]]
            budget -= 1
            horizon = living.of(interval.full_key)
            if not horizon.needs(interval.begin, interval.end):
                garbage.append(interval)
            elif seers := horizon.seers(interval.begin, interval.end):
                cell = interval.full_key[:KEYSPACE_PREFIX], *seers
                left[cell] = left.get(cell, 0) + 1
    return garbage, left, []


def sweep_tombstones(base: Base, oldest_writer: int, budget: int) -> int:
    """Drop the tombstone rows that no writer can conflict with any more: neither one of this process, where
    ``oldest_writer`` is the oldest, nor one of a joined process. The leases of joined processes are read in the
    transaction that drops, so a lease that exists has lost no deletion that came after it."""
    if base.read(lambda txn: txn.stat(base.tombstones))["entries"] == 0:
        return 0

    def change(txn: Txn) -> int:
        cursor = txn.cursor(base.tombstones)
        dropped = 0
        leases = [row for _, row in base.pins.all(txn)]
        upto = oldest_writer_among(leases, oldest_writer) or 0
        while dropped < budget and cursor.first() and decode_ts(entry := cursor.key()) <= upto:
            row = encode_tombstone(decode_ts(entry))
            if txn.get(entry[8:], db=base.rows) == row:
                txn.delete(entry[8:], db=base.rows)
            cursor.delete()
            dropped += 1
        return dropped

    return base.write(change)
