"""Counts of the history's rows, live and garbage, without walking them.

A superseded version is seen by a run of neighbours among the live timestamps: those in ``[begin, end)``. All versions
of one keyspace with the same first and last seer have the same fate, so the ledger counts them together, in one *cell*.
When a timestamp is no longer live, the cells that begin or end with it shrink to the next live one. A cell without a
live timestamp is garbage. No version has to be read to find this out.

The checkpoint that adds versions counts their cells. A sweep subtracts what it drops. What was not counted (before the
first sweep of an opened store, or when a helper process died before it answered) is counted by a sweep of everything.
That sweep visits every such version: it walks in the order of ends, and checkpoints add only after the position that it
has reached.

Who writes: the collector's one running pass, under its lock. The ledger and the sweep it counts for must agree on the
live snapshots, so ``settle`` is called with the sample of the sweep's own transaction.
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
    everything that an earlier checkpoint added."""

    upto: int
    cells: Mapping[Cell, int]


class Ledger:
    """The counts of one history; see the module."""

    def __init__(self) -> None:
        self.upto = 0
        """Versions that ended later are not counted yet."""
        self.unseen = 0
        """How many of the counted versions are garbage: no live snapshot sees them."""
        self.counting = False
        """Whether a sweep of everything is counting, so that what a checkpoint adds is left to it."""
        self._cells: dict[Cell, int] = {}
        self.left_by: set[int] = set()
        """The last seers of versions that have become garbage and are not being swept yet."""

    @property
    def seen(self) -> int:
        """How many of the counted versions a live snapshot sees."""
        return sum(self._cells.values())

    @property
    def total(self) -> int:
        return self.seen + self.unseen

    @property
    def last_seers(self) -> dict[int, int]:
        """The number of versions by their last seer. No version becomes garbage before its last seer has ended."""
        found: dict[int, int] = {}
        for (_, _, last), count in self._cells.items():
            found[last] = found.get(last, 0) + count
        return found

    def add(self, kept: Kept) -> None:
        """Count what a checkpoint has added, unless a sweep of everything counts it or has counted it."""
        if not self.counting and kept.upto > self.upto:
            self._count(kept.cells.items())
            self.upto = kept.upto

    def _count(self, cells: Iterable[tuple[Cell, int]]) -> None:
        for cell, count in cells:
            self._cells[cell] = self._cells.get(cell, 0) + count

    def settle(self, living: Living) -> None:
        """Remove the timestamps that are no longer live. O(cells)."""
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
        """Return ``left_by`` and clear it, for the sweep that follows."""
        left, self.left_by = self.left_by, set()
        return left

    def swept(self, dropped: int) -> None:
        """Subtract the counted versions that a sweep has dropped; all of them were garbage."""
        self.unseen -= dropped

    def count_again(self) -> None:
        """Reset all counts, because a sweep of everything begins."""
        self._cells, self.unseen, self.left_by, self.counting = {}, 0, set(), True

    def counted(self, cells: Mapping[Cell, int]) -> None:
        """Add versions that the sweep of everything has visited and kept."""
        self._count(cells.items())

    def all_counted(self, upto: int) -> None:
        """Record that the sweep of everything has visited every version of the base at its boundary ``upto``."""
        self.upto, self.counting = max(self.upto, upto), False
