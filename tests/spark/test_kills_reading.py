"""kill -9 of the owner in mid-read: what is read is right, and pins end by themselves.

Killed tasks are tested in test_cluster, since Spark does not retry tasks in local mode. Killed drivers are tested in
test_killed_drivers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lowtide
import lowtide.spark
from tests.spark.processes import Program, Programs, in_background, programs_in, wait_for, wait_until
from tests.spark.programs.gates import GatedSource, new_gate, open_gate
from tests.spark.programs.ledger import COLLECTION, SCHEMA, Model, sum_of
from tests.support.patience import PATIENCE

SIZE = 2000


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with programs_in(tmp_path) as programs:
        yield programs


@pytest.fixture
def owner(programs: Programs, tmp_path: Path) -> Program:
    """An owner that writes all the time."""
    return programs.writing_owner(tmp_path / "store", SIZE)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return new_gate(tmp_path / "read")


def test_a_read_outlives_the_owner_and_so_does_everything_that_was_acknowledged(
    spark: SparkSession, programs: Programs, owner: Program, gate: Path, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    spark.dataSource.register(GatedSource)
    options = {
        "path": str(path),
        "collection": COLLECTION,
        "partitions": "3",
        "batchSize": "100",
        "gates": str(gate.parent),
    }
    frame = spark.read.format("gated").options(**options).schema(SCHEMA).load()
    with in_background(lambda: sum_of(frame)) as read:
        wait_for(gate, 2, read)
        owner.write_on(20)
        owner.kill()
        open_gate(gate)
        first = read.result(PATIENCE)
    assert first == Model(SIZE).at(first.step)

    afterwards = lowtide.spark.read(spark, path, COLLECTION, schema=SCHEMA)
    found = sum_of(afterwards)  # no process owns the store now
    assert found.step >= owner.last_step
    assert found == Model(SIZE).at(found.step)

    programs.writing_owner(path, SIZE)
    assert sum_of(frame) == first
    assert sum_of(afterwards) == found


def test_a_snapshot_that_is_not_read_expires_and_says_so(spark: SparkSession, owner: Program, tmp_path: Path) -> None:
    frame = lowtide.spark.read(spark, tmp_path / "store", COLLECTION, pinTtl=3)
    wait_until(lambda: owner.ask("pins") == [], "an end of the pin")
    with pytest.raises(PySparkException, match=r"no longer kept. It was not read for 3 seconds \(option pinTtl\)"):
        sum_of(frame)
