"""Where to cut a range of keys so that each part has about as many: rules over counts, which know of no file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple


class Crossing(NamedTuple):
    """A place in a row of cells: in cell ``cell``, behind ``share`` of what it holds, from 0 to below 1."""

    cell: int
    share: float


def crossings(counts: Sequence[float], parts: int) -> list[Crossing]:
    """The ``parts`` - 1 places that cut cells with these counts into parts with as much each, in order; none if the
    cells are empty. O(cells + parts log cells)."""
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
    """Cuts between cells: ``keys[i]`` is the first key of the cell with ``counts[i]``. Each is the nearest to where it
    should be, so a part differs from the others by a cell at most."""
    places = (each.cell + (each.share >= 0.5) for each in crossings(counts, parts))
    return [keys[place] for place in places if 0 < place < len(keys)]


def of_keys(keys: Sequence[bytes], parts: int) -> list[bytes]:
    """Cuts of a range in which exactly these keys lie."""
    return tidy((keys[len(keys) * part // parts] for part in range(1, parts) if keys), keys[0] if keys else b"", None)


def tidy(keys: Iterable[bytes], low: bytes, high: bytes | None) -> list[bytes]:
    """Those of the keys that cut the range from ``low`` to before ``high`` in two, ascending, each once."""
    found: list[bytes] = []
    for key in keys:
        if key > (found[-1] if found else low) and (high is None or key < high):
            found.append(key)
    return found


def with_points(
    keys: Sequence[bytes], count: float, points: Iterable[tuple[bytes, float]]
) -> tuple[list[bytes], list[float]]:
    """Cells that begin with ``keys`` and have ``count`` each, with points laid over them: keys that add or take away so
    many. What a point adds is a cell of its own; what it takes away is taken from the cell that it lies in, and no cell
    has less than nothing. O((cells + points) log cells)."""
    counts = dict.fromkeys(keys, count)
    for key, extra in points:
        cell = key if extra > 0 else keys[max(bisect_right(keys, key) - 1, 0)]
        counts[cell] = counts.get(cell, 0.0) + extra
    cells = sorted(counts)
    return cells, [max(counts[cell], 0.0) for cell in cells]
