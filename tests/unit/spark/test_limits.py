"""Limits of a micro-batch."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from lowtide.spark.limits import BatchLimits

ENTRIES = st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=9)), max_size=12, unique_by=lambda each: each[0])


@given(ENTRIES, st.none() | st.integers(1, 5), st.none() | st.integers(1, 30))
def test_entries_are_taken_while_they_are_within_and_one_at_least(
    entries: list[tuple[bytes, bytes]], rows: int | None, size: int | None
) -> None:
    limits = BatchLimits(rows=rows, size=size)
    sums = [sum(len(key) + len(value) for key, value in entries[:count]) for count in range(len(entries) + 1)]
    within = [count for count in range(1, len(entries) + 1) if count == 1 or limits.allow(count, sums[count])]
    expected = None if len(within) == len(entries) else entries[len(within) - 1][0]
    assert limits.last_key(iter(entries)) == expected


def test_no_limit_allows_everything() -> None:
    assert BatchLimits().allow(10**9, 10**12)
    assert not BatchLimits(rows=3).allow(4, 0)
    assert not BatchLimits(size=3).allow(0, 4)
    assert not BatchLimits().by_size
    assert not BatchLimits(commits=1).by_size
    assert BatchLimits(size=1).by_size
