"""The change feed through a real session: as a DataFrame, and as streams that are stopped and resumed."""

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


def test_a_bulk_load_is_in_feed_and_stream_and_a_replica_follows(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path
) -> None:
    store, copy = open_store(before_images=False, feed_bytes=1 << 30), open_store("copy", feed_bytes=1 << 30)
    store["users"].insert_many([{"_id": each, "city": "Oslo"} for each in range(50)])

    def replicate() -> list[tuple[Any, ...]]:
        """Follow the stream into the copy until it has all there is; what the copy has."""
        asked = spark.readStream.format("lowtide").option("path", str(store.path)).option("collection", "users")
        frame = asked.schema(SCHEMA).load()
        sink = frame.writeStream.format("lowtide").options(path=str(copy.path), collection="users", writeMode="changes")
        query = sink.option("checkpointLocation", str(tmp_path / "progress")).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()
        return [tuple(each.values()) for each in copy["users"].find({}, sort=[("_id", 1)])]

    def documents() -> list[tuple[Any, ...]]:
        return [tuple(each.values()) for each in store["users"].find({}, sort=[("_id", 1)])]

    assert replicate() == documents()
    before = store.stats().last_commit
    rows = spark.range(40, 60).selectExpr("id AS _id", "if(id = 45, 'Oslo', 'Voss') AS city")
    writer = rows.write.format("lowtide").options(path=str(store.path), collection="users", writeMode="upsert")
    writer.option("bulkBytes", 0).mode("append").save()
    store["users"].delete_one({"_id": 0})
    found = [tuple(row)[:3] for row in changes(spark, store, startingVersion=before + 1).collect()]
    expected = [(each, "Voss", "update_postimage") for each in range(40, 50) if each != 45]
    expected += [(each, "Voss", "insert") for each in range(50, 60)]
    assert sorted(found) == [(0, None, "delete"), *sorted(expected)]
    assert replicate() == documents()
