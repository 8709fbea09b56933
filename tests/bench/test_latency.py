from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench import latency
from tests.bench.support import check_shown, make_plan
from tests.support.patience import wait_until


def test_commits_are_timed_with_and_without_checkpoints(tmp_path: Path) -> None:
    commits = {"synced": 30, "unsynced": 200}
    scale = latency.Scale(500, 1, commits, {"synced": 10, "unsynced": 50}, (latency.QUIET, "thread", "process"))
    data = latency.measure(make_plan(tmp_path), scale)
    places = latency.by_place(data)
    assert len(places) == 2 * 2 * 3
    for (durability, _, background), (turn,) in places.items():
        assert latency.histogram_of([turn]).total() == commits[durability]
        assert background != latency.QUIET or turn["checkpoints"] == 0
        assert turn["longest"] <= turn["seconds"]
    check_shown(latency.SECTION, data, tmp_path)


def test_checkpoints_run_beside_the_commits_that_are_timed(tmp_path: Path) -> None:
    """A checkpoint may take longer than the commits of one turn, so there are as many turns as it needs."""
    with closing(latency.Writer(tmp_path / "store", "unsynced", "thread", 500, 50)) as writer:
        wait_until(lambda: bool(writer.turn("put", 200)["checkpoints"] > 0))


def test_a_quantile_is_the_bound_of_the_bucket_that_reaches_it() -> None:
    histogram = Counter({latency.bucket_of(1e-5): 98, latency.bucket_of(1e-3): 1, latency.bucket_of(1e-1): 1})
    assert latency.quantile(histogram, 0.5) == pytest.approx(1e-5, rel=0.02)
    assert latency.quantile(histogram, 0.99) == pytest.approx(1e-3, rel=0.02)
    assert latency.quantile(histogram, 0.999) == pytest.approx(1e-1, rel=0.02)


@pytest.mark.parametrize("seconds", [1e-9, 3.3e-7, 1e-6, 4.2e-3, 1.0])
def test_a_bucket_holds_what_is_put_into_it(seconds: float) -> None:
    bucket = latency.bucket_of(seconds)
    assert seconds <= latency.upper_bound(bucket) * (1 + 1e-6)
    assert bucket == 0 or latency.upper_bound(bucket - 1) * (1 - 1e-6) < seconds


def turn(background: str, number: int, p99: float) -> dict[str, Any]:
    histogram = [(latency.bucket_of(1e-5), 95), (latency.bucket_of(p99), 5)]
    place = {"durability": "synced", "work": "put", "background": background, "round": number}
    return place | {"histogram": histogram, "longest": p99, "seconds": 1.0, "checkpoints": 1, "collected": 0}


@pytest.mark.parametrize(("busy", "met"), [(2.5e-4, True), (4e-4, False)])
def test_background_work_that_stretches_p99_is_found(busy: float, met: bool) -> None:
    turns = [turn(latency.QUIET, n, 1e-4 * noise) for n, noise in enumerate((1, 1, 9))]
    turns += [turn("thread", n, busy * noise) for n, noise in enumerate((1, 1, 9))]
    (finding,) = latency.SECTION.findings({"turns": turns})
    assert finding.met is met
