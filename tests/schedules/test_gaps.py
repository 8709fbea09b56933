"""Scans that record gaps, interleaved with puts, deletions, checkpoints and older snapshots. A chunk is one entry, and
one deleted key is enough for a gap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowtide import Isolation
from tests.schedules.exploring import explore, explore_seeds
from tests.schedules.program import Delete, Direct, Job, Program, Put, Scan, Tx, View, WorkerProgram
from tests.schedules.running import Laboratory

A, B, C = b"a", b"b", b"c"
POPS = Direct((Delete(A), Scan(), Scan()))
STOPS = {"scan.watch", "scan.keys", "scan.chains", "gaps.note", "gaps.noted", "gaps.cut", "publish.gaps"}
STOPS |= {"commit.visible", "drop.view", "freeze.view"}
SAMPLE = 20
"""Schedules of one program with two preemptions; besides all those with one."""


@pytest.mark.parametrize(
    "other",
    [
        Direct((Put(A),)),
        Direct((Put(A), Delete(A))),
        Tx(Isolation.SNAPSHOT, (Scan(), Delete(B), Scan(), Put(B))),
        View((Scan(), Scan(reverse=True))),
        Job("checkpoint"),
    ],
    ids=["put", "put and delete", "own writes", "snapshot", "checkpoint"],
)
def test_two_beside_each_other(other: WorkerProgram) -> None:
    program = Program((POPS, other), watched=isinstance(other, View))
    with Laboratory(short_scans=True) as laboratory:
        for checkpointed in (False, True):
            explore(
                laboratory, replace(program, checkpointed=checkpointed), bound=2, stops=STOPS, sample=SAMPLE
            ).check()


def test_one_who_pops_one_who_puts_and_a_checkpoint() -> None:
    program = Program((POPS, Direct((Put(A),)), Job("checkpoint")))
    with Laboratory(short_scans=True) as laboratory:
        explore(laboratory, program, bound=1, stops=STOPS).check()


def test_random_workers() -> None:
    with Laboratory(short_scans=True) as laboratory:
        explore_seeds(laboratory, range(5000, 5200)).check()
