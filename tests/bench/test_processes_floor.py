"""The floor of commits through an owner: it counts and reports what was committed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import processes_floor


@pytest.mark.parametrize("synced", [True, False])
def test_every_process_commits_through_the_owner(tmp_path: Path, synced: bool) -> None:
    found = processes_floor.through_an_owner(tmp_path, 2, 0.05, synced=synced, work=0.0)
    assert found["rate"] > 0
    assert 1 <= found["group"] <= 2
    assert found["p50"] > 0
    assert found["cpu"] > 0


def test_it_prints_the_floor_beside_the_peers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["processes_floor", "--seconds", "0.05", "--rounds", "1", "--work", "10"])
    processes_floor.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("one process, synced: sqlite3")
    assert [line[0] for line in lines[1:]] == ["4", "1"]
    assert "times sqlite3" in lines[1]
