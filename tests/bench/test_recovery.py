from __future__ import annotations

from pathlib import Path

import pytest

from bench import recovery
from bench.fresh import StepFailed, in_fresh_process
from bench.section import Data
from tests.bench.support import check_shown, make_plan


def test_every_log_is_replayed_whole_and_shown(tmp_path: Path) -> None:
    data = recovery.measure(make_plan(tmp_path), recovery.Scale((0.1, 0.3), 1))
    assert {(each["kind"], each["size"]) for each in data["samples"]} == {
        (kind, size) for kind in recovery.KINDS for size in (0.1, 0.3)
    }
    for each in data["samples"]:
        assert each["size"] * recovery.MB <= each["log_bytes"] < each["size"] * recovery.MB + 300_000
        assert each["replayed"] == each["commits"]
    (grid,) = check_shown(recovery.SECTION, data, tmp_path)
    assert len(grid.rows) == 4


def samples(seconds: dict[float, float]) -> Data:
    found = [
        {"kind": "small", "size": size, "round": 0, "commits": 1, "log_bytes": size * recovery.MB, "seconds": taken}
        | {"cpu_seconds": taken, "resident_bytes": 1}
        for size, taken in seconds.items()
    ]
    return {"keys": 1, "value_bytes": 1, "samples": found}


@pytest.mark.parametrize(
    ("seconds", "met"),
    [
        ({10: 0.1, 50: 0.5, 200: 2.0}, [True, True]),
        ({10: 0.5, 50: 2.5, 200: 10.0}, [False, True]),  # slow, but linear
        ({10: 0.1, 50: 0.25, 200: 3.9}, [True, False]),  # fast, but each byte costs more than the one before
    ],
)
def test_a_slow_or_bent_recovery_is_found(seconds: dict[float, float], met: list[bool]) -> None:
    assert [finding.met for finding in recovery.SECTION.findings(samples(seconds))] == met


def test_a_step_that_fails_is_not_taken_for_an_answer(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="open_left"):
        in_fresh_process(recovery.open_left, directory=str(tmp_path / "a file"), nonsense=1)
