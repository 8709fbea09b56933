"""The one rule: a version is needed iff a live snapshot lies in its interval, or it ended after the bound (G2, G4)."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.engine.garbage.horizon import Exact, Watermark, make_horizon

timestamps = st.integers(0, 12)
live_sets = st.sets(timestamps, max_size=5)
intervals = st.tuples(timestamps, timestamps).map(sorted).filter(lambda pair: pair[0] < pair[1])


@given(live_sets, timestamps, intervals)
def test_exact_needs_what_a_live_snapshot_sees_or_a_later_one_may(
    live: set[int], bound: int, interval: list[int]
) -> None:
    begin, end = interval
    expected = end > bound or any(begin <= ts < end for ts in live)
    assert make_horizon("exact", live, bound).needs(begin, end) == expected


@given(live_sets, timestamps, intervals)
def test_the_watermark_needs_all_that_ended_after_the_oldest_snapshot(
    live: set[int], bound: int, interval: list[int]
) -> None:
    begin, end = interval
    assert make_horizon("watermark", live, bound).needs(begin, end) == (end > min(live, default=bound))


@given(live_sets, timestamps, intervals)
def test_what_exact_needs_the_watermark_keeps_too(live: set[int], bound: int, interval: list[int]) -> None:
    """So the equation that holds for the exact one holds for it as well. Snapshots live at or below the bound, or were
    drawn after it was read."""
    begin, end = interval
    exact, watermark = make_horizon("exact", live, bound), make_horizon("watermark", live, bound)
    if min(live, default=bound) <= bound:
        assert watermark.needs(begin, end) or not exact.needs(begin, end)


@given(live_sets, timestamps, intervals, st.sampled_from(["exact", "watermark"]))
def test_what_began_after_the_newest_snapshot_need_not_be_asked_for(
    live: set[int], bound: int, interval: list[int], kind: str
) -> None:
    """A shortcut for what ended at or before the bound; the watermark allows none."""
    begin, end = interval
    horizon = make_horizon(kind, live, bound)
    if begin > horizon.unseen_after and end <= bound:
        assert not horizon.needs(begin, end)
        assert kind == "exact"


@given(live_sets, timestamps, intervals, st.sampled_from(["exact", "watermark"]))
def test_snapshots_at_or_after_the_bound_make_no_difference_to_what_ended_before(
    live: set[int], bound: int, interval: list[int], kind: str
) -> None:
    begin, end = interval
    horizon = make_horizon(kind, live, bound)
    ended = horizon.for_ended()
    assert ended.live == tuple(sorted(ts for ts in live if ts < bound))
    if end <= bound:
        assert ended.needs(begin, end) == horizon.needs(begin, end)
        assert not ended.needs(begin, end) or ended.seers(begin, end) == horizon.seers(begin, end)


def test_the_edges_of_the_interval_are_exact() -> None:
    """``end == t`` is invisible to t, ``begin == t`` is visible (G4)."""
    horizon = Exact((5,), 10)
    assert horizon.needs(5, 6)
    assert not horizon.needs(3, 5)
    assert horizon.needs(3, 6)
    assert not horizon.needs(6, 9)


def test_what_ended_after_the_bound_is_kept_for_readers_that_nobody_knows_yet() -> None:
    """A version that was superseded after the sample: a snapshot may have begun in between (G2)."""
    horizon = Exact((), 10)
    assert horizon.needs(3, 11)
    assert not horizon.needs(3, 10)


@pytest.mark.parametrize(("kind", "cls"), [("exact", Exact), ("watermark", Watermark)])
def test_snapshots_are_sorted_and_counted_once(kind: str, cls: type[Exact]) -> None:
    horizon = make_horizon(kind, [7, 3, 7, 5], 9)
    assert type(horizon) is cls
    assert horizon.live == (3, 5, 7)
    assert horizon.low_water_mark == 3


@pytest.mark.parametrize("kind", ["exact", "watermark"])
def test_with_no_reader_the_low_water_mark_is_the_bound_and_never_infinite(kind: str) -> None:
    horizon = make_horizon(kind, (), 9)
    assert horizon.low_water_mark == 9
    assert horizon.needs(3, 10)
    assert not horizon.needs(3, 9)
