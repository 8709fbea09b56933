"""The distribution of rows in a range of keys: about how many there are, and the keys that cut them evenly.

It is computed from LMDB's pages, in milliseconds for any number of rows. It reads all branch pages of the range, and
the headers of its leaves, or of an even sample of them if there are many. In each branch page that contains a cut, all
leaves are read, and the exact row is found in its leaf.
"""

from __future__ import annotations

from random import Random
from struct import error as StructError
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lowtide.engine.base.cuts import crossings, tidy
from lowtide.engine.base.pages import LEAF, LeafSpan, PageFile, Unreadable, decode_table

if TYPE_CHECKING:
    import lmdb

_LEAST_SAMPLE, _LARGEST_SAMPLE = 4096, 65536
_SAMPLE_OF_A_PART = 512
"""Leaves that are read for each part. Even if one leaf has a hundred times the rows of another, a hundred parts differ
by less than a fifth."""

_FEWEST_OF_A_STRETCH = 2


class PagedRows(Protocol):
    """An object that provides the pages of the file that a transaction reads."""

    def pages(self, txn: lmdb.Transaction[bytes]) -> PageFile: ...


class Outline(NamedTuple):
    """The result. ``rows`` estimates the number of rows that count: by default all, including tombstones. ``cuts`` are
    full keys in the range. ``heavy`` says whether many values are so large that they are stored outside the B+tree's
    leaves."""

    rows: int
    cuts: list[bytes]
    heavy: bool


def outline(
    txn: lmdb.Transaction[bytes],
    rows: PagedRows,
    low: bytes,
    high: bytes | None,
    parts: int,
    *,
    table: bytes = b"rows",
    below: bytes | None = None,
) -> Outline | None:
    """The outline of the rows with ``low <= key < high`` as the transaction sees them; None if the file cannot be read,
    or is so small that it has no branch page.

    With ``below`` only smaller rows count: those visible to a snapshot with this horizon. That takes longer for each
    leaf, so fewer leaves are read. With ``table`` the keys of that table are counted, each once.
    """
    try:
        found = decode_table(txn.get(table))
        with rows.pages(txn) as pages:
            stretches = list(pages.stretches(found, low, high))
            look = _Look(pages, below)
            counts = look.counts(stretches, parts)
            cuts = tidy(look.keys(stretches, counts, parts), low, high)
            return Outline(round(sum(counts)), cuts, found.overflow > found.leaves)
    except (Unreadable, OSError, StructError):
        return None


class _Look:
    """One examination of the pages."""

    def __init__(self, pages: PageFile, below: bytes | None) -> None:
        self._pages = pages
        self._below = below
        self._counts_all = True
        """Whether there are so few leaves that all of them are read."""
        self._known: dict[int, int] = {}
        """The counts of leaves with ``below``, by page."""

    def _leaf(self, branch: int, index: int) -> int:
        number = self._pages.child(branch, index)
        if self._below is None:
            return self._pages.count(number, LEAF)
        if number not in self._known:
            self._known[number] = self._pages.count_below(number, self._below)
        return self._known[number]

    def _leaves(self, stretch: LeafSpan) -> list[int]:
        return [self._leaf(stretch.page, index) for index in range(stretch.first, stretch.end)]

    def _located(self, stretch: LeafSpan) -> list[int]:
        """The number of rows in each leaf of a stretch, to locate a position among them. With ``below`` and many leaves
        all rows are counted, as if the share of rows that count were the same everywhere in the stretch."""
        if self._below is None or self._counts_all:
            return self._leaves(stretch)
        children = (self._pages.child(stretch.page, index) for index in range(stretch.first, stretch.end))
        return [self._pages.count(number, LEAF) for number in children]

    def counts(self, stretches: list[LeafSpan], parts: int) -> list[float]:
        """Estimates of the number of rows in the leaves of each stretch."""
        wanted = min(max(_LEAST_SAMPLE, _SAMPLE_OF_A_PART * parts), _LARGEST_SAMPLE)
        if self._below is not None:
            wanted = min(wanted, _LEAST_SAMPLE // 2)
        leaves = sum(each.end - each.first for each in stretches)
        self._counts_all = leaves <= wanted
        random = Random(leaves).random  # a random leaf in each step: fixed steps could coincide with a pattern
        counts: list[float] = []
        for stretch in stretches:
            length = stretch.end - stretch.first
            sample = min(length, max(_FEWEST_OF_A_STRETCH, -(-wanted * length // max(leaves, 1))))
            if sample == length:
                counts.append(sum(self._leaves(stretch)))
            else:
                step = length / sample
                places = (stretch.first + int((index + random()) * step) for index in range(sample))
                found = [self._leaf(stretch.page, min(place, stretch.end - 1)) for place in places]
                counts.append(sum(found) * step)
        return counts

    def keys(self, stretches: list[LeafSpan], counts: list[float], parts: int) -> list[bytes]:
        """The keys of the rows at the cuts, or of nearby rows if not all rows count."""
        pages = self._pages
        keys: list[bytes] = []
        known: dict[int, list[int]] = {}
        for place, share in crossings(counts, parts):
            stretch = stretches[place]
            if place not in known:
                known[place] = self._located(stretch)
            row = int(share * sum(known[place]))
            for index, count in enumerate(known[place]):
                if row < count:
                    keys.append(pages.key(pages.child(stretch.page, stretch.first + index), row))
                    break
                row -= count
        return keys
