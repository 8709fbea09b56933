"""What a session keeps of a store: the pins of its loads, and tables in its catalog."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lowtide
import lowtide.spark


@pytest.fixture
def shop(store: lowtide.Store) -> lowtide.Store:
    store["users"].insert_many([{"_id": n, "age": n % 50} for n in range(100)])
    store["orders"].insert_many([{"_id": n, "user": n % 100} for n in range(20)])
    return store


def test_thirty_reads_of_one_instant_keep_one_pin_until_the_last_is_released(
    spark: SparkSession, shop: lowtide.Store
) -> None:
    frames = [lowtide.spark.read(spark, shop.path, "users") for _ in range(4)]
    own = spark.read.format("lowtide").options(path=str(shop.path), collection="orders").load()
    declared = lowtide.spark.read(spark, shop.path, "users", schema="_id long")
    assert lowtide.spark.release(declared) == 0, "it is not planned yet, and keeps nothing"
    assert declared.count() == 100
    (pin,) = shop.pins()
    assert re.search(rf"Spark application 'lowtide' local-\d+, {re.escape(__file__)}:\d+\) and 5 more", pin.owner)
    shop["users"].delete_many({})
    for each in frames:
        assert lowtide.spark.release(each.filter("age > 1")) == 0
    joined = declared.join(own, "_id")
    assert joined.count() == 20
    assert lowtide.spark.release(joined) == 1, "both loads are released, and the pin goes with the last"
    assert shop.pins() == []
    with pytest.raises(PySparkException, match="it was released"):
        own.count()


def test_a_load_in_sparks_own_words_names_application_and_program(spark: SparkSession, shop: lowtide.Store) -> None:
    spark.read.format("lowtide").options(path=str(shop.path), collection="orders").load()
    (pin,) = shop.pins()
    assert re.search(r"process \d+ on \S+ \(Spark application 'lowtide'", pin.owner)
    assert "load_pin.py" not in pin.owner


def test_a_table_of_the_catalog_is_created_read_written_and_dropped(spark: SparkSession, shop: lowtide.Store) -> None:
    spark.sql(f"create table catalog_users using lowtide options (path '{shop.path}', collection 'users')")
    try:
        assert spark.sql("select count(*), max(age) from catalog_users").first() == (100, 49)
        assert spark.table("catalog_users").schema.simpleString() == "struct<_id:bigint,age:bigint>"
        spark.sql("insert into catalog_users values (100, 50), (101, 51)")
        spark.sql("insert into catalog_users (_id) values (102)")
        assert shop["users"].find_one({"_id": 101}) == {"_id": 101, "age": 51}
        assert shop["users"].find_one({"_id": 102}) == {"_id": 102}
        assert spark.sql("select count(*) from catalog_users").first() == (103,)
        assert spark.sql("""select count(*) from catalog_users with (filter='{"age": 7}')""").first() == (2,)
        spark.sql("insert overwrite catalog_users select 1, 2")
        assert list(shop["users"].find()) == [{"_id": 1, "age": 2}]
        assert lowtide.spark.release(spark.table("catalog_users")) == 0
    finally:
        spark.sql("drop table catalog_users")
    assert shop["users"].count_documents({}) == 1, "a table that is dropped leaves the collection"
    with pytest.raises(PySparkException, match="has no collection 'none'"):
        spark.sql(f"create table none using lowtide options (path '{shop.path}', collection 'none')")
