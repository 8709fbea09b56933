"""The change feed through a real session: as a DataFrame, and as streams that are stopped and go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lowtide
from tests.conftest import OpenStore

SCHEMA = "_id long, city string, _change_type string, _commit_version long, _commit_timestamp timestamp"


def changes(spark: SparkSession, store: lowtide.Store, **options: Any) -> DataFrame:
    asked = spark.read.format("lowtide").option("path", str(store.path)).option("collection", "users")
    return asked.option("readChangeFeed", True).options(**options).load()


class Collected:
    """Runs a stream with a checkpoint until it has what there is, and keeps what each batch delivered."""

    def __init__(self, spark: SparkSession, store: lowtide.Store, checkpoint: Path) -> None:
        self._spark = spark
        self._store = store
        self._checkpoint = checkpoint
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def run(self, **options: Any) -> list[list[tuple[Any, ...]]]:
        """The batches of one run with Trigger.AvailableNow."""
        before = set(self.batches)
        asked = self._spark.readStream.format("lowtide").option("path", str(self._store.path))
        frame = asked.option("collection", "users").options(**options).schema(SCHEMA).load()

        def keep(batch: DataFrame, number: int) -> None:
            rows = batch.select("_id", "city", "_change_type", "_commit_version").collect()
            self.batches[number] = [tuple(row) for row in rows]

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(self._checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()
        return [self.batches[number] for number in sorted(set(self.batches) - before)]


def test_changes_are_a_dataframe_with_deltas_columns(spark: SparkSession, open_store: OpenStore) -> None:
    store = open_store(before_images=True)
    users = store["users"]
    users.insert_many([{"_id": 1, "city": "Oslo"}, {"_id": 2, "city": "Voss"}])
    users.update_one({"_id": 1}, {"$set": {"city": "Bergen"}})
    users.delete_one({"_id": 2})
    frame = changes(spark, store, startingVersion=1)
    assert frame.columns == ["_id", "city", "_change_type", "_commit_version", "_commit_timestamp"]
    found = [tuple(row)[:4] for row in frame.orderBy("_commit_version", "_id", "_change_type").collect()]
    assert found == [
        (1, "Oslo", "insert", 1),
        (2, "Voss", "insert", 1),
        (1, "Bergen", "update_postimage", 2),
        (1, "Oslo", "update_preimage", 2),
        (2, "Voss", "delete", 3),
    ]
    moment = frame.where("_commit_version = 2").collect()[0]["_commit_timestamp"].isoformat()
    assert changes(spark, store, startingTimestamp=f"{moment}Z").count() >= 3
    with pytest.raises(Exception, match="startingVersion 9 does not exist yet: the last version is 3"):
        changes(spark, store, startingVersion=9).count()


def test_a_stream_with_a_checkpoint_goes_on_where_it_was(
    spark: SparkSession, store: lowtide.Store, tmp_path: Path
) -> None:
    users = store["users"]
    users.insert_many([{"_id": number, "city": "Oslo"} for number in range(3)])
    collected = Collected(spark, store, tmp_path / "checkpoint")
    assert collected.run() == [[(number, "Oslo", "insert", 1) for number in range(3)]]
    users.update_one({"_id": 0}, {"$set": {"city": "Voss"}})
    users.delete_one({"_id": 1})
    assert collected.run() == [[(0, "Voss", "update_postimage", 2), (1, None, "delete", 3)]]
    assert collected.run() == []
    (consumer,) = store.consumers()
    assert consumer.position >= 1
    assert store.pins() == []


def test_a_stream_keeps_to_its_limits_and_never_splits_a_commit(
    spark: SparkSession, store: lowtide.Store, tmp_path: Path
) -> None:
    users = store["users"]
    for first, count in ((0, 1), (10, 5), (20, 2), (30, 1)):
        users.insert_many([{"_id": number, "city": "Oslo"} for number in range(first, first + count)])
    collected = Collected(spark, store, tmp_path / "checkpoint")
    found = collected.run(startingVersion=1, maxRowsPerTrigger=3)
    assert [len(batch) for batch in found] == [1, 5, 3]
    assert [row[3] for batch in found for row in batch] == [1, 2, 2, 2, 2, 2, 3, 3, 4]
