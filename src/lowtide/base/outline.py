"""How the rows lie in a range of keys: about how many there are, and the keys that cut them evenly.

Read from LMDB's pages in milliseconds, however many rows there are: all branch pages of the range, and the headers of
its leaves, or, where those are many, of a sample of them that is spread evenly. In each branch page that a cut falls
into, all leaves are looked at, and in the leaf the very row is found.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from struct import error as StructError
from typing import TYPE_CHECKING, NamedTuple

from lowtide.base.cuts import crossings, tidy
from lowtide.base.pages import LEAF, PageFile, Stretch, Unreadable, decode_table

if TYPE_CHECKING:
    import lmdb

_LEAST_SAMPLE, _LARGEST_SAMPLE = 4096, 65536
_SAMPLE_OF_A_PART = 512
"""Leaves that are looked at for each part. Even if one leaf has a hundred times the rows of another, the parts of a
hundred differ by less than a fifth."""

_FEWEST_OF_A_STRETCH = 2


class Outline(NamedTuple):
    """``rows`` is about how many rows there are, tombstones and what is newer than a snapshot included; ``cuts`` are
    full keys in the range; ``heavy`` is whether many values are so large that they lie outside the B+tree's leaves."""

    rows: int
    cuts: list[bytes]
    heavy: bool


def outline(
    txn: lmdb.Transaction[bytes], directory: Path, low: bytes, high: bytes | None, parts: int
) -> Outline | None:
    """The outline of the rows with ``low <= key < high`` as the transaction sees them; None if the file cannot be
    understood, or is so small that it has no branch page."""
    try:
        table = decode_table(txn.get(b"rows"))
        with PageFile(directory / "data.mdb", txn.id()) as pages:
            stretches = list(pages.stretches(table, low, high))
            counts = _counts(pages, stretches, parts)
            cuts = tidy(_keys(pages, stretches, counts, parts), low, high)
            return Outline(round(sum(counts)), cuts, table.overflow > table.leaves)
    except (Unreadable, OSError, StructError):
        return None


def _counts(pages: PageFile, stretches: list[Stretch], parts: int) -> list[float]:
    """About how many rows the leaves of each stretch have."""
    wanted = min(max(_LEAST_SAMPLE, _SAMPLE_OF_A_PART * parts), _LARGEST_SAMPLE)
    leaves = sum(each.end - each.first for each in stretches)
    random = Random(leaves).random  # one leaf anywhere in each step: a fixed step could fall in with a pattern of keys
    counts: list[float] = []
    for stretch in stretches:
        length = stretch.end - stretch.first
        sample = min(length, max(_FEWEST_OF_A_STRETCH, -(-wanted * length // max(leaves, 1))))
        if sample == length:
            counts.append(sum(_leaves(pages, stretch)))
        else:
            step = length / sample
            places = (stretch.first + int((index + random()) * step) for index in range(sample))
            found = [_leaf(pages, stretch.page, min(place, stretch.end - 1)) for place in places]
            counts.append(sum(found) * step)
    return counts


def _leaf(pages: PageFile, branch: int, index: int) -> int:
    return pages.count(pages.child(branch, index), LEAF)


def _leaves(pages: PageFile, stretch: Stretch) -> list[int]:
    return [_leaf(pages, stretch.page, index) for index in range(stretch.first, stretch.end)]


def _keys(pages: PageFile, stretches: list[Stretch], counts: list[float], parts: int) -> list[bytes]:
    """The keys of the rows that the cuts fall on."""
    keys: list[bytes] = []
    known: dict[int, list[int]] = {}
    for place, share in crossings(counts, parts):
        stretch = stretches[place]
        if place not in known:
            known[place] = _leaves(pages, stretch)
        row = int(share * sum(known[place]))
        for index, count in enumerate(known[place]):
            if row < count:
                keys.append(pages.key(pages.child(stretch.page, stretch.first + index), row))
                break
            row -= count
    return keys
