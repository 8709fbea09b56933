"""Who holds what: the versions that one snapshot alone keeps."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from lowtide.base.environment import Base
from lowtide.versions.chain import Chain
from lowtide.versions.layers import VersionStore


def held_alone(live: tuple[int, ...], intervals: Iterator[tuple[int, int]]) -> Counter[int]:
    """How many of the superseded versions, given as ``(begin, end)``, each live timestamp alone still sees."""
    held: Counter[int] = Counter()
    for begin, end in intervals:
        index = bisect_left(live, begin)
        if index < len(live) and live[index] < end and (index + 1 == len(live) or live[index + 1] >= end):
            held[live[index]] += 1
    return held


def superseded(versions: VersionStore, base: Base) -> Iterator[tuple[int, int]]:
    """The intervals of all superseded versions, in memory and in the history. O(their number)."""
    for layer in versions.layers:
        for key in list(layer.held):
            chain: Chain | None = layer.chains.get(key)
            while chain is not None and chain[2] is not None:
                yield chain[2][0], chain[0]
                chain = chain[2]
    if base.count_history():
        with base.env.begin() as txn:
            for interval in base.history.intervals(txn):
                yield interval.begin, interval.end
