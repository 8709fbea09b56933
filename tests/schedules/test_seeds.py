"""Three to five random workers under a random schedule, by seed.

Each run tries other seeds. ``LOWTIDE_SCHEDULES=n`` tries n of them; ``LOWTIDE_SCHEDULE=seed`` repeats one that failed,
exactly, and shrinks it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.schedules.exploring import attempt, explore_seeds, replay, shrink
from tests.schedules.program import random_program
from tests.schedules.running import Laboratory
from tests.support.attack import SAMPLE
from tests.support.choices import Seeded

SEED = os.environ.get("LOWTIDE_SCHEDULE")
COUNT = int(os.environ.get("LOWTIDE_SCHEDULES", "240"))
FIRST = SAMPLE * 1000
"""Each run tries other seeds."""
_PARTS = 4
_ROOT = Path(__file__).resolve().parents[2]


def _report(laboratory: Laboratory, seeds: range) -> None:
    found = explore_seeds(laboratory, seeds).finding
    if found is None:
        return
    again = replay(laboratory, found)
    exactly = again is not None and again.trace == found.trace
    note = "" if exactly else "\nnot repeated in a new store: something outlives a schedule that should not"
    pytest.fail(f"{found}{note}\n\nshrunk:\n{shrink(laboratory, found)}")


def _parts() -> list[range]:
    """The seeds to try, in parts of equal size; or the one to repeat, if one is named."""
    if SEED is not None:
        return [range(int(SEED), int(SEED) + 1)]
    bounds = [FIRST + part * COUNT // _PARTS for part in range(_PARTS + 1)]
    return [range(first, end) for first, end in pairwise(bounds)]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seeds", _parts(), ids=str)
def test_random_programs_under_random_schedules(seeds: range) -> None:
    with Laboratory() as laboratory:
        _report(laboratory, seeds)


def test_a_seed_is_the_same_in_another_process() -> None:
    """Nothing of a schedule depends on hashes, addresses or the time."""
    code = (
        "from tests.schedules.test_seeds import *\n"
        "with Laboratory() as laboratory:\n"
        "    for seed in range(12):\n"
        "        print(laboratory.run(random_program(random.Random(seed)), Seeded(seed)).trace)\n"
    )
    told = set()
    for hashes in "12":
        environment = {**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=_ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        told.add(done.stdout)
    assert len(told) == 1
    assert "commit.visible" in told.pop()


def test_a_seed_is_the_same_program_and_the_same_schedule_every_time() -> None:
    for seed in range(10):
        program = random_program(random.Random(seed))
        assert program == random_program(random.Random(seed))
        traces = []
        for _ in range(2):
            with Laboratory() as laboratory:
                attempt(laboratory, random_program(random.Random(99)), Seeded(1))  # whatever was before
                traces.append(laboratory.run(program, Seeded(seed)).trace)
        assert traces[0] == traces[1]
        assert {step.worker for step in traces[0]} == set(program.names)
