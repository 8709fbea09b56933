"""A cluster of two workers on one machine, each with an executor in a JVM of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.processes import Program, Programs, programs_in, wait_until
from tests.spark.programs.gates import processes_at
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
    owner = programs.owner(tmp_path / "store")
    owner.tell("write", size=SIZE)
    owner.write_on(20)
    return owner


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    gate = tmp_path / "gate"
    gate.mkdir()
    return gate


def test_two_executors_read_one_commit_and_a_killed_task_is_read_again(
    driver: Program, owner: Program, gate: Path, tmp_path: Path
) -> None:
    options = {"path": str(tmp_path / "store"), "collection": COLLECTION, "partitions": "4", "batchSize": "200"}
    read = driver.tell("sum", **options, gate=str(gate))
    wait_until(lambda: len(processes_at(gate)) == 2, "a task of each executor in the middle of its part")
    victim = min(processes_at(gate))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(processes_at(gate)) == 3, "another try of the killed task")
    owner.write_on(50)
    (gate / "open").touch()
    found = Sum(*driver.answer(read))
    assert found == Model(SIZE).at(found.step)
    wait_until(lambda: victim not in owner.ask("readers"), "an end of the killed process's place among the readers")
    executors = driver.ask("executors", **options)
    assert len(executors) == 2
    assert all(each.startswith(str(tmp_path.parent)) for each in executors), "Spark's own directory is left alone"
