"""How much of the history live snapshots see, and how much of it is garbage: counted, never walked.

A superseded version is seen by a run of neighbours among the live timestamps: those in ``[begin, end)``. All versions
of one keyspace with the same first and last seer have the same fate, so the ledger counts them together, in one *cell*.
When a timestamp is no longer live, the cells that begin or end with it shrink to the next one that is, and a cell with
nobody left has become garbage. That is known without reading a single version.

The checkpoint that adds versions counts their cells. A sweep takes off what it drops. What cannot be accounted for
(the first sweep of a store that was opened, a helper process that was lost with its answer) is counted again by a sweep
of everything, which every such version passes: it walks in the order of ends, and checkpoints only add behind it.

Who writes: the collector's one running pass, under its lock. The live snapshots must be the same for the ledger and for
the sweep that it accounts for, so ``settle`` is called with the sample of the sweep's own transaction.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lowtide.engine.garbage.living import Living

Cell: TypeAlias = tuple[bytes, int, int]
"""A keyspace's prefix, and the first and the last live timestamp that see a version."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What one checkpoint added to the history: versions by cell. All of them ended at or before ``upto``, and after
    whatever any earlier checkpoint added."""

    upto: int
    cells: Mapping[Cell, int]


class Ledger:
    """The counts of one history; see the module."""

    def __init__(self) -> None:
        self.upto = 0
        """Versions that ended later are not counted yet."""
        self.unseen = 0
        """How many of the counted versions no live snapshot sees: the garbage."""
        self.counting = False
        """Whether a sweep of everything is counting, so that what a checkpoint adds is left to it."""
        self._cells: dict[Cell, int] = {}
        self.left_by: set[int] = set()
        """The last seers of what has become garbage and is not being swept yet."""

    @property
    def seen(self) -> int:
        """How many of the counted versions a live snapshot sees."""
        return sum(self._cells.values())

    @property
    def total(self) -> int:
        return self.seen + self.unseen

    @property
    def last_seers(self) -> dict[int, int]:
        """How many versions have each timestamp as the last that sees them: no version becomes garbage before its last
        seer has ended."""
        found: dict[int, int] = {}
        for (_, _, last), count in self._cells.items():
            found[last] = found.get(last, 0) + count
        return found

    def add(self, kept: Kept) -> None:
        """Count what a checkpoint has added, unless a sweep of everything counts it, or has."""
        if not self.counting and kept.upto > self.upto:
            self._count(kept.cells.items())
            self.upto = kept.upto

    def _count(self, cells: Iterable[tuple[Cell, int]]) -> None:
        for cell, count in cells:
            self._cells[cell] = self._cells.get(cell, 0) + count

    def settle(self, living: Living) -> None:
        """Let go of the timestamps that are no longer live. O(cells)."""
        settled: dict[Cell, int] = {}
        for cell, count in self._cells.items():
            prefix, first, last = cell
            live = living.of(prefix).live
            low, high = bisect_left(live, first), bisect_right(live, last) - 1
            if low > high:
                self.unseen += count
                self.left_by.add(last)
                continue
            if live[low] != first or live[high] != last:
                cell = prefix, live[low], live[high]
            settled[cell] = settled.get(cell, 0) + count
        self._cells = settled

    def take_left_by(self) -> set[int]:
        """``left_by``, for the one who sweeps after them."""
        left, self.left_by = self.left_by, set()
        return left

    def swept(self, dropped: int) -> None:
        """A sweep has dropped so many of the counted versions, all of them garbage."""
        self.unseen -= dropped

    def count_again(self) -> None:
        """Forget all counts: a sweep of everything begins."""
        self._cells, self.unseen, self.left_by, self.counting = {}, 0, set(), True

    def counted(self, cells: Mapping[Cell, int]) -> None:
        """The sweep of everything has met these versions and left them."""
        self._count(cells.items())

    def all_counted(self, upto: int) -> None:
        """The sweep of everything has met every version that the base holds at its boundary ``upto``."""
        self.upto, self.counting = max(self.upto, upto), False
