"""Helpers that the tests of all sections share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import machine
from bench.section import Data, Grid, Plan, Section

ROOT = Path(__file__).resolve().parents[2]


def on_disk(directory: Path) -> Path:
    """The directory, or the project's own if that one is in memory: the benchmarks refuse to measure there."""
    try:
        machine.require_disk(directory)
    except machine.MemoryFilesystem:
        return ROOT
    return directory


def make_plan(place: Path) -> Plan:
    return Plan(place, quick=True, step=check_step)


def check_step(what: str, share: float) -> None:
    assert what
    assert 0 <= share <= 1


def through_json(data: Data) -> Data:
    """As a report has it that is made again later."""
    again: Data = json.loads(json.dumps(data))
    return again


def check_shown(section: Section, data: Data, directory: Path) -> list[Grid]:
    """The grids are rectangular, the findings are worded, the plots are drawn; all from the JSON alone."""
    kept = through_json(data)
    grids = section.grids(kept)
    assert grids
    for grid in grids:
        assert grid.rows
        assert {len(row) for row in grid.rows} == {len(grid.headings)}
    findings = section.findings(kept)
    assert findings
    assert all(finding.target and finding.measured for finding in findings)
    for caption, file in _plotted(section, kept, directory):
        assert caption.endswith(".")
        assert file.parent == directory
        assert file.read_text().startswith("<?xml")
    return grids


def _plotted(section: Section, data: Data, directory: Path) -> list[tuple[str, Path]]:
    """All is drawn, but not moved about until no text overlaps another, which takes as long as to draw it. The test of
    the whole report does that too."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConstrainedLayoutEngine, "execute", lambda self, figure: None)
        return list(section.plot(data, directory))
