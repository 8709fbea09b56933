"""What the commands of the pipeline refuse before they start Spark, and how they end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

import lowtide
from lowtide.cli import pipeline_runs as commands
from lowtide.cli.output import Output
from lowtide.cli.spark_session import pipeline_module
from lowtide.errors import UsageError
from lowtide.pipeline.runs.report import RunFailed, RunReport, StepReport
from lowtide.pipeline.runs.schedule import RunStopped
from tests.unit.cli.commands import document, environment, invoke

Once = Callable[[], RunReport]


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these commands may come as far as to start Spark."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("it starts Spark")

    monkeypatch.setattr(commands, "spark_session", refuse)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["archive", "nowhere", "archive"], "nowhere does not exist"),
        (["run", "nowhere.toml"], "there is no config file"),
        (["status", "nowhere"], "there is no archive in"),
        (["audit", "history.jsonl", "--level", "best"], "unknown isolation level 'best'"),
        (["archive", "{shop}", "archive", "--every", "often"], "'often' is not a duration"),
        (["archive", "{shop}", "archive", "--every", "0s"], "above 0"),
    ],
)
def test_a_wrong_request_is_refused_before_spark_starts(arguments: list[str], said: str, shop: Path) -> None:
    result = invoke("pipeline", *(each.replace("{shop}", str(shop)) for each in arguments))
    assert result.exit_code == (1 if "status" in arguments else 2), result.output
    assert said in result.stderr


def test_a_config_file_is_checked_without_spark(shop: Path) -> None:
    config = shop.parent / "pipeline.toml"
    config.write_text('store = "shop"\narchive = "archive"\n')
    result = invoke("pipeline", "run", config, "--check", "--json")
    assert (result.exit_code, document(result)["ok"]) == (0, True)
    config.write_text('store = "shop"\n')
    result = invoke("pipeline", "run", config, "--check")
    assert result.exit_code == 2
    assert "archive: is missing" in result.stderr


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(UsageError, match=r"lowtide\[pipeline\]"):
        pipeline_module()


def report(**detail: Any) -> RunReport:
    step = StepReport("archive", "done", 1.0, {"commit": 7, "rows": 3, "gaps": [], **detail})
    return RunReport("shop", "archive", datetime(2026, 5, 1, tzinfo=UTC), 1.0, (step,))


def ends(
    once: Callable[[], RunReport], capsys: pytest.CaptureFixture[str], *, as_json: bool = False
) -> tuple[int, str]:
    """The exit code of a command whose run is this, and what it printed."""

    code = 0
    try:
        commands._repeat(lambda tell, stop: once(), what="running", every=None, output=Output(as_json))
    except typer.Exit as ended:
        code = ended.exit_code
    return code, capsys.readouterr().out


def failing(error: Exception) -> Once:
    def once() -> RunReport:
        raise error

    return once


def failed(cause: Exception) -> RunFailed:
    error = RunFailed("the step archive failed", report())
    error.__cause__ = cause
    return error


def test_a_run_ends_with_the_code_of_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(report, capsys)[0] == 0
    assert ends(lambda: report(gaps=["commits 3 to 5"]), capsys)[0] == 3
    assert ends(failing(failed(OSError("no room"))), capsys)[0] == 1
    assert ends(failing(failed(UsageError("no store"))), capsys)[0] == 2
    assert ends(failing(RunStopped("told to end")), capsys)[0] == 143


def test_a_failed_run_still_prints_its_report_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    for once in (report, failing(failed(OSError("no room")))):
        assert json.loads(ends(once, capsys, as_json=True)[1])["commit"] == 7


def test_a_schedule_goes_on_after_a_failure_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lowtide.pipeline.runs import schedule
    from tests.support.clocks import ManualClock

    clock, runs = ManualClock(0), []

    def once(tell: Any, stop: schedule.Stop) -> RunReport:
        runs.append(clock.now)
        if len(runs) == 1:
            raise failed(OSError("no room"))
        if len(runs) == 3:
            stop.request()
        return report()

    every = schedule.run_every
    monkeypatch.setattr(schedule, "run_every", lambda *given, **named: every(*given, **named, clock=clock))
    commands._repeat(once, what="running", every=3600, output=Output(False))
    assert runs == [0, 60, 3660]
    shown = capsys.readouterr()
    assert "the step archive failed; next attempt in 1 min 0 s" in shown.err
    assert shown.out.count("at commit 7") == 2


@pytest.mark.parametrize("as_file", [False, True])
def test_the_module_of_the_pipeline_is_the_command(tmp_path: Path, as_file: bool) -> None:
    """``python -m lowtide.pipeline``, and the file by its path, as spark-submit calls it."""
    file = Path(lowtide.__file__).parent / "pipeline" / "__main__.py"
    called = [str(file)] if as_file else ["-m", "lowtide.pipeline"]
    done = subprocess.run(
        [sys.executable, *called, "status", str(tmp_path / "nowhere")],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 1, done.stderr
    assert "there is no archive in" in done.stderr
