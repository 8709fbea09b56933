"""Where to cut a range of keys into parts of about equal size: pure rules over counts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple


class Crossing(NamedTuple):
    """A place in a sequence of cells: in cell ``cell``, after ``share`` of its content, from 0 to below 1."""

    cell: int
    share: float


def crossings(counts: Sequence[float], parts: int) -> list[Crossing]:
    """The ``parts`` - 1 places, in order, that cut cells with these counts into equal parts; none if the cells are
    empty. O(cells + parts log cells)."""
    sums = list(accumulate(counts))
    if not sums or sums[-1] <= 0:
        return []
    found = []
    for part in range(1, parts):
        wanted = sums[-1] * part / parts
        cell = min(bisect_right(sums, wanted), len(sums) - 1)
        inside = wanted - (sums[cell - 1] if cell else 0)
        share = inside / counts[cell] if counts[cell] > 0 else 0.0
        found.append(Crossing(cell, min(max(share, 0.0), 1 - 1e-9)))
    return found


def nearest(keys: Sequence[bytes], counts: Sequence[float], parts: int) -> list[bytes]:
    """Cuts between cells: ``keys[i]`` is the first key of the cell with ``counts[i]``. Each cut is the one nearest to
    its ideal place, so parts differ by at most one cell."""
    places = (each.cell + (each.share >= 0.5) for each in crossings(counts, parts))
    return [keys[place] for place in places if 0 < place < len(keys)]


def of_keys(keys: Sequence[bytes], parts: int) -> list[bytes]:
    """Cuts of a range that contains exactly these keys."""
    return tidy((keys[len(keys) * part // parts] for part in range(1, parts) if keys), keys[0] if keys else b"", None)


def tidy(keys: Iterable[bytes], low: bytes, high: bytes | None) -> list[bytes]:
    """The distinct keys above ``low`` and below ``high``, ascending."""
    found: list[bytes] = []
    for key in keys:
        if key > (found[-1] if found else low) and (high is None or key < high):
            found.append(key)
    return found


def with_points(
    keys: Sequence[bytes], count: float, points: Iterable[tuple[bytes, float]]
) -> tuple[list[bytes], list[float]]:
    """Cells that begin with ``keys`` and have ``count`` each, changed by points: keys that add or subtract an amount. A
    point that adds becomes a cell of its own. A point that subtracts does so from its cell, down to 0. O((cells +
    points) log cells)."""
    counts = dict.fromkeys(keys, count)
    for key, extra in points:
        cell = key if extra > 0 else keys[max(bisect_right(keys, key) - 1, 0)]
        counts[cell] = counts.get(cell, 0.0) + extra
    cells = sorted(counts)
    return cells, [max(counts[cell], 0.0) for cell in cells]
