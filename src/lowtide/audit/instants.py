"""Which instant a read was of, where versions are numbered across keys: what one scan saw, and what one transaction saw
in turn, must have been there at some instant, and at later and later ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import inf
from operator import attrgetter

from lowtide.audit.anomalies import Finding
from lowtide.audit.history import RecordedTransaction
from lowtide.audit.observations import Observations
from lowtide.audit.orders import INITIAL, UNKNOWN, Order, Read


def visible(order: Order, position: int) -> tuple[float, float] | None:
    """From which commit up to which one a version was the newest of its key; None where that is not known."""
    writes = order.order
    begin = 0 if position == INITIAL else writes[position].version
    end = writes[position + 1].version if position + 1 < len(writes) else inf
    return None if begin is None or end is None else (begin, end)


def broken_instants(observed: Observations) -> Iterator[Finding]:
    """Scans that show two instants, and reads that go back behind what their transaction had seen."""
    for tx, all_of_one in groupby(observed.reads, key=attrgetter("tx")):
        of_one = sorted(all_of_one, key=attrgetter("place"))
        if len(of_one) == 1:
            continue
        seen, seen_of = 0.0, ""
        transaction = observed.transactions[tx]
        for place, together in groupby(of_one, key=attrgetter("place")):
            spans = [
                (span, read)
                for read in together
                if read.position != UNKNOWN and read.key in observed.orders
                if (span := visible(observed.orders[read.key], read.position)) is not None
            ]
            if not spans:
                continue
            (newest, _), newest_read = max(spans, key=lambda each: each[0][0])
            (_, soonest), oldest_read = min(spans, key=lambda each: each[0][1])
            if transaction.operations[place].op == "scan" and newest >= soonest:
                words = (
                    f"a scan of {transaction} saw {newest_read.key} as of commit {newest:.0f}, "
                    f"and {oldest_read.key} as it was before commit {soonest:.0f}"
                )
                yield Finding(
                    "fractured-scan",
                    _with_writers(observed, newest_read, oldest_read),
                    _keys(newest_read, oldest_read),
                    words,
                )
            if soonest <= seen:
                words = _vanished(transaction, seen_of, seen, oldest_read.key, soonest)
                yield Finding(
                    "observed-vanishes", _with_writers(observed, oldest_read), (seen_of, oldest_read.key), words
                )
            if newest > seen:
                seen, seen_of = newest, newest_read.key


def _vanished(transaction: RecordedTransaction, seen_of: str, seen: float, key: str, overwritten: float) -> str:
    return (
        f"{transaction} saw {seen_of} as of commit {seen:.0f}, "
        f"and afterwards {key} as it was before commit {overwritten:.0f}"
    )


def _with_writers(observed: Observations, *reads: Read) -> tuple[int, ...]:
    """The reader, and who wrote what it saw and what it missed."""
    found = dict.fromkeys([reads[0].tx])
    for read in reads:
        writes = observed.orders[read.key].order
        found |= dict.fromkeys(write.tx for write in writes[max(read.position, 0) : read.position + 2])
    return tuple(found)


def _keys(*reads: Read) -> tuple[str, ...]:
    return tuple(dict.fromkeys(read.key for read in reads))
