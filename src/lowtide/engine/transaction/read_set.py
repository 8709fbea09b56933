"""The read set of a serializable transaction: keys, including absent ones, and the scanned parts of ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from lowtide.engine.types import Range


class ReadSet:
    """Keys and ranges, to check against the keys of later commits. Used by one transaction only."""

    __slots__ = ("keys", "ranges")

    def __init__(self) -> None:
        self.keys: set[bytes] = set()
        self.ranges: list[Range] = []

    def begin_range(self) -> int:
        """Reserve a slot for a scan that is about to start; return its index."""
        self.ranges.append(Range(b"", b""))
        return len(self.ranges) - 1

    def extend_range(self, index: int, covered: Range) -> None:
        """Record how far the scan has read."""
        self.ranges[index] = covered

    def compiled(self) -> RangeSet:
        return RangeSet(self.ranges)


class RangeSet:
    """Ranges merged into disjoint ones, so that a key is looked up in O(log ranges)."""

    __slots__ = ("_highs", "_lows", "ranges")

    def __init__(self, ranges: Iterable[Range]) -> None:
        merged: list[tuple[bytes, bytes | None]] = []
        for low, high in sorted({(each.low, each.high) for each in ranges if each.low != each.high}, key=_by_low):
            if merged and (merged[-1][1] is None or low <= merged[-1][1]):
                merged[-1] = (merged[-1][0], _later(merged[-1][1], high))
            else:
                merged.append((low, high))
        self._lows = [low for low, _ in merged]
        self._highs = [high for _, high in merged]
        self.ranges = [Range(low, high) for low, high in merged]

    def find(self, keys: Iterable[bytes]) -> bytes | None:
        """One of ``keys`` that is in a range, or None."""
        if not self._lows:
            return None
        for key in keys:
            index = bisect_right(self._lows, key) - 1
            if index >= 0:
                high = self._highs[index]
                if high is None or key < high:
                    return key
        return None


def _by_low(pair: tuple[bytes, bytes | None]) -> bytes:
    return pair[0]


def _later(first: bytes | None, second: bytes | None) -> bytes | None:
    return None if first is None or second is None else max(first, second)
