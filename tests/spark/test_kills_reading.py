"""kill -9 in mid-read: of the owner, and of the driver. What is read is right, and no pin stays.

A task that is killed is in test_cluster: in one process, Spark tries none a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lowtide
import lowtide.spark
from tests.spark.processes import Program, Programs, programs_in, wait_until
from tests.spark.programs.gates import GatedSource, processes_at
from tests.spark.programs.ledger import COLLECTION, SCHEMA, Model, sum_of

SIZE = 2000


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with programs_in(tmp_path) as programs:
        yield programs


@pytest.fixture
def owner(programs: Programs, tmp_path: Path) -> Program:
    """An owner that writes all the time."""
    return writing(programs, tmp_path / "store")


def writing(programs: Programs, path: Path) -> Program:
    owner = programs.owner(path)
    owner.tell("write", size=SIZE)
    owner.write_on(20)
    return owner


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    gate = tmp_path / "gate"
    gate.mkdir()
    return gate


def test_a_read_outlives_the_owner_and_so_does_everything_that_was_acknowledged(
    spark: SparkSession, programs: Programs, owner: Program, gate: Path, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    spark.dataSource.register(GatedSource)
    options = {"path": str(path), "collection": COLLECTION, "partitions": "3", "batchSize": "100", "gate": str(gate)}
    frame = spark.read.format("gated").options(**options).schema(SCHEMA).load()
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(sum_of, frame)
        wait_until(lambda: len(processes_at(gate)) == 2, "two tasks in the middle of their parts")
        owner.write_on(20)
        owner.kill()
        (gate / "open").touch()
        first = read.result(60)
    assert first == Model(SIZE).at(first.step)

    afterwards = lowtide.spark.read(spark, path, COLLECTION, schema=SCHEMA)
    found = sum_of(afterwards)  # nobody owns the store now
    assert found.step >= owner.last_step
    assert found == Model(SIZE).at(found.step)

    writing(programs, path)
    assert sum_of(frame) == first
    assert sum_of(afterwards) == found


def test_the_snapshot_of_a_killed_driver_is_kept_no_longer(
    programs: Programs, owner: Program, gate: Path, tmp_path: Path
) -> None:
    driver = programs.driver("local[2]")
    options = {"path": str(tmp_path / "store"), "collection": COLLECTION, "batchSize": "100"}
    driver.tell("sum", **options, gate=str(gate))
    wait_until(lambda: len(processes_at(gate)) == 2, "two tasks in the middle of their parts")
    assert len(owner.ask("pins")) == 1
    driver.kill()
    wait_until(lambda: owner.ask("pins") == [], "an end of the pin", patience=30)
    tasks = processes_at(gate)
    wait_until(lambda: tasks.isdisjoint(owner.ask("readers")), "an end of the tasks")


def test_a_snapshot_that_is_not_read_expires_and_says_so(spark: SparkSession, owner: Program, tmp_path: Path) -> None:
    frame = lowtide.spark.read(spark, tmp_path / "store", COLLECTION, pinTtl=3)
    wait_until(lambda: owner.ask("pins") == [], "an end of the pin", patience=30)
    with pytest.raises(PySparkException, match=r"no longer kept. It was not read for 3 seconds \(option pinTtl\)"):
        sum_of(frame)
