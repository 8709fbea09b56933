"""One key: its whole history, and how that history is divided between chain, base and history table.

``read`` is the reader's rule in its simplest form. It is written a second time on purpose, independent of the collector
and the checkpoint that it is compared with.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import hypothesis.strategies as st

from lowtide.engine.base.codec import encode_row, encode_tombstone, is_tombstone, row_ts, row_value
from lowtide.engine.base.history import Interval
from lowtide.engine.versions.chain import Chain, Version, chain_of, versions_of

KEY = b"\x00\x00\x00\x01key"
LAST = 9
"""No commit is later than this one."""

Kept = list[tuple[Interval, bytes]]


@dataclass(frozen=True)
class Shelf:
    """Where the versions of one key are: newest ones in the chain, one in the base, older ones in the history."""

    chain: Chain | None
    row: bytes | None = None
    history: Kept = field(default_factory=list)

    def read(self, ts: int) -> bytes | None:
        """What a snapshot at ``ts`` sees."""
        for begin, value in versions_of(self.chain):
            if begin <= ts:
                return value
        if self.row is not None and not is_tombstone(self.row) and row_ts(self.row) <= ts:
            return row_value(self.row)
        for interval, kept in self.history:
            if interval.begin <= ts < interval.end:
                return kept
        return None

    def changed_at(self) -> int:
        """The last commit that is known to have changed the key: what a writer is validated against."""
        if self.chain is not None:
            return self.chain[0]
        return row_ts(self.row) if self.row is not None else 0


values = st.none() | st.binary(max_size=2)


@st.composite
def histories(draw: st.DrawFn) -> list[Version]:
    """The versions of a key, newest first; None is a deletion, and a key may be deleted twice."""
    stamps = sorted(draw(st.sets(st.integers(1, LAST), max_size=7)), reverse=True)
    return [(ts, draw(values)) for ts in stamps]


@st.composite
def shelves(draw: st.DrawFn) -> tuple[Shelf, list[Version], int]:
    """A whole history laid out at some boundary, nothing left out yet; with the history itself and the boundary."""
    versions = draw(histories())
    boundary = draw(st.integers(0, LAST))
    above = [version for version in versions if version[0] > boundary]
    below = [version for version in versions if version[0] <= boundary]
    row: bytes | None = None
    kept: Kept = []
    if below:
        ts, value = below[0]
        row = encode_row(ts, value) if value is not None else None
        if value is None and draw(st.booleans()):
            row = encode_tombstone(ts)
        for (end, _), (begin, older) in itertools.pairwise(below):
            if older is not None:
                kept.append((Interval(begin, end, KEY), older))
    return Shelf(chain_of(above), row, kept), versions, boundary


live_sets = st.sets(st.integers(0, LAST), max_size=4)


def snapshots(live: set[int], bound: int) -> list[int]:
    """Live snapshots and future ones. A snapshot that is not in the sample draws a timestamp at or above ``bound``, and
    at or above all timestamps of the sample: they were published when it was taken."""
    return sorted(live | set(range(max(bound, *live, 0), LAST + 2)))


def true_value(versions: list[Version], ts: int) -> bytes | None:
    """What a snapshot at ``ts`` must see of a history that is given newest first."""
    return next((value for begin, value in versions if begin <= ts), None)
