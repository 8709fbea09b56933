"""A real session writes DataFrames and streams to a live store: all of a write or nothing, and nothing left behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lowtide
import lowtide.spark


@pytest.fixture
def store(tmp_path: Path) -> Iterator[lowtide.Store]:
    with lowtide.open(tmp_path / "store", durability="relaxed") as store:
        yield store


def save(frame: DataFrame, store: lowtide.Store, mode: str = "append", **options: str) -> None:
    writer = frame.write.format("lowtide").option("path", str(store.path)).option("collection", "c")
    writer.options(**options).mode(mode).save()


def litter(store: lowtide.Store) -> list[str]:
    return os.listdir(store.path / "staging")


def ids(store: lowtide.Store) -> list[Any]:
    return [each["_id"] for each in store["c"].find({}, sort=[("_id", 1)])]


def test_many_rows_for_a_store_that_is_closed_go_straight_to_its_base(spark: SparkSession, tmp_path: Path) -> None:
    lowtide.spark.register(spark)
    lowtide.open(tmp_path / "store").close()
    frame = spark.range(0, 60_000, 1, 3).selectExpr("(id * 7919) % 60000 AS _id", "concat('user', id) AS name")
    frame.write.format("lowtide").option("path", str(tmp_path / "store")).option("collection", "c").mode(
        "append"
    ).save()
    changes = lowtide.spark.read(spark, tmp_path / "store", "c", readChangeFeed=True, startingVersion=1)
    assert changes.groupBy("_change_type").count().collect() == [("insert", 60_000)]
    read = lowtide.spark.read(spark, tmp_path / "store", "c")
    assert read.select("_id").distinct().count() == 60_000
    with lowtide.open(tmp_path / "store") as store:
        assert store.stats().last_commit < 10
        assert store["c"].count_documents({}) == 60_000
        assert store["c"].find_one({"_id": 7919}) == {"_id": 7919, "name": "user1"}
        assert store.verify().ok
        assert litter(store) == []


def test_a_dataframe_is_written_by_the_owner_as_one_commit(spark: SparkSession, store: lowtide.Store) -> None:
    lowtide.spark.register(spark)
    store["c"].create_index("name")
    frame = spark.range(0, 1000, 1, 3).selectExpr(
        "id AS _id",
        "concat('user', id) AS name",
        "timestamp_micros(id) AS at",
        "named_struct('x', id, 'y', CAST(NULL AS STRING)) AS s",
        "array(id, NULL) AS a",
        "map('k', id) AS m",
        "CAST(id AS DECIMAL(10, 2)) AS d",
    )
    before = store.stats().last_commit
    save(frame, store)
    assert store.stats().last_commit == before + 1
    assert ids(store) == list(range(1000))
    found = store["c"].find_one({"name": "user7"})
    assert found is not None
    assert (found["_id"], found["s"], found["a"], found["m"], str(found["d"])) == (
        7,
        {"x": 7},
        [7, None],
        {"k": 7},
        "7.00",
    )
    save(spark.range(500, 1500).selectExpr("id AS _id", "'new' AS name"), store, writeMode="upsert", bulkBytes="0")
    assert store["c"].count_documents({"name": "new"}) == 1000
    assert ids(store) == list(range(1500))
    save(spark.range(3).selectExpr("id AS key"), store, "overwrite", idField="key")
    assert ids(store) == [0, 1, 2]
    assert litter(store) == []


def test_a_write_ends_beside_a_thread_that_changes_the_same_documents(
    spark: SparkSession, store: lowtide.Store
) -> None:
    lowtide.spark.register(spark)
    store["c"].insert_many([{"_id": each, "n": -1} for each in range(5000)])
    stop, seen = threading.Event(), []

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            store["c"].update_one({"_id": number % 5000}, {"$inc": {"w": 1}})
            if number % 100 == 0:
                seen.append(store["c"].count_documents({"n": {"$gte": 0}}))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        save(spark.range(5000).selectExpr("id AS _id", "id AS n"), store, writeMode="upsert", commitTimeout="60")
    finally:
        stop.set()
        writer.join()
    assert set(seen) <= {0, 5000}, "all of it or nothing"
    assert store["c"].count_documents({"n": {"$gte": 0}}) == 5000
    assert litter(store) == []


def test_a_write_that_fails_changes_nothing_and_says_why(spark: SparkSession, store: lowtide.Store) -> None:
    lowtide.spark.register(spark)
    store["c"].insert_one({"_id": 500})
    with pytest.raises(Exception, match=r"write to collection 'c' of the store .*'_id': 500\} already exists"):
        save(spark.range(0, 1000, 1, 2).selectExpr("id AS _id"), store)
    frame = spark.range(0, 1000, 1, 2).selectExpr("id AS _id", "if(id = 500, '{', '1') AS j")
    with pytest.raises(Exception, match=r"document with _id 500, field 'j': it must be JSON"):
        save(frame, store, jsonColumns="j")
    assert ids(store) == [500]
    assert litter(store) == []


def test_a_stream_goes_on_after_a_restart_and_doubles_nothing(
    spark: SparkSession, store: lowtide.Store, tmp_path: Path
) -> None:
    lowtide.spark.register(spark)
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"

    def run() -> None:
        rows = spark.readStream.schema("_id long, v string").json(str(source))
        writer = rows.writeStream.format("lowtide").option("path", str(store.path)).option("collection", "c")
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    spark.range(0, 10).selectExpr("id AS _id", "'a' AS v").coalesce(1).write.json(str(source))
    run()
    spark.range(10, 20).selectExpr("id AS _id", "'b' AS v").coalesce(1).write.mode("append").json(str(source))
    run()
    assert ids(store) == list(range(20))
    (last,) = sorted(each for each in (checkpoint / "commits").iterdir() if each.name == "1")
    last.unlink()  # as after a kill between the commit of the batch and Spark's own note of it
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    before = store.stats().last_commit
    run()
    assert ids(store) == list(range(20))
    assert store.stats().last_commit == before
    assert litter(store) == []
