"""Who holds what: a version is counted for a snapshot iff that timestamp alone still sees it (O1, invariant 6)."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given

from lowtide.base.history import Interval
from lowtide.garbage.account import held_alone, superseded
from lowtide.versions.layers import VersionStore
from tests.unit.base.bases import PREFIX, fill, new_base

timestamps = st.integers(0, 10)
intervals = st.lists(st.tuples(timestamps, timestamps).filter(lambda pair: pair[0] < pair[1]), max_size=12)


@given(st.sets(timestamps, max_size=5), intervals)
def test_a_version_counts_for_the_one_snapshot_in_its_interval(live: set[int], found: list[tuple[int, int]]) -> None:
    expected: Counter[int] = Counter()
    for begin, end in found:
        seers = [ts for ts in live if begin <= ts < end]
        if len(seers) == 1:
            expected[seers[0]] += 1
    assert held_alone(tuple(sorted(live)), iter(found)) == expected


def test_superseded_versions_are_found_in_both_layers_and_in_the_history() -> None:
    versions = VersionStore(3)
    key, other = PREFIX + b"a", PREFIX + b"b"
    with new_base() as base:
        fill(base, {key: (3, b"x")}, [(Interval(1, 3, key), b"old")])
        versions.publish(4, {key: b"4", other: b"4"})
        versions.publish(5, {key: b"5"})
        versions.active.held[key] = None
        versions.freeze(5)
        versions.publish(6, {key: b"6", other: None})
        versions.publish(7, {other: b"7"})
        versions.active.held[other] = None
        assert sorted(superseded(versions, base)) == [(1, 3), (4, 5), (6, 7)]


def test_where_nothing_is_superseded_there_is_nothing_to_count() -> None:
    versions = VersionStore(0)
    with new_base() as base:
        versions.publish(1, {PREFIX + b"a": b"1"})
        assert list(superseded(versions, base)) == []
        assert held_alone((1, 5), iter(())) == Counter()
