"""A section that fails does not affect the others."""

from __future__ import annotations

from pathlib import Path

import pytest

import bench.__main__ as command
from bench.section import Data, Finding, Grid, Plan
from tests.bench.support import on_disk


class Small:
    """A section that measures nothing, or fails at it."""

    title = "Small"

    def __init__(self, name: str, fails: bool) -> None:
        self.name = name
        self._fails = fails

    def run(self, plan: Plan) -> Data:
        plan.step("measuring", 0.5)
        if self._fails:
            raise ValueError("not to be measured")
        return {"number": 7}

    def grids(self, data: Data) -> list[Grid]:
        return [Grid("Small numbers", ("what", "number"), [("it", str(data["number"]))])]

    def findings(self, data: Data) -> list[Finding]:
        return []

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        return []


def test_the_sections_after_one_that_failed_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "SECTIONS", (Small("first", True), Small("second", False)))
    results = tmp_path / "results"
    assert command.main(["--results", str(results), "--directory", str(on_disk(tmp_path))]) == 1
    output = capsys.readouterr().out
    assert "not to be measured" in output
    assert "Failed: first." in output
    assert not (results / "first.json").exists()
    assert "| it | 7 |" in (results / "README.md").read_text()


def test_a_run_without_failures_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SECTIONS", (Small("only", False),))
    assert command.main(["--results", str(tmp_path), "--directory", str(on_disk(tmp_path))]) == 0
