"""A transaction interleaved with background work, at every point of both with one preemption and at a sample of the
pairs of points with two: neither its reads nor its outcome depend on the background. The full attack tries all pairs,
and one preemption more if ``LOWTIDE_SCHEDULES`` is set."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from lowtide import Isolation
from tests.schedules.exploring import explore
from tests.schedules.program import Append, Delete, Direct, Get, Job, Program, Put, Scan, Tx, View, WorkerProgram
from tests.schedules.running import Laboratory

A, B, C = b"a", b"b", b"c"
SNAPSHOT, SERIALIZABLE = Isolation.SNAPSHOT, Isolation.SERIALIZABLE

BOUND = 3 if "LOWTIDE_SCHEDULES" in os.environ else 2

SAMPLE = 40
"""Schedules of one program with two preemptions; besides all those with one."""

READS_AND_WRITES = (Get(B), Append(A))

BACKGROUND: dict[str, WorkerProgram] = {
    "checkpoint": Job("checkpoint"),
    "collection": Job("collect"),
    "background": Job("maintain"),
    "expiry": Job("expire"),
    "pin": View((Get(A),), pinned=True),
    "snapshot": View((Get(A), Scan())),
    "close": Job("close"),
}


@pytest.mark.parametrize("kind", BACKGROUND)
def test_a_transaction_beside_the_background_is_what_it_would_be_alone(kind: str) -> None:
    program = Program((Tx(SERIALIZABLE, READS_AND_WRITES), BACKGROUND[kind]), checkpointed=False)
    with Laboratory() as laboratory:
        assert explore(laboratory, program, bound=BOUND, sample=SAMPLE).check().complete


@pytest.mark.parametrize("kind", ["checkpoint", "collection", "pin"])
@pytest.mark.parametrize(
    "worker",
    [Tx(SNAPSHOT, (Scan(), Delete(A))), Tx(SNAPSHOT, (Get(A),), "drop"), Direct((Put(A), Get(A), Delete(B)))],
    ids=["delete", "dropped", "directly"],
)
def test_other_transactions_beside_the_background_with_an_old_snapshot(worker: WorkerProgram, kind: str) -> None:
    """The old snapshot sees what it saw, whatever is superseded, moved or collected meanwhile."""
    program = Program((worker, BACKGROUND[kind]), watched=True)
    with Laboratory() as laboratory:
        for checkpointed in (False, True):
            explore(laboratory, replace(program, checkpointed=checkpointed), bound=BOUND - 1).check()


@pytest.mark.parametrize(
    "stops",
    [
        {"read.chains", "read.base", "read.row", "read.fill", "read.history", "checkpoint.apply", "drop.view"},
        {"scan.keys", "scan.drain", "scan.base", "scan.chains", "checkpoint.apply", "drop.view", "freeze.view"},
        {"begin.drawn", "begin.registered", "collect.sampled", "checkpoint.sampled", "commit.visible"},
    ],
    ids=["reads", "scans", "begin"],
)
def test_a_reader_a_writer_and_a_checkpoint_at_the_points_of_one_argument(stops: set[str]) -> None:
    """Three workers at the points that one of the arguments is about: reads, scans, and the draw of a snapshot."""
    reader = Tx(SNAPSHOT, (Scan(),) if "scan.base" in stops else (Get(A),))
    program = Program((reader, Direct((Put(A),)), Job("checkpoint")))
    with Laboratory() as laboratory:
        for checkpointed in (False, True):
            placed = replace(program, checkpointed=checkpointed)
            assert explore(laboratory, placed, bound=2, stops=stops, sample=SAMPLE).check().complete


@pytest.mark.parametrize("level", [SNAPSHOT, Isolation.READ_COMMITTED])
def test_scans_beside_each_other_and_a_close(level: Isolation) -> None:
    """Each shows everything or is refused, also where one sorts the new keys while another looks."""
    stops = {"scan.keys", "scan.drain", "scan.base", "close.versions", "freeze.view", "drop.view", "close.base"}
    with Laboratory() as laboratory:
        for second in (Job("close"), Direct((Scan(),))):
            program = Program((Tx(level, (Scan(), Scan())), second, View((Scan(reverse=True),))), checkpointed=False)
            explore(laboratory, program, bound=BOUND - 1, stops=stops).check()


def test_a_sweep_beside_a_reader_that_ends_and_a_checkpoint() -> None:
    """What the history holds for one snapshot goes when that one ends, and what it holds for another stays."""
    stops = {"sweep.sampled", "sweep.writers", "collect.history", "release.live", "checkpoint.sampled", "drop.view"}
    workers = (View((Get(A),)), Job("maintain"), Job("checkpoint"))
    program = Program(workers, checkpointed=False, watched=True)
    with Laboratory() as laboratory:
        assert explore(laboratory, program, bound=BOUND, stops=stops, sample=SAMPLE).check().complete


def test_those_who_commit_together_are_led_judged_and_woken() -> None:
    """Group commit: leaders, followers and late arrivals; no thread is left waiting."""
    stops = {"commit.enter", "commit.lock", "commit.lead", "commit.queue", "commit.gate", "commit.wait", "commit.pass"}
    stops |= {"commit.log", "commit.take"}
    writers = (Tx(SNAPSHOT, (Append(A),)), Tx(SNAPSHOT, (Append(A),)), Direct((Put(B),)))
    with Laboratory() as laboratory:
        assert explore(laboratory, Program(writers), bound=BOUND - 1, stops=stops).check().complete
