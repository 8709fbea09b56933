"""The policy keeps the instants that it names, and a version is removed iff none of them sees it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.garbage.prune import prune
from lowtide.engine.versions.chain import Version, chain_of, versions_of, visible
from lowtide.errors import UsageError
from lowtide.pipeline.travel.retention import FOREVER, Instant, Keep, Retained, Survivors, choose, survives

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

commits = st.integers(1, 60)
histories = st.lists(commits, min_size=1, max_size=20, unique=True).map(sorted)
instants = st.lists(commits, max_size=6, unique=True).map(lambda found: tuple(sorted(found)))


# The rule


@given(begins=histories, live=instants, floor=st.integers(0, 70), deleted=st.sets(st.integers(0, 19)))
def test_the_rule_is_the_engines(begins: list[int], live: tuple[int, ...], floor: int, deleted: set[int]) -> None:
    """Both keep the same versions of a random chain, alone and many at once; what they leave reads the same at every
    instant that is kept."""
    versions: list[Version] = [(ts, None if place in deleted else b"") for place, ts in enumerate(begins)][::-1]
    chain = chain_of(versions)
    assert chain is not None
    expected = [ts for ts, _ in versions_of(prune(chain, Exact(live, floor)))][::-1]
    ends: list[int | None] = [*begins[1:], None]
    one_by_one = [begin for begin, end in zip(begins, ends, strict=True) if survives(begin, end, live, floor)]
    mask = Survivors(live, floor).mask(pa.array(begins, pa.int64()), pa.array(ends, pa.int64()))
    at_once = [begin for begin, stays in zip(begins, mask.to_pylist(), strict=True) if stays]
    assert one_by_one == at_once == expected
    kept = chain_of([each for each in versions if each[0] in expected])
    for at in {*live, *range(floor, 61)}:
        before, after = visible(chain, at), visible(kept, at)
        assert (before and before[:2]) == (after and after[:2]), at


def test_a_version_that_an_instant_sees_stays_and_its_neighbours_go() -> None:
    """The borders of ``begin <= instant < end``, and of the floor."""
    assert [survives(begin, begin + 1, [5], 100) for begin in (4, 5, 6)] == [False, True, False]
    assert [survives(1, end, [], 10) for end in (9, 10, 11, None)] == [False, False, True, True]


# The policy


def hourly_commits(count: int) -> list[Instant]:
    return [Instant(number, START + number * HOUR, START + (number + 1) * HOUR) for number in range(1, count + 1)]


def test_everything_is_kept_for_a_while_then_the_last_commit_of_each_day() -> None:
    known = hourly_commits(24 * 10)
    kept = choose(known, Keep.of("2d, daily 5d"), now=START + 10 * DAY)
    assert kept.floor == 24 * 8  # the last commit that is two days old
    assert kept.commits == (24 * 6 - 1, 24 * 7 - 1, 24 * 8 - 1, 24 * 8)


def test_months_are_kept_for_ever() -> None:
    known = [Instant(number, START + number * DAY) for number in range(1, 400)]
    kept = choose(known, Keep.of("monthly"), now=START + 500 * DAY)
    assert len(kept.commits) == 14
    assert kept.commits[:3] == (30, 58, 89)
    assert kept.floor == 399


@given(
    times=st.lists(st.integers(0, 2000), min_size=1, max_size=40),
    now=st.integers(0, 3000),
    window=st.integers(0, 500),
    hourly=st.integers(0, 1500),
    held=st.sets(st.integers(1, 40), max_size=3),
)
def test_what_the_policy_promises_can_be_read(
    times: list[int], now: int, window: int, hourly: int, held: set[int]
) -> None:
    """For any times, even out of order: each commit of the window, the last commit of each hour, and what is held."""
    known = [Instant(number, START + timedelta(minutes=minute)) for number, minute in enumerate(times, 1)]
    moment, minutes = START + timedelta(minutes=now), timedelta(minutes=1)
    kept = choose(known, Keep(all=window * minutes, hourly=hourly * minutes), now=moment, held=held)
    for each in known:
        if each.time > moment - window * minutes:
            assert kept.has(each.commit)
        if each.time >= moment - hourly * minutes:
            same = [other.commit for other in known if other.time.replace(minute=0) == each.time.replace(minute=0)]
            assert kept.has(max(same))
    assert all(map(kept.has, held))
    assert list(kept.commits) == sorted(set(kept.commits))


def test_what_a_former_vacuum_removed_does_not_come_back() -> None:
    known = hourly_commits(100)
    first = choose(known, Keep.of("1d, hourly 2d"), now=START + 100 * HOUR, held=[10])
    assert first.floor == 76
    left = [each for each in known if first.has(each.commit)]
    second = choose(left, Keep.of("3d"), now=START + 100 * HOUR, held=[11], before=first)
    assert second.floor == 76  # the policy now says 28, which is gone
    assert second.commits == (10, *range(52, 77))
    third = choose(left, Keep.of("1d"), now=START + 100 * HOUR, before=second)
    assert third.commits == (76,)


def test_what_is_retained_survives_its_way_through_the_ledger() -> None:
    kept = choose(hourly_commits(50), Keep.of("5h, daily"), now=START + 50 * HOUR, held=[7])
    again = Retained.from_detail(kept.floor, kept.to_detail())
    assert again == kept
    assert 7 in again.commits


def test_the_newest_readable_commit_is_found() -> None:
    kept = Retained(10, (Instant(3, START), Instant(6, START)))
    assert [kept.newest_up_to(each) for each in (2, 3, 5, 9, 10, 99)] == [0, 3, 3, 6, 10, 99]


def test_a_time_means_the_last_commit_before_it_if_that_one_is_left() -> None:
    known = [Instant(number, START + number * HOUR, START + (number + 1) * HOUR) for number in (1, 2, 4, 5, 6)]
    kept = choose(known, Keep.of("1h"), now=START + 7 * HOUR, held=[2, 3])
    assert (kept.floor, kept.floor_time) == (6, START + 6 * HOUR)
    half = [START + hour * HOUR / 2 for hour in (1, 4, 5, 6, 7, 12)]
    assert [kept.at(each) for each in half] == [None, 2, 2, None, None, 6]


# What users write


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("7d", Keep(all=7 * DAY)),
        ("All 36h , Hourly 2w", Keep(all=36 * HOUR, hourly=14 * DAY)),
        ("monthly", Keep(monthly=FOREVER)),
        ("1y, daily 999999999999y", Keep(all=365 * DAY, daily=FOREVER)),
        ("90 minutes, hourly 2 Weeks, daily 1 month", Keep(all=90 * HOUR / 60, hourly=14 * DAY, daily=30 * DAY)),
        ("15m", Keep(all=HOUR / 4)),
        ("all", Keep(all=FOREVER)),
        (3 * DAY, Keep(all=3 * DAY)),
        ({"all": "7d", "monthly": True, "commits": [3, 1]}, Keep(all=7 * DAY, monthly=FOREVER, commits=(1, 3))),
        ([5, 2], Keep(commits=(2, 5))),
    ],
)
def test_a_policy_can_be_written_in_many_ways(policy: Any, expected: Keep) -> None:
    assert Keep.of(policy) == expected
    if not expected.commits:
        assert Keep.of(str(expected)) == expected


@pytest.mark.parametrize(
    "policy",
    ["", "7", "7 parsecs", "7d, 8d", "weekly 3d", "hourly 3", "7d,", None, 7, [True], ["a"], {"yearly": 1}, {"all": 3}],
)
def test_a_wrong_policy_is_refused_with_help(policy: Any) -> None:
    with pytest.raises(UsageError, match="a policy is text such as"):
        Keep.of(policy)


def test_a_negative_span_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 0"):
        Keep(all=-DAY)
