"""A store rebuilt from its archive has its old content. After a bad migration only what it broke is restored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lowtide
from lowtide import pipeline
from tests.conftest import OpenStore
from tests.spark.archives import Remembered, forget_the_log, stir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(open_store: OpenStore) -> Remembered:
    return Remembered(open_store("shop"))


def test_any_commit_can_be_restored_with_its_indexes_and_its_schema(
    spark: SparkSession, shop: Remembered, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    items = shop.store.collection("items")
    items.create_index([("v0", 1), ("v1", -1)], name="both")
    items.create_index("code", unique=True, sparse=True)
    items.set_schema({"properties": {"code": {"type": "string"}}})
    stir(shop, 1)
    pipeline.archive(spark, shop.store.path, archive)
    middle = shop.remember()
    shop.do(lambda store: store.collection("items").drop())
    stir(shop, 2)
    pipeline.archive(spark, shop.store.path, archive)
    report = pipeline.restore(spark, archive, tmp_path / "then", at=middle)
    assert (report.commit, report.indexes) == (middle, 2)
    with lowtide.open(tmp_path / "then") as then:
        restored = Remembered(then)
        restored.remember()
        assert list(restored.states.values()) == [shop.states[middle]]
        assert then.collection("items").index_information() == {
            "_id_": {"key": [("_id", 1)]},
            "both": {"key": [("v0", 1), ("v1", -1)], "multikey": True},
            "code_1": {"key": [("code", 1)], "unique": True, "sparse": True},
        }
        with pytest.raises(lowtide.Error, match="code"):
            then.collection("items").insert_one({"code": 7})
        assert then.verify().ok
    now = pipeline.restore(spark, archive, tmp_path / "now", collections=["items"])
    with lowtide.open(tmp_path / "now") as store:
        assert store.list_collection_names() == ["items"]
        assert store.collection("items").count_documents({}) == shop.store.collection("items").count_documents({})
        assert now.rows == store.collection("items").count_documents({})


def test_what_cannot_be_restored_is_refused_before_anything_is_made(
    spark: SparkSession, shop: Remembered, tmp_path: Path
) -> None:
    stir(shop, 1, commits=2)
    pipeline.archive(spark, shop.store.path, tmp_path / "archive")
    with pytest.raises(pipeline.ArchiveError, match="has not reached commit 99"):
        pipeline.restore(spark, tmp_path / "archive", tmp_path / "dest", at=99)
    with pytest.raises(pipeline.ArchiveError, match="no collection 'itmes'"):
        pipeline.restore(spark, tmp_path / "archive", tmp_path / "dest", collections=["itmes"])
    assert not (tmp_path / "dest").exists()
    with pytest.raises(lowtide.UsageError, match="is not empty"):
        pipeline.restore(spark, tmp_path / "archive", shop.store.path)


def test_a_restore_that_differs_from_the_archive_says_so(
    spark: SparkSession, shop: Remembered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.store.keyspace("plain").put(b"a", b"1")
    pipeline.archive(spark, shop.store.path, tmp_path / "archive")
    real = lowtide.Store.keyspace

    def wrong(store: lowtide.Store, name: str) -> Any:
        entries = real(store, name)
        entries.put(b"too much", b"1")
        return entries

    monkeypatch.setattr(lowtide.Store, "keyspace", wrong)
    with pytest.raises(pipeline.ArchiveError, match=r"plain in .* differs from the archive at commit 1: 2 rows"):
        pipeline.restore(spark, tmp_path / "archive", tmp_path / "dest")


def test_only_what_the_bad_migration_broke_is_put_back(spark: SparkSession, shop: Remembered, tmp_path: Path) -> None:
    archive, people = tmp_path / "archive", shop.store.collection("people")
    people.insert_many([{"_id": n, "mail": f"{n}@example.org"} for n in range(6)])
    good = shop.store.stats().last_commit
    people.update_many({"_id": {"$lt": 4}}, {"$unset": {"mail": ""}, "$set": {"migrated": True}})
    people.delete_one({"_id": 4})
    people.insert_one({"_id": 10, "migrated": True})
    bad = shop.store.stats().last_commit
    people.update_one({"_id": 0}, {"$set": {"mail": "new@example.org"}})
    people.update_one({"_id": 5}, {"$set": {"mail": "changed@example.org"}})
    people.replace_one({"_id": 1}, {"_id": 1, "mail": "1@example.org"})
    pipeline.archive(spark, shop.store.path, archive)
    trial = pipeline.put_back(spark, archive, shop.store, "people", good, bad, dry_run=True)
    assert (trial.put_back, trial.unchanged, trial.commit) == (4, 1, None)
    assert people.find_one({"_id": 2}) == {"_id": 2, "migrated": True}
    report = pipeline.put_back(spark, archive, shop.store, "people", good, bad)
    assert (report.put_back, report.unchanged) == (4, 1)
    [conflict] = report.conflicts
    assert (conflict.id, conflict.good) == (0, '{"_id":0,"mail":"0@example.org"}')
    assert list(people.find(sort=[("_id", 1)])) == [
        {"_id": 0, "migrated": True, "mail": "new@example.org"},
        {"_id": 1, "mail": "1@example.org"},
        {"_id": 2, "mail": "2@example.org"},
        {"_id": 3, "mail": "3@example.org"},
        {"_id": 4, "mail": "4@example.org"},
        {"_id": 5, "mail": "changed@example.org"},
    ]
    forced = pipeline.put_back(spark, archive, shop.store, "people", good, bad, force=True)
    assert (forced.put_back, forced.unchanged) == (1, 5)
    assert people.find_one({"_id": 0}) == {"_id": 0, "mail": "0@example.org"}


def test_documents_that_exchanged_unique_values_are_put_back(
    spark: SparkSession, shop: Remembered, tmp_path: Path
) -> None:
    archive, people = tmp_path / "archive", shop.store.collection("people")
    people.create_index("mail", unique=True)
    people.insert_many([{"_id": n, "mail": str(n)} for n in range(4)])
    good = shop.store.stats().last_commit
    for number, mail in ((0, "x"), (1, "0"), (0, "1"), (2, "moved")):
        people.update_one({"_id": number}, {"$set": {"mail": mail}})
    bad = shop.store.stats().last_commit
    people.insert_one({"_id": 9, "mail": "2"})  # has what 2 had
    pipeline.archive(spark, shop.store.path, archive)
    for force in (False, True):
        report = pipeline.put_back(spark, archive, shop.store, "people", good, bad, force=force)
        assert [(each.id, each.now) for each in report.conflicts] == [(2, '{"_id":2,"mail":"moved"}')]
        assert report.put_back == (0 if force else 2)
        found = {each["_id"]: each["mail"] for each in people.find()}
        assert found == {0: "0", 1: "1", 2: "moved", 3: "3", 9: "2"}
    assert shop.store.verify().ok


def test_a_lost_store_comes_back_whatever_became_of_schemas_and_indexes(
    spark: SparkSession, shop: Remembered, tmp_path: Path
) -> None:
    """What the log has need not fit the schemas and indexes that the archive ends with."""
    items = shop.store.collection("items")
    items.set_schema({"properties": {"v": {"type": "integer"}}})
    items.create_index("w", unique=True)
    items.insert_one({"_id": 1, "v": 1, "w": 1})
    shop.store.collection("first").insert_one({"_id": "a"})
    shop.store.collection("second").insert_one({"_id": "b"})
    shop.store.collection("empty").create_index("q")
    pipeline.archive(spark, shop.store.path, tmp_path / "archive")
    items.set_schema({"properties": {"v": {"type": "string"}}})
    items.insert_one({"_id": 2, "v": "x", "w": 2})
    items.drop_index("w_1")
    items.insert_one({"_id": 3, "v": "y", "w": 2})
    items.create_index("v", unique=True)
    shop.store.collection("empty").rename("still_empty")
    with shop.store.transaction() as tx:
        tx.collection("first").rename("aside")
        tx.collection("second").rename("first")
        tx.collection("aside").rename("second")
    last = shop.remember()
    report = pipeline.recover(spark, tmp_path / "again", log=shop.store.path / "log", archive=tmp_path / "archive")
    assert (report.commit, report.stopped) == (last, None)
    with lowtide.open(report.path) as again:
        found = Remembered(again)
        found.remember()
        assert list(found.states.values()) == [shop.states[last]]
        assert again.list_collection_names() == shop.store.list_collection_names()
        for name in again.list_collection_names():
            here, there = again.collection(name), shop.store.collection(name)
            assert (here.schema(), here.index_information()) == (there.schema(), there.index_information())
        assert again.verify().ok


def test_a_log_that_has_lost_commits_is_refused_before_anything_is_made(
    spark: SparkSession, shop: Remembered, tmp_path: Path
) -> None:
    stir(shop, 1, commits=2)
    shop.store.backup(tmp_path / "backup")
    pipeline.archive(spark, shop.store.path, tmp_path / "archive")
    [consumer] = shop.store.consumers()
    shop.store.consumer(consumer.name).remove()
    stir(shop, 2, commits=2)
    forget_the_log(shop.store)
    stir(shop, 3, commits=2)
    log = shop.store.path / "log"
    origins: tuple[dict[str, Any], ...] = ({"archive": tmp_path / "archive"}, {"backup": tmp_path / "backup"})
    for given in origins:
        with pytest.raises(pipeline.ArchiveError, match=r"ends with commit \d+, and the log .* begins with commit"):
            pipeline.recover(spark, tmp_path / "again", log=log, **given)
    assert not (tmp_path / "again").exists()


def test_a_lost_store_comes_back_from_its_archive_and_what_is_left_of_its_log(
    spark: SparkSession, shop: Remembered, tmp_path: Path
) -> None:
    stir(shop, 1)
    shop.store.collection("items").create_index("v0")
    pipeline.archive(spark, shop.store.path, tmp_path / "archive")
    stir(shop, 2)
    shop.do(lambda store: store.collection("items").rename("things"))
    shop.do(lambda store: store.keyspace("new").put(b"a", b"1"))
    stir(shop, 3)
    last = shop.remember()
    report = pipeline.recover(spark, tmp_path / "again", log=shop.store.path / "log", archive=tmp_path / "archive")
    assert (report.commit, report.stopped) == (last, None)
    with lowtide.open(report.path) as again:
        found = Remembered(again)
        found.remember()
        assert list(found.states.values()) == [shop.states[last]]
        assert "v0_1" in again.collection("things").index_information()


def test_a_lost_store_comes_back_from_its_backup_and_what_is_left_of_its_log(shop: Remembered, tmp_path: Path) -> None:
    stir(shop, 1)
    shop.store.backup(tmp_path / "backup")
    stir(shop, 2)
    last = shop.remember()
    report = pipeline.recover(None, tmp_path / "again", log=shop.store.path / "log", backup=tmp_path / "backup")
    assert (report.commit, report.replayed) == (last, 12)
    with lowtide.open(report.path) as again:
        found = Remembered(again)
        found.remember()
        assert list(found.states.values()) == [shop.states[last]]
