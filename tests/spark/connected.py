"""A client of Spark Connect that uses a store; prints what it found as JSON.

python -m tests.spark.connected SERVER STORE COPY CHECKPOINT

In the full attack (``make attack``) it uses tables and streams as well.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

import lowtide
import lowtide.spark
from tests.support.attack import FULL


def main(server: str, path: str, copy: str, checkpoint: str) -> None:
    spark = SparkSession.builder.remote(server).getOrCreate()
    found: dict[str, Any] = {"is_connect": type(spark).__module__.startswith("pyspark.sql.connect")}
    found |= read_and_write(spark, path)
    if FULL:
        found |= use_tables_and_streams(spark, path, copy, checkpoint)
    print(json.dumps(found))
    spark.stop()


def read_and_write(spark: SparkSession, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with lowtide.open(path) as store:
        users = lowtide.spark.read(spark, path, "users")
        found["first"] = [users.count(), users.filter("age < 10").count()]
        store["users"].delete_many({"_id": {"$gte": 50}})
        found["same instant"] = [users.count(), lowtide.spark.read(spark, path, "users", columns=["_id"]).count()]
        found["owner"] = next(pin.owner for pin in store.pins())
        found["pins"] = len(store.pins())
        found["released"] = lowtide.spark.release(users.filter("age < 10"))
        own = spark.read.format("lowtide").options(path=path, collection="users").load()
        found["own words"] = own.count()
        rows = spark.createDataFrame([(1000, 1), (1001, 2)], "_id long, age long")
        rows.write.format("lowtide").options(path=path, collection="users").mode("append").save()
        found["written"] = store["users"].count_documents({})
    return found


def use_tables_and_streams(spark: SparkSession, path: str, copy: str, checkpoint: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    spark.sql(f"create table users using lowtide options (path '{path}', collection 'users')")
    spark.sql("insert into users values (1002, 3)")
    found["table"] = spark.sql("select max(_id) from users").first()[0]  # type: ignore[index]
    spark.sql("drop table users")
    stream = spark.readStream.format("lowtide").options(path=path, collection="users", readChangeFeed="true").load()
    sink = stream.selectExpr("_id", "age").writeStream.format("lowtide").options(path=copy, collection="users")
    sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination(120)
    with lowtide.open(copy) as store:
        found["streamed"] = store["users"].count_documents({})
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
