"""The archive holds the content of every commit, once, whatever happens to the runs and to the store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lowtide
import lowtide.spark
from lowtide import pipeline
from lowtide.feed.consumers import Consumer
from lowtide.pipeline.tables.files import FileWriter
from lowtide.pipeline.tables.ledger import GAP, TIMELINE, ArchiveLedger
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import table_at
from lowtide.pipeline.tables.names import TableName
from lowtide.pipeline.tables.table import VersionTable
from tests.conftest import OpenStore
from tests.spark.archives import Remembered, check, forget_the_log, rows_in, state_at, stir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(open_store: OpenStore) -> Remembered:
    return Remembered(open_store("shop"))


def test_every_commit_can_be_read_again(spark: SparkSession, shop: Remembered, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    for seed in range(2):
        stir(shop, seed)
        report = pipeline.archive(spark, shop.store.path, archive)
        assert report.commit == shop.store.stats().last_commit
        assert report.rows == sum(report.tables.values()) > 0
    check(archive, shop)
    again = pipeline.archive(spark, shop.store.path, archive)
    assert (again.rows, again.commit, again.gaps) == (0, report.commit, ())


def test_renames_drops_and_bulk_loads_are_followed(spark: SparkSession, shop: Remembered, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    shop.do(lambda store: store.collection("a").insert_many([{"_id": n, "v": n} for n in range(5)]))
    shop.do(lambda store: store.collection("b").insert_many([{"_id": n, "w": "b"} for n in range(3, 8)]))
    pipeline.archive(spark, shop.store.path, archive)
    shop.do(lambda store: store.collection("a").update_one({"_id": 1}, {"$set": {"v": 10}}))
    shop.do(lambda store: store.collection("a").rename("b", dropTarget=True))
    shop.do(lambda store: store.collection("a").insert_one({"_id": "new", "v": 1}))
    shop.do(lambda store: store.collection("b").delete_one({"_id": 0}))

    def renamed_in_a_transaction(store: lowtide.Store) -> None:
        with store.transaction() as tx:
            tx.collection("b").rename("c")
            tx.collection("c").update_one({"_id": 2}, {"$set": {"v": "two"}})
            tx.collection("b").insert_one({"_id": 99})

    shop.do(renamed_in_a_transaction)
    frame = spark.createDataFrame([(2, "loaded"), (50, "loaded")], "_id int, v string")
    frame.write.format("lowtide").option("bulkBytes", "1").options(
        path=str(shop.store.path), collection="c", writeMode="upsert"
    ).mode("append").save()
    shop.remember()
    shop.do(lambda store: store.collection("c").insert_one({"_id": 51, "v": "after"}))
    shop.do(lambda store: store.collection("a").drop())
    pipeline.archive(spark, shop.store.path, archive)
    check(archive, shop)


class Killed(BaseException):
    """Ends a run where it stands."""


def test_a_run_that_ends_anywhere_is_repeated_and_nothing_is_there_twice(
    spark: SparkSession, shop: Remembered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each thing that a run leaves behind: a table's commit, its columns, the ledger, the consumer."""
    archive = tmp_path / "archive"
    passed, wanted = 0, 0

    def hurt(kind: type, name: str) -> None:
        real = getattr(kind, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal passed
            passed += 1
            if passed == wanted:
                raise Killed
            found = real(*args, **kwargs)
            passed += 1
            if passed == wanted:
                raise Killed
            return found

        monkeypatch.setattr(kind, name, called)

    for kind, name in (
        (VersionTable, "create"),
        (VersionTable, "widen"),
        (VersionTable, "append"),
        (VersionTable, "retype"),
        (ArchiveLedger, "add"),
        (Consumer, "ack"),
    ):
        hurt(kind, name)
    places = set()
    for seed in range(100):
        stir(shop, seed, commits=2)
        passed, wanted = 0, seed + 1
        try:
            report = pipeline.archive(spark, shop.store.path, archive)
        except Killed:
            places.add(wanted)
            continue
        assert report.commit == shop.store.stats().last_commit
        break
    assert len(places) >= 10
    check(archive, shop)


def test_what_the_log_lost_is_a_gap_and_the_state_after_it_is_right(
    spark: SparkSession, shop: Remembered, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    stir(shop, 1)
    first = pipeline.archive(spark, shop.store.path, archive)
    [consumer] = shop.store.consumers()
    shop.store.consumer(consumer.name).remove()
    stir(shop, 2)
    forget_the_log(shop.store)
    lost = shop.remember()
    report = pipeline.archive(spark, shop.store.path, archive)
    assert len(report.gaps) == 1
    [gap] = pipeline.gaps(archive)
    assert (gap.since, gap.until) == (first.commit, lost)
    check(archive, shop, until=first.commit)
    check(archive, shop, since=lost)
    stir(shop, 3)
    assert pipeline.archive(spark, shop.store.path, archive).gaps == ()
    check(archive, shop, since=lost)


def test_an_archive_that_begins_late_begins_with_a_snapshot(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path
) -> None:
    shop = Remembered(open_store("shop", feed_bytes=0))
    stir(shop, 1)
    forget_the_log(shop.store)
    begun = shop.remember()
    report = pipeline.archive(spark, shop.store.path, tmp_path / "archive")
    assert (report.gaps, report.began) == ((), begun)  # it is no loss, but reads name it
    with pytest.raises(pipeline.ArchiveGap, match="made before the archive began"):
        pipeline.as_of(spark, tmp_path / "archive", begun - 1, "items")
    [gap] = pipeline.gaps(tmp_path / "archive")
    assert (gap.until, gap.lost) == (begun, False)
    found = pipeline.status(tmp_path / "archive")
    assert (found.first, found.gaps) == (begun, ())
    stir(shop, 2)
    assert pipeline.archive(spark, shop.store.path, tmp_path / "archive").began is None
    check(tmp_path / "archive", shop, since=begun)
    assert shop.store.pins() == []


def test_what_is_taken_over_from_a_collection_that_is_not_followed_is_a_gap_and_no_hole(
    spark: SparkSession, shop: Remembered, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    shop.do(lambda store: store.collection("items").insert_many([{"_id": n} for n in range(3)]))
    shop.do(lambda store: store.collection("new").insert_many([{"_id": n, "v": n} for n in range(10, 15)]))
    pipeline.archive(spark, shop.store.path, archive, ["items"])
    before = shop.do(lambda store: store.collection("items").delete_one({"_id": 0}))
    shop.do(lambda store: store.collection("new").rename("items", dropTarget=True))
    last = shop.do(lambda store: store.collection("items").insert_one({"_id": 99}))
    report = pipeline.archive(spark, shop.store.path, archive, ["items"])
    assert report.gaps == (
        f"commits {before + 1} to {last - 1}: taken over from the collection 'new', which the archive does not follow",
    )
    rows = rows_in(archive)
    for commit in (before, last):
        assert state_at(rows, commit)["collections/items"] == shop.states[commit]["collections/items"]
    with pytest.raises(pipeline.ArchiveGap, match="which the archive does not follow"):
        pipeline.as_of(spark, archive, before + 1, "items")
    after = shop.do(lambda store: store.collection("items").delete_one({"_id": 10}))
    assert pipeline.archive(spark, shop.store.path, archive, ["items"]).gaps == ()
    assert state_at(rows_in(archive), after)["collections/items"] == shop.states[after]["collections/items"]


def test_an_archive_inside_of_its_store_is_refused(spark: SparkSession, shop: Remembered) -> None:
    shop.store.keyspace("k").put(b"a", b"b")
    before = sorted(each.name for each in shop.store.path.iterdir())
    for place in (shop.store.path, shop.store.path / "archive"):
        with pytest.raises(lowtide.UsageError, match="is inside the store"):
            pipeline.archive(spark, shop.store.path, place)
    assert sorted(each.name for each in shop.store.path.iterdir()) == before


def test_a_store_that_was_restored_from_a_backup_goes_another_way(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path
) -> None:
    shop = Remembered(open_store("shop"))
    archive, path = tmp_path / "archive", shop.store.path
    stir(shop, 1, commits=4)
    pipeline.archive(spark, path, archive)
    shop.store.backup(tmp_path / "backup")
    shared = shop.store.stats().last_commit
    stir(shop, 2, commits=6)
    undone = pipeline.archive(spark, path, archive)
    shop.store.close()
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "backup", path)
    again = Remembered(open_store("shop"))
    again.states = {commit: state for commit, state in shop.states.items() if commit <= shared}
    stir(again, 3, commits=9)
    report = pipeline.archive(spark, path, archive)
    assert report.since == shared
    check(archive, again)
    [entry] = ArchiveLedger(Location.of(archive)).of(TIMELINE)
    assert (entry.since, entry.until) == (shared, undone.commit)
    assert ArchiveLedger(Location.of(archive)).of(GAP) == []
    moved = rows_in(archive / "lost" / "1")
    assert {row["_version"] for rows in moved.values() for row in rows} == set(range(shared + 1, undone.commit + 1))


def test_only_some_collections_and_then_more(spark: SparkSession, shop: Remembered, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    stir(shop, 1)
    report = pipeline.archive(spark, shop.store.path, archive, collections=["items"])
    assert set(report.tables) == {"collections/items"}
    stir(shop, 2)
    second = pipeline.archive(spark, shop.store.path, archive)
    stir(shop, 3)
    pipeline.archive(spark, shop.store.path, archive)
    check(archive, shop, since=second.commit)
    assert {gap.tables for gap in pipeline.gaps(archive)} == {("collections/orders", "keyspaces/plain")}


def test_collections_that_are_added_by_a_run_that_ends_early_are_whole_all_the_same(
    spark: SparkSession, shop: Remembered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive"
    stir(shop, 1)
    pipeline.archive(spark, shop.store.path, archive, collections=["items"])

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(VersionTable, "append", killed)
        with pytest.raises(Killed):
            pipeline.archive(spark, shop.store.path, archive)
    report = pipeline.archive(spark, shop.store.path, archive)
    assert report.rows > 0
    check(archive, shop, since=report.commit)


def test_two_runs_at_once_publish_everything_once(
    spark: SparkSession, shop: Remembered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run is overtaken by another when its files are written, and nothing of it is published."""
    archive = tmp_path / "archive"
    stir(shop, 1)
    overtaken: Iterator[bool] = iter([True])
    real = FileWriter.finish
    appended = VersionTable.append

    def append(self: VersionTable, files: Any, commit: int) -> bool:
        if next(overtaken, False):
            pipeline.archive(spark, shop.store.path, archive)
        return appended(self, files, commit)

    monkeypatch.setattr(VersionTable, "append", append)
    try:
        pipeline.archive(spark, shop.store.path, archive)
    except pipeline.ConflictingRun:
        pipeline.archive(spark, shop.store.path, archive)
    assert FileWriter.finish is real
    check(archive, shop)


def test_an_archive_of_another_store_is_refused(
    spark: SparkSession, shop: Remembered, open_store: OpenStore, tmp_path: Path
) -> None:
    stir(shop, 1, commits=1)
    pipeline.archive(spark, shop.store.path, tmp_path / "archive")
    other = open_store("other")
    other.keyspace("k").put(b"a", b"b")
    with pytest.raises(pipeline.ArchiveError, match="is the archive of another store"):
        pipeline.archive(spark, other.path, tmp_path / "archive")


def test_the_types_of_columns_widen_and_what_fits_no_column_is_in_the_raw_text(
    spark: SparkSession, shop: Remembered, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    items = shop.store.collection("items")
    table = table_at(Location.of(archive), TableName("collections", "items"))

    def type_of(column: str) -> str:
        table.reload()
        return str(table.schema.field(column).type) if column in table.schema.names else "none"

    seen = []
    for value in (None, 1, 2.5, "text"):
        items.insert_one({"v": value, "a b": 1, "_version": "mine", "V": 1})
        pipeline.archive(spark, shop.store.path, archive)
        seen.append(type_of("v"))
    assert seen == ["string", "int64", "double", "string"]
    assert type_of("a b") == "none"
    shop.remember()
    check(archive, shop)
    frame = table.read(spark)
    assert sorted(row.v or "" for row in frame.collect()) == ["", '"text"', "1", "2.5"]
