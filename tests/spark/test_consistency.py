"""A DataFrame shows exactly one commit while the store's owner, another process, keeps writing, with a checkpoint and a
collection after every few commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lowtide
import lowtide.spark
from tests.spark.processes import Program, in_background, programs_in, wait_for, wait_until
from tests.spark.programs.gates import GatedSource, new_gate, open_gate
from tests.spark.programs.ledger import COLLECTION, SCHEMA, Model, Sum, sum_of
from tests.support.patience import PATIENCE

SIZE = 3000


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Program]:
    """An owner that writes all the time."""
    with programs_in(tmp_path) as programs:
        yield programs.writing_owner(tmp_path / "store", SIZE)


def summed(spark: SparkSession, path: Path, **options: Any) -> tuple[DataFrame, Sum, int]:
    """A DataFrame of the ledger, what it shows, and the commit of its pin: a new one, or that of its block."""
    frame = lowtide.spark.read(spark, path, COLLECTION, schema=SCHEMA, partitions=4, batchSize=200, **options)
    with lowtide.open(path, read_only=True) as store:
        before = {pin.name for pin in store.pins()}
        found = sum_of(frame)
        (ts,) = {pin.ts for pin in store.pins() if pin.name not in before or pin.name == options.get("as_of")}
    return frame, found, ts


def test_a_dataframe_shows_one_commit_whole_and_the_same_at_every_action(
    spark: SparkSession, owner: Program, tmp_path: Path
) -> None:
    model, before = Model(SIZE), owner.ask("figures")
    frames = []
    for _ in range(3):
        frame, first, ts = summed(spark, tmp_path / "store")
        wait_until(lambda at=ts: at in owner.steps, f"word of commit {ts}")  # type: ignore[misc]
        assert first == model.at(owner.steps[ts])
        frames.append((frame, first))
    owner.write_on(100)
    for frame, first in frames:
        assert sum_of(frame) == first
    after = owner.ask("figures")
    assert after["checkpoints"] > before["checkpoints"]
    assert after["collected"] > before["collected"]


def test_commits_checkpoints_and_collections_between_two_batches_of_a_task_are_not_seen(
    spark: SparkSession, owner: Program, tmp_path: Path
) -> None:
    gate = new_gate(tmp_path / "read")
    spark.dataSource.register(GatedSource)
    options = {"path": str(tmp_path / "store"), "collection": COLLECTION, "partitions": "4", "batchSize": "100"}
    frame = spark.read.format("gated").options(**options, gates=str(gate.parent)).schema(SCHEMA).load()
    with in_background(lambda: sum_of(frame)) as read:
        wait_for(gate, 2, read)
        before = owner.ask("figures")
        reached = owner.last_step
        owner.write_on(100)
        after = owner.ask("figures")
        open_gate(gate)
        found = read.result(PATIENCE)
    assert after["checkpoints"] > before["checkpoints"]
    assert after["collected"] > before["collected"]
    assert found.step <= reached
    assert found == Model(SIZE).at(found.step)


def test_two_reads_of_one_instant_agree(spark: SparkSession, owner: Program, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with lowtide.spark.pinned(path) as pin:
        _, first, ts = summed(spark, path, as_of=pin)
        owner.write_on(50)
        _, second, again = summed(spark, path, as_of=pin, keyStart=0)
        assert ts == again
        assert first == second == Model(SIZE).at(owner.steps[ts])
        below = lowtide.spark.read(spark, path, COLLECTION, schema=SCHEMA, as_of=ts, keyEnd=1000)
        above = lowtide.spark.read(spark, path, COLLECTION, schema=SCHEMA, as_of=ts, keyStart=1000)
        assert sum_of(below.union(above)) == first
