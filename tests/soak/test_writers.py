"""Processes that write to one store while they are killed and stopped, most often the owner: the audit is clean."""

from __future__ import annotations

from pathlib import Path

from tests.soak.writers import soak


def test_processes_that_are_killed_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    fleet, problems = soak(2, processes=3, seed=3, directory=tmp_path)
    assert problems == []
    assert fleet.kills == 2
    assert fleet.owners
