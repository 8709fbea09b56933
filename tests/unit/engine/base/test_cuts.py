"""Choosing cuts from counts: as even as the cells allow, in order, inside the range."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine.base.cuts import crossings, nearest, of_keys, tidy, with_points

COUNTS = st.lists(st.integers(0, 1000), max_size=60)
PARTS = st.integers(1, 20)
KEYS = st.lists(st.binary(max_size=3), unique=True).map(sorted)


def sizes(keys: list[bytes], cuts: list[bytes]) -> list[int]:
    """How many keys each part has."""
    return [end - start for start, end in pairwise([0, *(bisect_left(keys, cut) for cut in cuts), len(keys)])]


@given(COUNTS, PARTS)
def test_each_crossing_has_its_share_of_everything_before_it(counts: list[int], parts: int) -> None:
    found = crossings(counts, parts)
    total = sum(counts)
    assert len(found) == (parts - 1 if total else 0)
    before = [0, *accumulate(counts)]
    for number, (cell, share) in enumerate(found, 1):
        assert 0 <= share < 1
        assert abs(before[cell] + share * counts[cell] - total * number / parts) < 0.001
    assert found == sorted(found)


@given(COUNTS, PARTS)
def test_cuts_between_cells_are_uneven_by_a_cell_at_most(counts: list[int], parts: int) -> None:
    cells = [b"%04d" % number for number in range(len(counts))]
    cuts = tidy(nearest(cells, counts, parts), b"", None)
    assert cuts == sorted(set(cuts))
    assert set(cuts) <= set(cells[1:])
    edges = [0, *(cells.index(cut) for cut in cuts), len(cells)]
    held = [sum(counts[start:end]) for start, end in pairwise(edges)]
    assert sum(held) == sum(counts)
    assert max(held, default=0) <= sum(counts) / parts + max(counts, default=0)


@given(KEYS, PARTS)
def test_cuts_of_known_keys_are_exact(keys: list[bytes], parts: int) -> None:
    cuts = of_keys(keys, parts)
    assert cuts == sorted(set(cuts))
    assert set(cuts) <= set(keys[1:])
    found = sizes(keys, cuts)
    assert len(found) == max(1, min(parts, len(keys)))
    assert max(found) - min(found) <= 1


@given(st.lists(st.binary(max_size=2)), st.binary(max_size=2), st.none() | st.binary(max_size=2))
def test_what_is_tidy_ascends_inside_the_range(keys: list[bytes], low: bytes, high: bytes | None) -> None:
    found = tidy(keys, low, high)
    assert found == sorted(set(found))
    assert all(low < key and (high is None or key < high) and key in keys for key in found)


@given(KEYS.filter(bool), st.lists(st.tuples(st.binary(max_size=3), st.integers(-20, 5))))
def test_points_add_where_they_lie_or_take_from_their_cell(cells: list[bytes], points: list[tuple[bytes, int]]) -> None:
    found, counts = with_points(cells, 7, points)
    assert found == sorted({*cells, *(key for key, extra in points if extra > 0)})
    expected = {key: 7 if key in cells else 0 for key in found}
    for key, extra in points:
        cell = key if extra > 0 else max((each for each in cells if each <= key), default=cells[0])
        expected[cell] += extra
    assert counts == [max(expected[key], 0) for key in found]
