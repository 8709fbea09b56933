"""Time travel: at every archived commit, Spark and DuckDB see what the store itself saw. Errors say what is missing."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException

import lowtide
import lowtide.spark
from lowtide import pipeline
from lowtide.pipeline import local
from lowtide.pipeline.tables.columns import KEY, VERSION
from lowtide.pipeline.tables.files import CLOSED, OPEN, TAIL, FileWriter
from lowtide.pipeline.tables.ledger import GAP, VACUUM, ArchiveLedger
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import table_at, tables_in
from lowtide.pipeline.tables.names import COLLECTIONS, TableName
from tests.conftest import OpenStore
from tests.spark.archives import Remembered
from tests.spark.travels import (
    check_differences,
    check_history,
    check_states,
    rows_of,
    settle_all,
    write_at_random,
)
from tests.support.attack import FULL
from tests.support.clocks import ManualClock
from tests.unit.cli.commands import invoke

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_every_commit_reads_as_the_store_had_it(spark: SparkSession, open_store: OpenStore, tmp_path: Path) -> None:
    """Before compaction, after it, and with later versions beside what is compacted. DuckDB and Spark read the same
    files by the same rules: but for the full attack, Spark reads only the last, which are of every kind, and every
    third commit is read for itself. The history of each table shows all of them."""
    shop, archive = Remembered(open_store("shop")), tmp_path / "archive"
    write_at_random(shop, seed=1, commits=10)
    pipeline.archive(spark, shop.store.path, archive)
    shop.do(lambda store: store.collection("items").rename("goods"))
    shop.do(lambda store: store.collection("orders").drop())
    write_at_random(shop, seed=2, commits=6)
    frame = spark.createDataFrame([(2, "loaded"), (50, "loaded")], "_id int, v0 string")
    options = {"path": str(shop.store.path), "collection": "items", "writeMode": "upsert", "bulkBytes": "0"}
    frame.write.format("lowtide").options(**options).mode("append").save()
    shop.remember()
    pipeline.archive(spark, shop.store.path, archive)
    early = spark if FULL else None
    check_states(early, archive, shop, every=6)
    check_differences(early, archive, shop)
    settle_all(archive)
    check_states(early, archive, shop, every=6)
    check_differences(early, archive, shop)
    write_at_random(shop, seed=3, commits=5)
    pipeline.archive(spark, shop.store.path, archive)
    kinds = {each.kind for table in tables_in(Location.of(archive)).values() for each in table.files}
    assert kinds == {OPEN, CLOSED, TAIL}
    check_states(spark, archive, shop, every=1 if FULL else 3)
    check_history(spark, archive, shop)
    check_differences(spark, archive, shop)


def test_the_columns_are_those_that_a_read_of_the_store_has(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path
) -> None:
    store = open_store("shop")
    items = store.collection("items")
    items.insert_many([{"_id": n, "name": f"n{n}", "at": {"x": n, "tags": ["a"]}, "price": n / 2} for n in range(20)])
    pin = store.pin("then")
    expected = rows_of(lowtide.spark.read(spark, store.path, "items", as_of=pin).orderBy("_id"))
    items.delete_many({"_id": {"$lt": 10}})
    items.update_one({"_id": 12}, {"$set": {"at.y": 1, "extra": True}})
    pipeline.archive(spark, store.path, tmp_path / "archive")
    frame = pipeline.as_of(spark, tmp_path / "archive", pin.ts, "items")
    assert frame.columns == ["_id", "name", "at", "price", "extra"]
    found = rows_of(frame.selectExpr("_id", "name", "named_struct('x', at.x, 'tags', at.tags) AS at", "price"))
    assert sorted(found, key=lambda row: row["_id"]) == expected
    assert local.as_of(tmp_path / "archive", pin.ts, "items").to_pylist() == sorted(
        rows_of(frame), key=lambda row: row["_id"]
    )
    assert frame.where("extra IS NOT NULL").count() == 0


class Days:
    """A store whose clock the test sets: commits at certain minutes of a day."""

    def __init__(self, open_store: OpenStore) -> None:
        self._clock = ManualClock(0.0)
        self.store = open_store("shop", clock=self._clock)
        self.day = datetime(2026, 5, 1, tzinfo=UTC)

    def at(self, minutes: float) -> datetime:
        return self.day + timedelta(minutes=minutes)

    def write(self, *minutes: float) -> None:
        for each in minutes:
            self._clock.now = self.at(each).timestamp()
            self.store.collection("items").replace_one({"_id": 1}, {"_id": 1, "minute": each}, upsert=True)


@pytest.fixture
def days(open_store: OpenStore) -> Days:
    return Days(open_store)


def minute(frame: DataFrame) -> float | None:
    return next((row.minute for row in frame.collect()), None)


def test_a_time_means_the_last_commit_at_or_before_it(spark: SparkSession, days: Days, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    days.write(10, 20, 30)
    pipeline.archive(spark, days.store.path, archive)
    days.write(40, 39.5, 50)  # the clock was set back
    pipeline.archive(spark, days.store.path, archive)
    expected = {9.0: None, 10.0: 10.0, 25.0: 20.0, 30.0: 30.0, 39.7: 30.0, 40.0: 39.5, 49.9: 39.5, 50.0: 50.0}
    for when, seen in expected.items():
        found = local.as_of(archive, days.at(when), "items").to_pylist()
        assert [row["minute"] for row in found] == ([] if seen is None else [seen]), when
    for when in (25.0, 39.7):
        assert minute(pipeline.as_of(spark, archive, days.at(when), "items")) == expected[when]
    assert minute(pipeline.as_of(spark, archive, "2026-05-01T02:20:00.000001+02:00", "items")) == 20.0
    assert minute(pipeline.as_of(spark, archive, days.at(20).replace(tzinfo=None), "items")) == 20.0
    assert days.store.commit_at(days.at(25).timestamp()) == 2


def test_a_time_after_the_last_run_is_answered_with_a_warning(spark: SparkSession, days: Days, tmp_path: Path) -> None:
    days.write(10, 20)
    pipeline.archive(spark, days.store.path, tmp_path / "archive")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert local.as_of(tmp_path / "archive", days.at(30), "items").num_rows == 1
        with pytest.raises(pipeline.ArchiveBehindWarning, match="this is its last commit, 2"):
            local.as_of(tmp_path / "archive", datetime.now(UTC), "items")
    with pytest.raises(lowtide.UsageError, match="lies in the future"):
        local.as_of(tmp_path / "archive", datetime.now(UTC) + timedelta(days=1), "items")


@pytest.fixture
def archived(spark: SparkSession, days: Days, tmp_path: Path) -> Iterator[Path]:
    """An archive of commits 1 to 6."""
    days.write(10, 20, 30, 40, 50, 60)
    pipeline.archive(spark, days.store.path, tmp_path / "archive")
    yield tmp_path / "archive"
    shutil.rmtree(tmp_path / "archive")


def test_what_is_not_there_is_named(spark: SparkSession, archived: Path, days: Days) -> None:
    with pytest.raises(pipeline.ArchiveBehind, match="has not reached commit 7: its last one is 6") as behind:
        pipeline.as_of(spark, archived, 7, "items")
    assert behind.value.commit == 6
    with pytest.raises(pipeline.NotArchived, match="did you mean 'items'"):
        pipeline.as_of(spark, archived, 1, "item")
    with pytest.raises(pipeline.ArchiveError, match="there is no archive"):
        pipeline.as_of(spark, archived.parent / "none", 1, "items")
    with pytest.raises(lowtide.UsageError, match="an instant is a commit, such as 42, or an ISO time"):
        pipeline.as_of(spark, archived, "yesterday", "items")
    with pytest.raises(lowtide.UsageError, match="give the name of a collection"):
        pipeline.as_of(spark, archived, 1)
    assert pipeline.gaps(archived) == []


def test_a_gap_is_an_error_and_a_warning(spark: SparkSession, archived: Path, days: Days) -> None:
    ArchiveLedger(Location.of(archived)).add(GAP, since=2, until=5, detail={"reason": "lost", "tables": None})
    with pytest.raises(pipeline.ArchiveGap, match="nearest that can be read: commit 2 and commit 5") as gap:
        pipeline.as_of(spark, archived, 3, "items")
    assert (gap.value.first, gap.value.last) == (3, 4)
    with pytest.raises(pipeline.ArchiveGap, match=r"the last commit at .* is not known"):
        local.as_of(archived, days.at(45), "items")
    with pytest.raises(pipeline.ArchiveGap):
        pipeline.diff(spark, archived, 1, 4, "items")
    assert minute(pipeline.as_of(spark, archived, 5, "items")) == 50.0
    with pytest.warns(pipeline.ArchiveGapWarning, match="lacks commits 3 to 4: lost"):
        pipeline.history(spark, archived, "items")
    [found] = pipeline.gaps(archived)
    assert (found.since, found.until) == (2, 5)


def test_what_a_vacuum_removed_is_named(spark: SparkSession, archived: Path, days: Days) -> None:
    ArchiveLedger(Location.of(archived)).add(VACUUM, until=5, detail={"instants": [2]})
    with pytest.raises(pipeline.ArchiveGap, match=r"a vacuum removed it.* commit 2 and commit 5"):
        pipeline.as_of(spark, archived, 4, "items")
    with pytest.raises(pipeline.ArchiveGap, match=r"the last commit at .* commit 2 and commit 5"):
        local.as_of(archived, days.at(45), "items")
    for readable in (2, 5, 6, days.at(20), days.at(55)):
        assert local.as_of(archived, readable, "items").num_rows == 1
    with pytest.warns(pipeline.ArchiveGapWarning, match="a vacuum kept only what 1 instants see"):
        local.history(archived, "items")


def test_versions_of_a_run_that_has_not_ended_are_not_shown(archived: Path) -> None:
    """A table may have them before the others do, and before the ledger says so."""
    table = table_at(Location.of(archived), TableName(COLLECTIONS, "items"))
    [file] = table.files
    rows = pa.parquet.read_table(f"{table.location.root}/{file.name}").slice(0, 1)
    writer = FileWriter(table.location, TAIL, rows.schema)
    writer.write(rows.set_column(rows.schema.get_field_index(VERSION), VERSION, pa.array([7], pa.int64())))
    assert table.append([writer.finish()], 7)
    with pytest.raises(pipeline.ArchiveBehind):
        local.as_of(archived, 7, "items")
    found = local.history(archived, "items").to_pylist()
    assert [row["_version"] for row in found] == [1, 2, 3, 4, 5, 6]
    assert found[-1]["valid_to"] is None


def test_the_history_of_one_document_reads_few_files(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path
) -> None:
    store, archive = open_store("shop"), tmp_path / "archive"
    for round in range(3):
        with store.transaction() as tx:
            for number in range(500):
                tx.collection("items").replace_one({"_id": number}, {"_id": number, "round": round}, upsert=True)
    pipeline.archive(spark, store.path, archive)
    settle_all(archive, rows_per_file=10)
    table = table_at(Location.of(archive), TableName(COLLECTIONS, "items"))
    frame = pipeline.history(spark, archive, "items", 321)
    assert len(set(frame.inputFiles())) <= len(table.files) * 0.05
    assert [(row._id, row._version, row.valid_to) for row in frame.collect()] == [
        (321, 1, 2),
        (321, 2, 3),
        (321, 3, None),
    ]
    assert local.history(archive, "items", 321).to_pylist() == rows_of(frame)
    assert frame.columns == ["_id", "_version", "_time", "_kind", "_raw", "valid_to", "round"]
    assert local.history(archive, "items", "nobody").num_rows == 0


def test_a_difference_reads_only_the_files_that_may_have_what_changed(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, archive = open_store("shop"), tmp_path / "archive"
    store.collection("items").insert_many([{"_id": n, "v": 0} for n in range(500)])
    pipeline.archive(spark, store.path, archive)
    settle_all(archive, rows_per_file=10)
    store.collection("items").update_one({"_id": 250}, {"$set": {"v": 1}})
    pipeline.archive(spark, store.path, archive)
    monkeypatch.setattr("lowtide.pipeline.tables.visible._FEW", 100)
    frame = pipeline.diff(spark, archive, 1, 2, "items")
    assert len(set(frame.inputFiles())) == 2
    assert rows_of(frame) == [
        {"_id": 250, "_kind": "update", "before": '{"_id":250,"v":0}', "after": '{"_id":250,"v":1}'}
    ]


def test_views_are_of_one_commit(spark: SparkSession, open_store: OpenStore, tmp_path: Path) -> None:
    store, archive = open_store("shop"), tmp_path / "archive"
    store.collection("items").insert_one({"_id": 1, "v": 1})
    store.collection("big orders").insert_one({"_id": 1})
    store.collection("items").update_one({"_id": 1}, {"$set": {"v": 2}})
    pipeline.archive(spark, store.path, archive)
    names = pipeline.create_views(spark, archive, prefix="now_")
    assert names == ["now_big orders", "now_big orders_history", "now_items", "now_items_history"]
    pipeline.create_views(spark, archive, at=1, prefix="then_")
    query = (
        "SELECT n.v, t.v, (SELECT count(*) FROM now_items_history), (SELECT count(*) FROM `then_big orders`) "
        "FROM now_items n JOIN then_items t USING (_id)"
    )
    assert [tuple(row) for row in spark.sql(query).collect()] == [(2, 1, 2, 0)]
    store.collection("ITEMS").insert_one({"_id": 1})
    pipeline.archive(spark, store.path, archive)
    with pytest.raises(lowtide.UsageError, match="would have the same name"):
        pipeline.create_views(spark, archive)
    assert pipeline.create_views(spark, archive, collections=["ITEMS"]) == ["ITEMS", "ITEMS_history"]


def test_other_tools_read_the_same_table(spark: SparkSession, open_store: OpenStore, tmp_path: Path) -> None:
    import duckdb
    import polars

    shop, archive = Remembered(open_store("shop")), tmp_path / "archive"
    write_at_random(shop, seed=4, commits=10)
    pipeline.archive(spark, shop.store.path, archive)
    settle_all(archive)
    write_at_random(shop, seed=5, commits=3)
    pipeline.archive(spark, shop.store.path, archive)
    table = table_at(Location.of(archive), TableName(COLLECTIONS, "items"))
    expected = sorted((row._key, row._version) for row in table.read(spark).select(KEY, VERSION).collect())
    dataset = DeltaTable(table.location.uri).to_pyarrow_dataset()
    query = f"select {KEY}, {VERSION} from dataset order by all"
    assert duckdb.connect().execute(query).fetchall() == expected
    assert sorted(polars.read_delta(table.location.uri).select(KEY, VERSION).rows()) == expected
    assert dataset.count_rows() == len(expected)


def test_a_read_of_the_store_names_the_archive_that_has_the_instant(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path
) -> None:
    store, archive = open_store("shop"), tmp_path / "archive"
    items = store.collection("items")
    items.insert_one({"_id": 1, "v": 1})
    items.update_one({"_id": 1}, {"$set": {"v": 2}})
    with pytest.raises(AnalysisException, match="Pin an instant with"):
        lowtide.spark.read(spark, store.path, "items", as_of=1)
    pipeline.archive(spark, store.path, archive, collections=["items"])
    with pytest.raises(AnalysisException) as expired:
        lowtide.spark.read(spark, store.path, "items", as_of=1)
    call = f"lowtide.pipeline.as_of(spark, '{archive}', 1, 'items')"
    assert f"The archive {archive} has commits up to 2: {call}" in str(expired.value)
    [row] = eval(call, {"lowtide": lowtide, "spark": spark}).collect()
    assert row.v == 1
    items.update_one({"_id": 1}, {"$set": {"v": 3}})
    items.update_one({"_id": 1}, {"$set": {"v": 4}})
    for collection, commit in (("items", 3), ("others", 1)):
        with pytest.raises(AnalysisException, match="Pin an instant with"):
            lowtide.spark.read(spark, store.path, collection, as_of=commit)
    note = store.path / "archives.json"
    assert note.stat().st_mode & 0o777 == 0o600
    store.backup(tmp_path / "backup")
    store.close()
    lowtide.open(store.path).close()
    note.write_text("damaged")
    shutil.rmtree(archive)
    with pytest.raises(AnalysisException, match="Pin an instant with"):
        lowtide.spark.read(spark, store.path, "items", as_of=1)


def test_the_command_line_asks_with_spark_and_without(archived: Path, days: Days) -> None:
    assert invoke("pipeline", "as-of", archived, "items", "--at", "2").stdout == '{"_id":1,"minute":20}\n'
    local = invoke("pipeline", "as-of", archived, "items", "--at", "2026-05-01T00:25:00Z", "--local", "--format", "csv")
    assert local.stdout.splitlines() == ["_id,minute", "1,20"]
    ArchiveLedger(Location.of(archived)).add(GAP, since=2, until=5, detail={"reason": "lost", "tables": None})
    for arguments in ([], ["--local"]):
        found = invoke("pipeline", "history", archived, "items", "1", *arguments)
        last = json.loads(found.stdout.splitlines()[-1])
        assert last["_version"] == 6
        assert last["_time"] == {"$date": "2026-05-01T01:00:00Z"}
        assert last["document"] == {"_id": 1, "minute": 60}
        assert "lacks commits 3 to 4: lost" in found.stderr
    for arguments in ([], ["--local"]):
        found = invoke("pipeline", "diff", archived, "items", "1", "5", *arguments)
        assert json.loads(found.stdout) == {
            "_id": 1,
            "_kind": "update",
            "before": {"_id": 1, "minute": 10},
            "after": {"_id": 1, "minute": 50},
        }
    missing = invoke("pipeline", "as-of", archived, "items", "--at", "3", "--local")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "commit 2 and commit 5" in missing.stderr
    assert invoke("pipeline", "as-of", archived, "items", "--at", "noon", "--local").exit_code == 2
    written = invoke("pipeline", "as-of", archived, "items", "--local", "-o", archived.parent / "x.jsonl", "--json")
    assert json.loads(written.stdout)["written"] == 1


def test_keyspaces_and_ids_of_several_types_on_the_command_line(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path
) -> None:
    store, archive = open_store("shop"), tmp_path / "archive"
    store.keyspace("k").put(b"a", b"1")
    store.collection("items").insert_many([{"_id": 1}, {"_id": "1"}])
    store.collection("items").delete_many({})
    pipeline.archive(spark, store.path, archive)
    rows = invoke("pipeline", "as-of", archive, "k", "--keyspace", "--local")
    assert rows.stdout == invoke("pipeline", "as-of", archive, "k", "--keyspace").stdout
    assert json.loads(rows.stdout)["_raw"] == {"$binary": {"base64": "MQ==", "subType": "00"}}
    for arguments in ([], ["--local"]):
        found = invoke("pipeline", "history", archive, "items", '"1"', *arguments)
        assert [json.loads(line)["_id"] for line in found.stdout.splitlines()] == ["1", "1"]
        assert len(invoke("pipeline", "history", archive, "k", "a", "--keyspace", *arguments).stdout.splitlines()) == 1
