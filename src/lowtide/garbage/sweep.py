"""Sweeping the history: what was kept for a snapshot goes when the snapshot has gone.

Work follows what can be reclaimed. A version that only snapshot ``s`` still saw ended after ``s`` and at or before
the next live snapshot ``n``; so the end of ``s`` makes exactly the stretch ``(s, n]`` of the history, which is
ordered by end, worth walking. Within it what is still seen is skipped, not stopped at. Tombstone rows are swept in
the order of their timestamps, up to the oldest writer that could conflict with them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import lmdb

from lowtide.base.codec import decode_ts, encode_tombstone, encode_ts
from lowtide.base.environment import Base
from lowtide.base.history import Interval
from lowtide.garbage.horizon import Exact
from lowtide.garbage.living import Living, with_pins

_FOREVER = 1 << 62

Stretch: TypeAlias = tuple[bytes, int]
"""The part of the history from a row key on, up to and including an end timestamp."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What one budgeted sweep did: how many versions it dropped, and the stretches it did not get to."""

    dropped: int
    rest: list[Stretch]


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


def sweep_history(base: Base, sample: Callable[[], Exact], wanted: list[Stretch], budget: int) -> Swept:
    """Drop what nobody needs in the ``wanted`` stretches, looking at ``budget`` versions at most.

    Who lives is asked inside the write transaction, where the pins are read, too: no checkpoint can then add versions
    that the answer knows nothing of.
    """
    if not wanted or base.count_history() == 0:
        return Swept(0, [])

    def change(txn: lmdb.Transaction[bytes]) -> Swept:
        snapshots = sample()  # point: sweep.sampled
        living = with_pins(snapshots, (row for _, row in base.pins.all(txn)))
        if living.nobody:
            dropped = base.history.count(txn)
            base.history.clear(txn)
            return Swept(dropped, [])
        garbage, rest = _find_garbage(txn, base, living, wanted, budget)
        base.history.remove(txn, garbage)
        return Swept(len(garbage), rest)

    return base.write(change)


def _find_garbage(
    txn: lmdb.Transaction[bytes], base: Base, living: Living, wanted: list[Stretch], budget: int
) -> tuple[list[Interval], list[Stretch]]:
    garbage: list[Interval] = []
    for index, (first, upto) in enumerate(wanted):
        for interval in base.history.intervals(txn, first):
            if interval.end > upto:
                break
            if budget == 0:
                return garbage, [(interval.row_key, upto), *wanted[index + 1 :]]
            budget -= 1
            if not living.of(interval.full_key).needs(interval.begin, interval.end):
                garbage.append(interval)
    return garbage, []


def sweep_tombstones(base: Base, oldest_writer: int, budget: int) -> int:
    """Drop the tombstone rows that no writer can conflict with any more."""

    def change(txn: lmdb.Transaction[bytes]) -> int:
        cursor = txn.cursor(base.tombstones)
        dropped = 0
        while dropped < budget and cursor.first() and decode_ts(entry := cursor.key()) <= oldest_writer:
            row = encode_tombstone(decode_ts(entry))
            if txn.get(entry[8:], db=base.rows) == row:
                txn.delete(entry[8:], db=base.rows)
            cursor.delete()
            dropped += 1
        return dropped

    return base.write(change)
