"""Reads through Spark itself: what users write, and what they see."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.worker import lookup_data_sources

import lowtide
import lowtide.spark
import pyspark_lowtide
from lowtide.spark.source import LowtideSource
from lowtide.values.ids import id_key
from tests.support.parts import parts_of

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def shop(store: lowtide.Store) -> lowtide.Store:
    """The test owns the store; Spark's processes are others."""
    store["users"].insert_many([{"_id": n, "name": f"u{n}", "age": n % 50} for n in range(100)])
    store["orders"].insert_many([{"_id": f"o{n}", "user": n % 100, "sum": Decimal("1.50")} for n in range(200)])
    return store


def test_one_load_is_one_instant_for_all_its_actions(spark: SparkSession, shop: lowtide.Store) -> None:
    options = {"path": str(shop.path), "collection": "users"}
    inferred = spark.read.format("lowtide").options(**options).load()
    declared = spark.read.format("lowtide").options(**options).schema("_id int, name string").load()
    assert inferred.schema.simpleString() == "struct<_id:bigint,name:string,age:bigint>"
    before = {pin.name for pin in shop.pins()}
    shop["orders"].insert_one({"_id": "another instant"})
    assert declared.union(declared).count() == 200
    assert len({pin.name for pin in shop.pins()} - before) == 1, "both sides are of one instant"
    shop["users"].delete_many({"_id": {"$lt": 50}})
    shop["users"].insert_one({"_id": 1000, "name": "later", "age": "unknown"})
    shop.checkpoint()
    shop.collect_garbage()
    assert inferred.count() == declared.count() == declared.filter("_id >= 0").count() == 100
    assert sorted(row._id for row in inferred.collect()) == list(range(100))
    assert inferred.filter("age < 10").count() == 20
    assert inferred.count() == 100, "a filter is of its own query only"
    assert inferred.union(inferred.filter("_id < 10")).count() == 110
    assert inferred.limit(3).count() == 3
    assert lowtide.spark.read(spark, shop.path, "users", columns=["_id"]).count() == 51


def test_the_pin_of_a_load_is_for_the_drivers_jvm(spark: SparkSession, shop: lowtide.Store) -> None:
    lowtide.spark.read(spark, shop.path, "users")
    ((_, row),) = parts_of(shop).pinning.leases.all()
    assert row.process is not None
    assert Path(f"/proc/{row.process.pid}/comm").read_text() == "java\n"


def test_values_arrive_as_what_they_are(spark: SparkSession, store: lowtide.Store) -> None:
    document = {
        "_id": "a",
        "at": NOON,
        "sum": Decimal("1.25"),
        "wide": 2**70,
        "bytes": b"\x00x",
        "home": {"zip": 1, "lines": ["x", "y"]},
        "mixed": [1, {"a": "x"}],
        "flag": True,
        "none": None,
    }
    store["c"].insert_many([document, {"_id": "b"}])
    first, second = lowtide.spark.read(spark, store.path, "c").orderBy("_id").collect()
    assert first.at.astimezone(UTC) == NOON
    assert (first.sum, first.wide, bytes(first.bytes), first.flag) == (Decimal("1.25"), 2**70, b"\x00x", True)
    assert first.home.asDict() == {"zip": 1, "lines": ["x", "y"]}
    assert first.mixed == ["1", '{"a":"x"}']
    assert (first.none, second.home, second.mixed) == (None, None, None)


def test_sql_over_a_view_and_a_join_at_one_instant(spark: SparkSession, shop: lowtide.Store) -> None:
    with lowtide.spark.pinned(shop.path) as pin:
        users = lowtide.spark.read(spark, shop.path, "users", as_of=pin, filter={"age": {"$gte": 40}})
        shop["orders"].delete_many({})
        orders = lowtide.spark.read(spark, shop.path, "orders", as_of=pin)
        users.createOrReplaceTempView("users")
        orders.createOrReplaceTempView("orders")
        query = "select count(*) as n, sum(o.sum) as total from users u join orders o on o.user = u._id"
        assert spark.sql(query).first() == (40, Decimal("60.00"))


def test_a_keyspace_a_missing_collection_and_no_columns(spark: SparkSession, store: lowtide.Store) -> None:
    store.keyspace("k").put(b"x", b"1")
    assert [
        (bytes(key), bytes(value)) for key, value in lowtide.spark.read(spark, store.path, keyspace="k").collect()
    ] == [(b"x", b"1")]
    assert lowtide.spark.read(spark, store.path, "none", schema="_id int").count() == 0
    store["c"].insert_many([{"_id": n} for n in range(3)])
    assert lowtide.spark.read(spark, store.path, "c", schema=StructType([])).count() == 3
    with pytest.raises(PySparkException, match=r"has no collection 'none' at commit .*its collections are 'c'"):
        lowtide.spark.read(spark, store.path, "none")


def test_errors_of_tasks_and_options_are_in_the_users_words(spark: SparkSession, shop: lowtide.Store) -> None:
    frame = lowtide.spark.read(spark, shop.path, "users", schema="_id int, name int", mode="FAILFAST")
    with pytest.raises(PySparkException, match=rf"collection 'users' of the store {shop.path}.*_id \d+, field 'name'"):
        frame.collect()
    with pytest.raises(PySparkException, match="no option 'colection'; did you mean 'collection'"):
        spark.read.format("lowtide").option("path", str(shop.path)).option("colection", "users").load()
    with shop.transaction() as tx:
        tx._tx.keyspace("documents/users").put(id_key(7), b"\xc1")
    damaged = lowtide.spark.read(spark, shop.path, "users", schema="_id int, name string")
    with pytest.raises(PySparkException, match="the document with _id 7 cannot be decoded"):
        damaged.collect()


def test_an_export_is_read_without_the_store(spark: SparkSession, shop: lowtide.Store, tmp_path: Path) -> None:
    before = lowtide.spark.read(spark, shop.path, "orders")
    manifest = lowtide.spark.export(shop.path, "orders", tmp_path / "an export [1] {a}", rows_per_file=50)
    shop["orders"].delete_many({})
    found = lowtide.spark.read_export(spark, tmp_path / "an export [1] {a}")
    assert found.schema == before.schema
    assert sorted(found.collect()) == sorted(before.collect())
    assert found.count() == manifest.rows == 200


def test_spark_finds_the_format_by_itself() -> None:
    """This is how Spark looks up a format that was not registered, in a separate process."""
    answer = io.BytesIO()
    lookup_data_sources._main(io.BytesIO(), answer)
    data = answer.getvalue()
    assert b"lowtide" in data
    assert b"LowtideSource" in data
    assert pyspark_lowtide.DefaultSource is LowtideSource
