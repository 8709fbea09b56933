"""Where a history may be cut: the pure rule.

Transactions stand in a row, each at its position. An edge to the same position or one before it leads back. A cycle
must lead back over each place that it crosses, so no cycle crosses a place over which no edge leads back. A stretch
between two such places is a piece: all of each cycle is in one piece. Treating two pieces as one is equally correct, so
it is enough to examine a sample of the places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, nextafter
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Indexes = np.ndarray[Any, np.dtype[np.int64]]

NOWHERE = -1e308
"""The position of a transaction of which nothing is known, and that saw nothing."""


def after(seen: float) -> float:
    """The position of a transaction that is known by what it saw only: just after that."""
    return nextafter(seen, inf)


class Places:
    """Places where a history might be cut, each just before a position, and how far edges lead back over them.

    >>> from lowtide.pipeline.audit.pieces import Places
    >>> places = Places([1.0, 2.0, 3.0, 4.0])
    >>> places.note([2.0], [3.0])
    >>> places.pieces().cuts.tolist()
    [1.0, 2.0, 4.0]
    """

    def __init__(self, positions: Iterable[float]) -> None:
        self.bounds: Floats = np.unique(np.array(list(positions), np.float64))
        self.reach: Floats = np.full(len(self.bounds) + 1, -inf)
        """For each stretch between two bounds, how far edges reach that lead back to it."""

    def note(self, targets: Sequence[float] | Floats, sources: Sequence[float] | Floats) -> None:
        """Take edges into account that lead back from ``sources`` to ``targets``."""
        stretches = np.searchsorted(self.bounds, np.asarray(targets, np.float64), side="right")
        np.maximum.at(self.reach, stretches, np.asarray(sources, np.float64))

    def pieces(self) -> Pieces:
        """The pieces, when all edges are known."""
        reached = np.maximum.accumulate(self.reach)[:-1]
        uncrossed = reached < self.bounds
        cuts = self.bounds[uncrossed]
        stretches = np.concatenate([[0], np.cumsum(uncrossed)])
        back = np.zeros(len(cuts) + 1, bool)
        back[stretches[self.reach > -inf]] = True
        return Pieces(cuts, back)


class Pieces:
    """Stretches of positions; ``back`` tells in which of them edges lead back. Only there may be a cycle."""

    def __init__(self, cuts: Floats, back: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        self.cuts = cuts
        self.back = back

    def of(self, positions: Sequence[float] | Floats) -> Indexes:
        """The number of the piece of each position, -1 where no cycle can be."""
        found = np.searchsorted(self.cuts, np.asarray(positions, np.float64), side="right")
        return np.where(self.back[found], found, -1)


class Stretches:
    """The finest pieces, from all edges that lead back: stretches that these cover."""

    def __init__(self, targets: Sequence[float] | Floats, sources: Sequence[float] | Floats) -> None:
        low, high = np.asarray(targets, np.float64), np.asarray(sources, np.float64)
        order = np.argsort(low, kind="stable")
        low, reach = low[order], np.maximum.accumulate(high[order])
        begins = np.ones(len(low), bool)
        begins[1:] = low[1:] > reach[:-1]
        self._begins: Floats = low[begins]
        ends = np.append(np.flatnonzero(begins)[1:], len(low)) - 1
        self._ends: Floats = reach[ends] if len(low) else low

    def of(self, positions: Sequence[float] | Floats) -> Indexes:
        """The number of the stretch of each position, -1 outside of all."""
        wanted = np.asarray(positions, np.float64)
        if not len(self._begins):
            return np.full(len(wanted), -1)
        found = np.searchsorted(self._begins, wanted, side="right") - 1
        inside = (found >= 0) & (wanted <= self._ends[found])
        return np.where(inside, found, -1)

    def bounds(self, position: float) -> tuple[float, float]:
        """The first and the last position of the stretch that ``position`` is in."""
        number = int(self.of([position])[0])
        return float(self._begins[number]), float(self._ends[number])
