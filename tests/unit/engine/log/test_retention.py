"""Which segments of the log are kept: there is no gap, recovery has what it needs, and the caps hold."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine.log.files import ClosedSegment
from lowtide.engine.log.retention import Retention
from tests.property.profile import thorough

NOW = 1000.0


def segment(last_ts: int, used: int = 100, closed: float = NOW) -> ClosedSegment:
    return ClosedSegment(Path(f"{last_ts}.log"), last_ts, used, used, closed)


def kept(
    retention: Retention, segments: list[ClosedSegment], boundary: int, *positions: int, current: int = 0
) -> list[int]:
    floor = retention.floor(segments, boundary, positions, NOW, current)
    return [each.last_ts for each in segments if each.last_ts > floor]


THREE = [segment(10), segment(20), segment(30)]
NOTHING = Retention(0, 0, 0.0)


def test_without_anybody_who_reads_only_recovery_counts() -> None:
    assert kept(NOTHING, THREE, boundary=30) == []
    assert kept(NOTHING, THREE, boundary=29) == [30]
    assert kept(NOTHING, THREE, boundary=9) == [10, 20, 30]


def test_the_newest_segments_stay_as_far_as_they_fit_into_the_bytes_of_the_feed() -> None:
    assert kept(Retention(250, 0, 0.0), THREE, boundary=30) == [20, 30]
    assert kept(Retention(200, 0, 0.0), THREE, boundary=30) == [20, 30]
    assert kept(Retention(199, 0, 0.0), THREE, boundary=30) == [30]


def test_the_segment_that_is_written_counts_too() -> None:
    assert kept(Retention(250, 0, 0.0), THREE, boundary=30, current=60) == [30]


def test_a_consumer_keeps_what_it_has_not_acknowledged_and_no_more() -> None:
    retention = Retention(0, 1000, 60.0)
    assert kept(retention, THREE, 30, 0) == [10, 20, 30]
    assert kept(retention, THREE, 30, 10) == [20, 30]
    assert kept(retention, THREE, 30, 19) == [20, 30], "commit 20 is not acknowledged"
    assert kept(retention, THREE, 30, 20) == [30]
    assert kept(retention, THREE, 30, 30) == []


def test_the_slowest_consumer_counts() -> None:
    assert kept(Retention(0, 1000, 60.0), THREE, 30, 30, 12, 25) == [20, 30]


def test_a_consumer_keeps_no_more_bytes_than_the_cap() -> None:
    assert kept(Retention(0, 200, 60.0), THREE, 30, 0) == [20, 30]
    assert kept(Retention(0, 199, 60.0), THREE, 30, 0) == [30]
    assert kept(Retention(0, 0, 60.0), THREE, 30, 0) == []


def test_a_consumer_keeps_nothing_that_was_full_for_longer_than_the_age() -> None:
    aged = [segment(10, closed=NOW - 61), segment(20, closed=NOW - 60), segment(30, closed=NOW - 1)]
    assert kept(Retention(0, 1000, 60.0), aged, 30, 0) == [20, 30]


def numbered(rows: list[tuple[int, int, float]]) -> list[ClosedSegment]:
    """Segments with the given numbers of commits (0 for one that was left empty), bytes and ages."""
    last = 0
    found = []
    for index, (commits, used, age) in enumerate(rows):
        last += commits
        found.append(ClosedSegment(Path(f"{index}.log"), last, used, used, NOW - age))
    return found


segments = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 500), st.floats(0, 200)), max_size=8).map(numbered)


@thorough
@given(
    segments,
    st.integers(0, 40),
    st.lists(st.integers(0, 40), max_size=3),
    st.integers(0, 2000),
    st.integers(0, 2000),
    st.floats(0, 200),
    st.integers(0, 300),
)
def test_what_is_kept_is_exactly_what_somebody_may_ask_for(
    full: list[ClosedSegment],
    boundary: int,
    positions: list[int],
    feed_bytes: int,
    consumer_bytes: int,
    consumer_age: float,
    current: int,
) -> None:
    retention = Retention(feed_bytes, consumer_bytes, consumer_age)
    floor = retention.floor(full, boundary, positions, NOW, current)
    gone = [each for each in full if each.last_ts <= floor]
    left = full[len(gone) :]
    assert gone + left == full, "the oldest go, so there is no gap"
    assert all(each.last_ts <= boundary for each in gone), "what recovery needs stays"
    held = [each for each in left if each.last_ts <= boundary]
    total = current + sum(each.used for each in left)
    if held:
        assert total <= max(feed_bytes, consumer_bytes), "the caps hold"
    for index, each in enumerate(held):
        size = current + sum(other.used for other in full[len(gone) + index :])
        unread = bool(positions) and min(positions) < each.last_ts
        young = NOW - each.closed <= consumer_age
        assert size <= feed_bytes or (unread and young and size <= consumer_bytes), "somebody may ask for it"
    newest_gone = [each for each in gone if each.last_ts == floor > 0][:1]  # one without commits may always go
    for each in newest_gone:
        size = current + sum(other.used for other in full[full.index(each) :])
        unread = bool(positions) and min(positions) < each.last_ts
        young = NOW - each.closed <= consumer_age
        later = [other for other in full[full.index(each) + 1 :] if other.last_ts == each.last_ts]
        assert later or (size > feed_bytes and not (unread and young and size <= consumer_bytes)), "it could not stay"
