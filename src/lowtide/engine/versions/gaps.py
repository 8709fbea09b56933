"""Gaps: ranges of keys in which a scan finds nothing. Pure functions of immutable values.

A gap ``[low, high)`` with ``since`` means: no key of the range is visible to any snapshot at or after ``since``, until
the next put into the range. It stays true after deletions, and after collections and checkpoints, which move versions
without changing what is visible. A put cuts its key out of the gap.

The gaps of a keyspace are a tuple, ordered and disjoint. Where two overlap, the smaller ``since`` is kept: both are
true, and that one serves more snapshots. Neighbours are joined, with the larger ``since``, unless there is a live
snapshot that only the smaller one serves. So a run of deleted keys has at most one gap more than there are snapshots.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from lowtide.engine.types import Range

MOST_KEYS = 64
"""With more puts than this, everything between the first and the last is cut out, instead of each key."""


class Gap(NamedTuple):
    """Nothing is visible in ``low <= key < high`` from ``since`` on, until the next put."""

    low: bytes
    high: bytes
    since: int


Gaps: TypeAlias = tuple[Gap, ...]

_low, _high, _since = itemgetter(0), itemgetter(1), itemgetter(2)


def past(gaps: Gaps, wanted: Range, ts: int) -> Range | None:
    """A range without the gaps at its beginning, for a scan at ``ts``. It is the range itself if there are none, and
    None if nothing is left."""
    low, high, reverse, _ = wanted
    if high is None:
        return wanted
    if reverse:
        at = bisect_left(gaps, high, key=_low) - 1
        while at >= 0 and gaps[at].high >= high and gaps[at].since <= ts:
            high = gaps[at].low
            at -= 1
    else:
        at = max(bisect_right(gaps, low, key=_low) - 1, 0)
        while at < len(gaps) and gaps[at].low <= low < gaps[at].high and gaps[at].since <= ts:
            low = gaps[at].high
            at += 1
    if low == wanted.low and high == wanted.high:
        return wanted
    return Range(low, high, reverse) if low < high else None


def covers(gaps: Gaps, key: bytes) -> bool:
    """Whether one of the gaps contains the key."""
    at = bisect_right(gaps, key, key=_low) - 1
    return at >= 0 and key < gaps[at].high


def noted(gaps: Gaps, gap: Gap, apart: Callable[[int, int], bool]) -> Gaps:
    """The gaps with another one added. ``apart`` says whether there is a live snapshot at or after the first timestamp
    and before the second."""
    first = bisect_left(gaps, gap.low, key=_high)
    end = bisect_right(gaps, gap.high, key=_low)
    pieces: list[Gap] = []
    at = gap.low
    for low, high, since in gaps[first:end]:
        if low < gap.low:
            pieces.append(Gap(low, min(high, gap.low), since))
        if at < low:
            pieces.append(Gap(at, low, gap.since))
        inside, beyond = max(low, gap.low), min(high, gap.high)
        if inside < beyond:
            pieces.append(Gap(inside, beyond, min(since, gap.since)))
        at = max(at, high)
        if high > gap.high:
            pieces.append(Gap(max(low, gap.high), high, since))
    if at < gap.high:
        pieces.append(Gap(at, gap.high, gap.since))
    return gaps[:first] + _joined(pieces, apart) + gaps[end:]


def _joined(pieces: list[Gap], apart: Callable[[int, int], bool]) -> Gaps:
    """Join neighbours where this serves no snapshot worse."""
    joined = pieces[:1]
    for piece in pieces[1:]:
        low, high, since = joined[-1]
        lesser, larger = sorted((since, piece.since))
        if high == piece.low and (lesser == larger or not apart(lesser, larger)):
            joined[-1] = Gap(low, piece.high, larger)
        else:
            joined.append(piece)
    return tuple(joined)


def cut(gaps: Gaps, low: bytes, high: bytes) -> Gaps:
    """The gaps without ``low <= key < high``; the same object if none of them overlaps it."""
    first = bisect_right(gaps, low, key=_high)
    end = bisect_left(gaps, high, key=_low)
    if first >= end:
        return gaps
    before, after = gaps[first], gaps[end - 1]
    left = (Gap(before.low, low, before.since),) if before.low < low else ()
    right = (Gap(high, after.high, after.since),) if high < after.high else ()
    return gaps[:first] + left + right + gaps[end:]


def without(gaps: Gaps, keys: Sequence[bytes]) -> Gaps:
    """The gaps after puts of ``keys``."""
    if len(keys) > MOST_KEYS:
        return cut(gaps, min(keys), max(keys) + b"\x00")
    for key in keys:
        gaps = cut(gaps, key, key + b"\x00")
    return gaps


def bounded(gaps: Gaps, most: int) -> Gaps:
    """At most ``most`` of the gaps. Those with the smallest ``since`` are dropped first: they have gone the longest
    without growing."""
    while len(gaps) > most:
        oldest = gaps.index(min(gaps, key=_since))
        gaps = gaps[:oldest] + gaps[oldest + 1 :]
    return gaps
