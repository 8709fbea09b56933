"""Quads in a real Spark session: reads, writes, changes and streams, while the application keeps running."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lowtide
from tests.conftest import OpenStore
from tests.unit.spark.statements import AGE, ANN, STATEMENTS, row_of, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def frame(spark: SparkSession, store: lowtide.Store, name: str, **options: Any) -> Any:
    return spark.read.format("lowtide").options(path=str(store.path), quads=name, **options).load()


def test_statements_go_to_spark_and_back(spark: SparkSession, open_store: OpenStore) -> None:
    store = open_store("library")
    people = store.quads("people")
    people.add_many(STATEMENTS)
    found = frame(spark, store, "people", partitions=2)
    people.clear()
    store.collect_garbage()
    rows = [row.asDict() for row in found.collect()]
    assert sorted_rows(rows) == sorted_rows([row_of(*each) for each in STATEMENTS])
    written = found.write.format("lowtide").option("path", str(store.path)).option("quads", "copy")
    written.mode("append").save()
    assert set(store.quads("copy").match()) == set(STATEMENTS)
    found.where("p = 'urn:knows'").write.format("lowtide").options(
        path=str(store.path), quads="copy", writeMode="delete"
    ).mode("append").save()
    assert set(store.quads("copy").match()) == set(STATEMENTS[2:])
    assert store.verify().ok


def test_a_stream_of_changes_keeps_a_copy(spark: SparkSession, open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store("library")
    people = store.quads("people")
    people.add_many(STATEMENTS[:6])

    def run() -> None:
        changes = (
            spark.readStream.format("lowtide")
            .options(path=str(store.path), quads="people", readChangeFeed="true")
            .load()
        )
        query = (
            changes.writeStream.format("lowtide")
            .options(path=str(store.path), quads="copy", writeMode="changes")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    assert set(store.quads("copy").match()) == set(STATEMENTS[:6])
    people.add_many(STATEMENTS[6:])
    people.remove((ANN, AGE, None))
    store.collect_garbage()
    run()
    assert set(store.quads("copy").match()) == set(people.match())
