"""Checks reads against a single order of commits, if versions are numbered across keys.

All results of one scan must have been current at one instant, and the successive reads of a transaction at
non-decreasing instants.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import NamedTuple

from lowtide.audit.anomalies import Finding
from lowtide.audit.observations import Observations
from lowtide.audit.orders import INITIAL, UNKNOWN, Order, Read, equal_writes


def visible(order: Order, position: int) -> tuple[float, float] | None:
    """Return the commits between which a version, or an equal one, was the newest of its key. None where that is
    unknown."""
    writes = order.order
    first, following = equal_writes(order, position)
    begin = 0 if position == INITIAL else writes[first].version
    end = writes[following].version if following < len(writes) else inf
    return None if begin is None or end is None else (begin, end)


class TimeSpan(NamedTuple):
    """The commits between which what a read saw was the newest version of its key.

    ``writers`` wrote what it saw and what it missed.
    """

    place: int
    scan: bool
    key: str
    begin: float
    end: float
    writers: tuple[int, ...]


def broken_instants(observed: Observations) -> Iterator[Finding]:
    """Find scans that mix two instants, and reads of a state older than one their transaction had already seen."""
    for tx, of_one in groupby(observed.reads, key=attrgetter("tx")):
        spans = [span for read in of_one if (span := span_of(observed, read)) is not None]
        if len(spans) > 1:
            yield from broken_spans(tx, str(observed.transactions[tx]), spans)


def span_of(observed: Observations, read: Read) -> TimeSpan | None:
    """Return the span of a read, or None if it is unknown."""
    order = observed.orders.get(read.key)
    if order is None or read.position == UNKNOWN or (shown := visible(order, read.position)) is None:
        return None
    following = equal_writes(order, read.position)[1]
    writes = [order.order[each] for each in (read.position, following) if 0 <= each < len(order.order)]
    scan = observed.transactions[read.tx].operations[read.place].op == "scan"
    return TimeSpan(read.place, scan, read.key, *shown, writers=tuple(write.tx for write in writes))


def broken_spans(tx: int, name: str, spans: list[TimeSpan]) -> Iterator[Finding]:
    """Find what is wrong with the spans of one transaction's reads."""
    seen, seen_of = 0.0, ""
    for _, of_place in groupby(sorted(spans, key=attrgetter("place")), key=attrgetter("place")):
        together = list(of_place)
        # By the key as well: of two keys that one commit wrote, an audit in pieces must name the same one.
        newest = max(together, key=attrgetter("begin", "key"))
        oldest = min(together, key=attrgetter("end", "key"))
        if newest.scan and newest.begin >= oldest.end:
            words = (
                f"a scan of {name} saw {newest.key} as of commit {newest.begin:.0f}, "
                f"and {oldest.key} as it was before commit {oldest.end:.0f}"
            )
            transactions = tuple(dict.fromkeys((tx, *newest.writers, *oldest.writers)))
            yield Finding("fractured-scan", transactions, tuple(dict.fromkeys((newest.key, oldest.key))), words)
        if oldest.end <= seen:
            words = _vanished(name, seen_of, seen, oldest.key, oldest.end)
            yield Finding(
                "observed-vanishes", tuple(dict.fromkeys((tx, *oldest.writers))), (seen_of, oldest.key), words
            )
        if newest.begin > seen:
            seen, seen_of = newest.begin, newest.key


def _vanished(name: str, seen_of: str, seen: float, key: str, overwritten: float) -> str:
    return (
        f"{name} saw {seen_of} as of commit {seen:.0f}, and afterwards {key} as it was before commit {overwritten:.0f}"
    )
