"""What ``lowtide top`` computes from samples: rates, trends, gaps, and what it shows without an owner."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from lowtide.cli.frame import lines
from lowtide.cli.samples import SPAN, WIDTH, Sample, rates, recent, sparkline, trend, view
from lowtide.cli.words import as_json
from lowtide.observe.stats import PinStats, SnapshotStats, Stats

QUIET = Stats(0, 0, 0, 0, 0, 0, 0, 0, [], [], 0, 0, 0, None, 0, None, 0, 0, 0, None, [])


def at(moment: float, owner: int = 1, **figures: Any) -> Sample:
    return Sample(moment, owner, dataclasses.replace(QUIET, **figures))


def values(samples: list[Sample]) -> dict[str, str]:
    return {each.label: each.value for each in view("store", samples).figures}


def test_a_rate_is_the_difference_of_two_samples() -> None:
    samples = [at(0, commits=100, conflicts=1), at(2, commits=300, conflicts=2)]
    assert rates(samples, lambda each: each.commits) == [(2, 100.0)]
    assert values(samples)["commits/s"] == "100"
    assert values(samples)["conflicts/s"] == "0.5"


def test_one_sample_has_no_rate() -> None:
    assert view("store", [at(0, commits=100)]).commits_per_second is None
    assert values([at(0, commits=100)])["commits/s"] == "unknown"


@pytest.mark.parametrize(
    "later",
    [at(1, owner=2, commits=900), at(1, commits=5), Sample(1, trouble="gone"), at(0, commits=10)],
    ids=["another owner", "a counter that began anew", "no owner", "no time"],
)
def test_there_is_no_rate_across_a_gap(later: Sample) -> None:
    assert rates([at(0, commits=10), later], lambda each: each.commits) == [(later.at, None)]


def test_a_view_has_every_figure_that_matters() -> None:
    found = values(
        [
            at(
                0,
                last_commit=50,
                boundary=20,
                versions=7,
                version_bytes=2048,
                history=3,
                log_bytes=1 << 20,
                checkpoints=4,
                last_checkpoint_seconds=0.5,
            )
        ]
    )
    assert found["boundary lag"] == "30 commits"
    assert found["versions in memory"] == "7 (2.0 KiB)"
    assert found["history"] == "3 versions"
    assert found["log"] == "1.0 MiB"
    assert found["last checkpoint"] == "took 500 ms; 4 made"


def test_failures_are_loud() -> None:
    found = values([at(0, checkpoint_failures=2, last_checkpoint_failure="no room", failure="the disk is gone")])
    assert found["last checkpoint"] == "none yet; 0 made, 2 FAILED: no room"
    assert found["FAILED"] == "the store accepts no commits: the disk is gone"


def test_snapshots_and_pins_are_listed_with_age_origin_and_what_they_hold() -> None:
    snapshots = [SnapshotStats(5, 1.0, "new.py:1", 0, 0), SnapshotStats(2, 90.0, "old\x1b.py:7", 12, 4096)]
    pins = [PinStats("nightly", 3, 60.0, 30.0, "process 9", None, 4, 100)]
    frame = view("store", [at(0, snapshots=snapshots, pins=pins)])
    assert [each.where for each in frame.snapshots] == ["old\x1b.py:7", "new.py:1"]
    text = "\n".join(lines(frame))
    for words in ("old\\x1b.py:7", "1 min 30 s", "12", "4.0 KiB", "nightly", "30.0 s", "process 9"):
        assert words in text


def test_without_an_owner_the_last_figures_stay_and_it_is_said() -> None:
    samples = [at(0, versions=5), at(1, versions=7), Sample(2, trouble="no process owns the store; waiting")]
    frame = view("store", samples)
    assert not frame.live
    assert frame.owner is None
    assert frame.commits_per_second is None
    assert frame.state == "no process owns the store; waiting"
    assert {each.label: each.value for each in frame.figures}["versions in memory"] == "7 (0 B)"


def test_a_store_that_nobody_ever_owned_has_no_figures() -> None:
    frame = view("store", [Sample(0, trouble="no process owns the store")])
    assert frame.figures == ()
    assert lines(frame) == ["store: no process owns the store"]


def test_a_minute_of_samples_is_remembered_and_the_last_figures_for_longer() -> None:
    gone = [Sample(float(second), trouble="gone") for second in range(1, 200)]
    kept = recent([at(0), *gone], 199)
    assert kept[0] == at(0)
    assert [each.at for each in kept[1:]] == [float(second) for second in range(int(199 - SPAN), 200)]


def test_a_trend_ends_now_and_has_means_and_gaps() -> None:
    part = SPAN / WIDTH
    found = trend([(100 - 2 * part, 4.0), (100 - 0.1, 1.0), (100, 3.0), (100 - part, None), (0, 9.0)], 100)
    assert len(found) == WIDTH
    assert found[-3:] == (4.0, None, 2.0)
    assert found[:-3] == (None,) * (WIDTH - 3)


def test_a_sparkline_goes_from_nothing_to_the_highest() -> None:
    assert sparkline([0, 1, 2, None, 7]) == "▁▂▃ █"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""


def test_a_frame_is_json_too() -> None:
    found = json.loads(as_json(view("store", [at(0), at(1, commits=5, last_commit=9, boundary=4)]).as_plain()))
    assert found["commits_per_second"] == 5
    assert found["boundary_lag"] == 5
    assert found["stats"]["last_commit"] == 9
