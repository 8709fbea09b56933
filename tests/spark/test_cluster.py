"""A cluster of two workers on one machine, each with an executor in its own JVM."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from tests.spark.archive_kills import check_ledger, executors_below, kill
from tests.spark.processes import Program, Programs, Refused, programs_in, wait_until
from tests.spark.programs.gates import new_gate, open_gate, processes_at
from tests.spark.programs.ledger import COLLECTION, Model, Sum

SIZE = 4000


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with programs_in(tmp_path_factory.mktemp("cluster")) as programs:
        yield programs


@pytest.fixture(scope="module")
def driver(programs: Programs) -> Iterator[Program]:
    driver = programs.driver("local-cluster[2,1,1024]")
    yield driver
    driver.ask("stop")


@pytest.fixture
def owner(programs: Programs, tmp_path: Path) -> Program:
    """An owner that writes all the time."""
    return programs.writing_owner(tmp_path / "store", SIZE)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return new_gate(tmp_path / "read")


def test_two_executors_read_one_commit_and_a_killed_task_is_read_again(
    driver: Program, owner: Program, gate: Path, tmp_path: Path
) -> None:
    options = {"path": str(tmp_path / "store"), "collection": COLLECTION, "partitions": "4", "batchSize": "200"}
    read = driver.tell("sum", **options, gates=str(gate.parent))
    wait_until(lambda: len(processes_at(gate)) == 2, "a task of each executor in the middle of its part")
    victim = min(processes_at(gate))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(processes_at(gate)) == 3, "another try of the killed task")
    owner.write_on(50)
    open_gate(gate)
    found = Sum(*driver.answer(read))
    assert found == Model(SIZE).at(found.step)
    wait_until(lambda: victim not in owner.ask("readers"), "an end of the killed process's place among the readers")
    executors = driver.ask("executors", **options)
    assert len(executors) == 2
    assert all(each.startswith(str(tmp_path.parent)) for each in executors), "Spark's own directory is left alone"


def test_a_killed_task_of_a_write_leaves_nothing_behind(driver: Program, programs: Programs, tmp_path: Path) -> None:
    path, gate = tmp_path / "store", new_gate(tmp_path / "write")
    owner = programs.owner(path)
    written = driver.tell("write", rows=500, path=str(path), collection="written", gates=str(tmp_path))
    wait_until(lambda: len(processes_at(gate)) == 2, "a task of each executor in the middle of its file")
    victim = min(processes_at(gate))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(processes_at(gate)) == 3, "another try of the killed task")
    open_gate(gate)
    driver.answer(written)
    owner.ask("close")
    with lowtide.open(path) as store:
        found = sorted((each["_id"], each["n"]) for each in store["written"].find())
    assert found == [(number, number * 7) for number in range(500)]
    assert list((path / "staging").iterdir()) == []


def test_an_archive_is_whole_though_an_executor_is_killed(driver: Program, programs: Programs, tmp_path: Path) -> None:
    store, archive = tmp_path / "store", tmp_path / "archive"
    owner = programs.owner(store)
    owner.ask("advance", size=SIZE, steps=300)
    run = driver.tell("archive", store=str(store), archive=str(archive))
    wait_until(lambda: driver.answered(run) or any(archive.glob("collections/*/*.parquet")), "a file of a task")
    kill(executors_below(driver.also[0])[0])
    with contextlib.suppress(Refused):
        driver.answer(run)
    driver.ask("archive", store=str(store), archive=str(archive))
    check_ledger(archive, SIZE, owner.last_step)
