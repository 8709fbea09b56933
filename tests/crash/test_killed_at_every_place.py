"""SIGKILL at each named point, and at each line, of a life that uses every feature.

The points are before and after each LMDB commit, each log write, and each step of a checkpoint, a pin, a backup and a
compaction. Everything that was acknowledged survives, durable pins and positions included. Opening twice changes
nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.crash.killing import Kills, kills
from tests.crash.lives import Life, NotingDisk, certain_from, notes_in
from tests.support.attack import FULL, SAMPLE, some
from tests.support.points import POINTS

QUICK_LINES = 8
MANY = 20
"""The visits that the full attack tries of a point that is passed often. Otherwise only one is: the first with full
durability, the last with relaxed. Of a point and the next one, one is tried with each; in the next run, with the
other."""

EXPECTED = {"base.commit", "base.committed", "commit.log", "commit.publish", "checkpoint.applied", "compact.renamed"}

CASES = [("full", "thread"), ("relaxed", "thread"), ("relaxed", "process")] + [("full", "process")] * FULL


def options(durability: str, checkpointer: str) -> dict[str, Any]:
    return {"durability": durability, "checkpointer": checkpointer}


def visits_of(count: int, durability: str) -> Sequence[int]:
    """The visits to a point at which a life ends, by their number."""
    if not FULL:
        return [1 if durability == "full" else count]
    return range(1, count + 1)[:: max(1, count // MANY)]


def model_of(tmp_path: Path) -> Life[NotingDisk]:
    """The same life, lived to its end here: it knows what must be found."""
    life = Life(tmp_path / "model", "relaxed", NotingDisk())
    life.live()
    return life


def check(life: Life[NotingDisk], killed: Kills, how: str) -> None:
    notes = notes_in(killed.notes)
    life.path = killed.store
    if notes or (killed.store / "store.json").exists():
        life.check(killed.store, certain_from(notes), how)
    shutil.rmtree(killed.store, ignore_errors=True)
    shutil.rmtree(killed.store.with_name("store backup"), ignore_errors=True)
    killed.notes.unlink(missing_ok=True)


@pytest.mark.parametrize(("durability", "checkpointer"), CASES)
def test_a_kill_at_any_point_loses_nothing_that_was_acknowledged(
    durability: str, checkpointer: str, tmp_path: Path
) -> None:
    life = model_of(tmp_path)
    with kills(tmp_path) as killed:
        assert not killed.live(options(durability, checkpointer))
        visits = {place: count for place, count in killed.visits().items() if place in POINTS.values()}
        assert visits.keys() >= EXPECTED
        check(life, killed, "not at all")
        for number, (point, count) in enumerate(sorted(visits.items())):
            if checkpointer == "process" and not (FULL or point.startswith("checkpoint")):
                continue  # each life starts a helper of its own, which takes its time
            if checkpointer == "thread" and not FULL and (number + SAMPLE) % 2 != (durability == "full"):
                continue
            for nth in visits_of(count, durability):
                if killed.live(options(durability, checkpointer), point, nth):
                    check(life, killed, f"at visit {nth} of {count} to {point}")
                else:  # a thread of the background came there once less this time
                    check(life, killed, "not at all")


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_a_kill_at_any_line_loses_nothing_that_was_acknowledged(durability: str, tmp_path: Path) -> None:
    life = model_of(tmp_path)
    with kills(tmp_path) as killed:
        assert not killed.live(options(durability, "thread"))
        lines = [place for place in killed.visits() if ":" in place]
        assert len(lines) > 500
        check(life, killed, "not at all")
        for line in some(lines, QUICK_LINES):
            killed.live(options(durability, "thread"), line, 1)
            check(life, killed, f"at {line}")
