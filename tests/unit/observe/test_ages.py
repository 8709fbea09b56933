"""Which snapshots are reported, when, and how often (O1, invariant 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from lowtide.engine.garbage.account import HolderId, Holding
from lowtide.observe.ages import GROWTH_FLOOR, MOST_REPORTS, AgeLimits, Kind, SnapshotReport, SnapshotReporter


@dataclass(frozen=True)
class Living:
    token: int
    begun: float = 0.0
    ts: int = 7
    origin: str = "report.py:12"


class Told:
    """A watch with what it is told, and a count of how often it asked for the account."""

    def __init__(self, *living: Living, limits: AgeLimits | None = None) -> None:
        self.living = list(living)
        self.superseded = 0
        self.held: dict[HolderId, Holding] = {}
        self.accounts = 0
        self._reporter = SnapshotReporter(limits or AgeLimits(60, 600, 600))

    def at(self, now: float) -> list[SnapshotReport]:
        return self._reporter.due(now, self.living, lambda: self.superseded, self._account)

    def kinds_at(self, now: float) -> list[tuple[Kind, int]]:
        return [(report.kind, report.snapshot.token) for report in self.at(now)]

    def _account(self) -> Mapping[HolderId, Holding]:
        self.accounts += 1
        return self.held


def test_a_snapshot_is_reported_at_each_age_once_and_then_every_interval() -> None:
    told = Told(Living(1))
    reported = {now: kinds for now in range(0, 3000, 5) if (kinds := told.kinds_at(now))}
    assert reported == {
        60: [("old", 1)],
        600: [("critical", 1)],
        1200: [("critical", 1)],
        1800: [("critical", 1)],
        2400: [("critical", 1)],
    }


def test_an_age_that_was_slept_through_is_not_made_up_for() -> None:
    told = Told(Living(1))
    assert told.kinds_at(700) == [("critical", 1)]
    assert told.kinds_at(705) == []
    assert told.kinds_at(1299) == []
    assert told.kinds_at(1300) == [("critical", 1)]


def test_each_has_ages_of_its_own() -> None:
    told = Told(Living(1), Living(2, begun=30))
    assert told.kinds_at(60) == [("old", 1)]
    assert told.kinds_at(90) == [("old", 2)]
    assert told.kinds_at(600) == [("critical", 1)]
    assert told.kinds_at(630) == [("critical", 2)]


def test_one_that_has_gone_is_forgotten() -> None:
    """A watch that remembered every snapshot of the past would grow for ever."""
    told = Told(Living(1))
    told.at(60)
    told.living = [Living(2, begun=60)]
    assert told.at(100) == []
    assert told._reporter._reported == {}
    assert told.kinds_at(120) == [("old", 2)]


def test_a_critical_age_below_the_first_one_comes_first() -> None:
    told = Told(Living(1), limits=AgeLimits(100, 10, 50))
    assert [now for now in range(0, 130, 5) if told.kinds_at(now)] == [10, 60, 110]


def test_a_report_says_age_place_and_what_is_held() -> None:
    told = Told(Living(1, ts=41))
    told.held = {1: Holding(12, 3456), 2: Holding(1, 1)}
    (report,) = told.at(61.4)
    assert str(report) == (
        "the snapshot of commit 41 that was opened at report.py:12 is 61 s old; "
        "12 superseded versions, 3456 bytes, are kept for it alone"
    )


def test_nothing_is_counted_while_there_is_nothing_to_report() -> None:
    told = Told(Living(1), Living(2, begun=1))
    told.superseded = GROWTH_FLOOR - 1
    for now in range(0, 600, 5):
        told.at(now)
    assert told.accounts == 2


def test_of_very_many_the_oldest_are_reported_and_the_others_counted() -> None:
    told = Told(*(Living(number, begun=-number) for number in range(25)))
    reports = told.at(100)
    assert [report.snapshot.token for report in reports[:-1]] == list(range(24, 24 - MOST_REPORTS, -1))
    assert {report.kind for report in reports[:-1]} == {"old"}
    assert str(reports[-1]) == "15 more snapshots are old, up to 114 s; see stats().snapshots"
    assert told.at(105) == []


# Growth


def test_growth_is_reported_when_it_has_doubled_since_the_last_report() -> None:
    told = Told(Living(1))
    told.at(60)
    reported = []
    for second in range(61, 500):
        told.superseded = 100 * (second - 60)
        if told.kinds_at(second) == [("growth", 1)]:
            reported.append(told.superseded)
    assert reported == [1000, 2000, 4000, 8000, 16000, 32000]


def test_the_report_of_an_age_counts_as_the_last_report() -> None:
    told = Told(Living(1))
    told.superseded = 5000
    assert told.kinds_at(60) == [("old", 1)]
    told.superseded = 9999
    assert told.at(65) == []
    told.superseded = 10_000
    assert told.kinds_at(70) == [("growth", 1)]


def test_the_one_that_holds_the_most_alone_is_named() -> None:
    told = Told(Living(1, begun=0), Living(2, begun=1, origin="stuck.py:3"), Living(3, begun=2))
    told.at(100)
    told.superseded = 4000
    told.held = {1: Holding(10, 100), 2: Holding(3500, 70_000), 3: Holding(20, 200)}
    (report,) = told.at(105)
    assert str(report) == (
        "superseded versions have grown to 4000 while a snapshot is stuck: the snapshot of commit 7 that was opened at "
        "stuck.py:3 is 104 s old; 3500 superseded versions, 70000 bytes, are kept for it alone"
    )


def test_where_nobody_holds_anything_alone_the_oldest_is_named() -> None:
    told = Told(Living(2, begun=5), Living(1, begun=0))
    told.at(100)
    told.superseded = 4000
    assert told.kinds_at(105) == [("growth", 1)]


@pytest.mark.parametrize("age", [0, 59])
def test_growth_beside_young_snapshots_is_no_news(age: float) -> None:
    """A young one may be old work's innocent neighbour, and will end by itself."""
    told = Told(Living(1, begun=1000 - age))
    told.superseded = 1_000_000
    assert told.at(1000) == []


def test_growth_begins_anew_when_there_was_less_in_between() -> None:
    told = Told(Living(1))
    told.superseded = 100_000
    told.at(60)
    told.superseded = 1500
    assert told.at(65) == []
    told.superseded = 3000
    assert told.kinds_at(70) == [("growth", 1)]


def test_growth_begins_anew_with_another_snapshot() -> None:
    told = Told(Living(1))
    told.superseded = 100_000
    told.at(60)
    told.living = []
    assert told.at(65) == []
    told.living = [Living(2, begun=66)]
    told.superseded = 1500
    assert told.kinds_at(126) == [("old", 2)]
    told.superseded = 3000
    assert told.kinds_at(130) == [("growth", 2)]
