"""Scans that did not find a key: which write of it they missed, without going through all pairs of both.

Whatever lies in the range of a scan and was not found was not there. So the scan comes before the first write of each
such key, and most of these edges lead forward, to keys that were made later. Two figures of a scan are enough to divide
the history: how far back these edges lead, and the first commit that it missed. The edges themselves are made within
one piece.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple

import numpy as np

from lowtide.pipeline.audit.pieces import Floats
from lowtide.pipeline.audit.records import First, Glimpse, Link, RangeRead, ReadNote


class Missed(NamedTuple):
    """What a scan missed: the earliest position of a write, and the first commit, with its key and its writer."""

    position: float
    glimpse: Glimpse | None


class Firsts:
    """The first writes of the keys of a range, each at its position."""

    def __init__(self, firsts: Iterable[tuple[First, float]]) -> None:
        by_key: dict[str, list[tuple[First, float]]] = {}
        for first, position in firsts:
            by_key.setdefault(first.key, []).append((first, position))
        self._keys = sorted(by_key)
        self._numbers = {key: number for number, key in enumerate(self._keys)}
        self._all = [by_key[key] for key in self._keys]
        self._positions: Floats = np.array([min(position for _, position in each) for each in self._all], np.float64)
        ends = [next((first.end for first, _ in each if first.end is not None), inf) for each in self._all]
        self._ends: Floats = np.array(ends, np.float64)

    def _range(self, scan: RangeRead) -> slice:
        begin = bisect_left(self._keys, scan.low or "")
        end = len(self._keys) if scan.high is None else bisect_left(self._keys, scan.high)
        return slice(begin, max(begin, end))

    def _known(self, scan: RangeRead, within: slice) -> list[int]:
        """Which of the keys in a range the scan found, or its own transaction writes."""
        numbers = (self._numbers.get(key, -1) for keys in (scan.found, scan.own) for key in keys)
        return [number - within.start for number in numbers if within.start <= number < within.stop]

    def missed(self, scan: RangeRead) -> Missed | None:
        """What the scan missed; None if nothing."""
        within = self._range(scan)
        if within.start == within.stop:
            return None
        positions, ends = self._positions[within].copy(), self._ends[within].copy()
        known = self._known(scan, within)
        positions[known] = ends[known] = inf
        soonest = int(ends.argmin())
        glimpse = None
        if ends[soonest] < inf:
            writer = next(first for first, _ in self._all[within.start + soonest] if first.end is not None)
            glimpse = Glimpse(
                scan.facts.name,
                scan.place,
                scan=True,
                key=writer.key,
                begin=0.0,
                end=float(ends[soonest]),
                writers=[writer.name],
            )
        earliest = float(positions.min())
        return None if earliest == inf and glimpse is None else Missed(earliest, glimpse)

    def links(self, scan: RangeRead, low: float, high: float) -> Iterator[Link]:
        """The edges from a scan to the writes that it missed, of those at positions from ``low`` to ``high``."""
        within = self._range(scan)
        near = set(np.flatnonzero(self._positions[within] <= high).tolist())
        for number in sorted(near.difference(self._known(scan, within))):
            for first, position in self._all[within.start + number]:
                if low <= position <= high:
                    yield link(scan, first)


def link(scan: RangeRead, first: First) -> Link:
    """The edge from a scan to a write that it missed."""
    return Link(
        scan.facts.name,
        first.name,
        "rw",
        first.key,
        2 if first.unread else 1,
        rank=first.rank,
        earlier_write=None,
        earlier_read=ReadNote(scan.place, None, None, phantom=True),
        later_write=first.write,
        later_read=None,
    )
