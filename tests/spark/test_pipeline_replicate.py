"""Replication: the destination becomes equal to the source, whatever happened there, and wherever the process died."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lowtide
import lowtide.spark
from lowtide import pipeline
from lowtide.errors import UsageError
from tests.conftest import OpenStore

ROOT = Path(__file__).resolve().parents[2]


def contents(path: Path) -> dict[str, Any]:
    """Everything that a replica has in common with its source."""
    with lowtide.open(path, read_only=True) as store, store.snapshot() as snapshot:
        collections = {
            name: (
                list(snapshot[name].find({}, sort=[("_id", 1)])),
                {key: value for key, value in snapshot[name].index_information().items() if value.pop("multikey", 1)},
                snapshot[name].schema(),
            )
            for name in snapshot.list_collection_names()
        }
        values = {name: dict(snapshot.keyspace(name).scan()) for name in store.keyspaces() if "/" not in name}
    nothing: tuple[Any, ...] = ([], {"_id_": {"key": [("_id", 1)]}}, None)
    collections = {name: found for name, found in collections.items() if found != nothing}
    return {"collections": collections, "values": {name: found for name, found in values.items() if found}}


@pytest.fixture
def source(open_store: OpenStore) -> lowtide.Store:
    store = open_store("source")
    store["users"].insert_many([{"_id": n, "mail": f"m{n}"} for n in range(10)])
    store["users"].create_index("mail", unique=True)
    store["orders"].insert_many([{"_id": f"o{n}", "tags": [n]} for n in range(10)])
    store.keyspace("stock").put_many({b"tea": b"7", b"coffee": b"3"})
    return store


def test_a_replica_starts_with_a_snapshot_and_goes_on_with_changes(source: lowtide.Store, tmp_path: Path) -> None:
    dest = tmp_path / "dest"
    report = pipeline.replicate(None, source.path, dest)
    assert (report.copied, report.resynced, report.changes) == (22, ("orders", "stock", "users"), 0)
    assert contents(dest) == contents(source.path)
    with source.transaction() as tx:
        tx["users"].delete_one({"_id": 0})
        tx["orders"].insert_one({"_id": "new"})
        tx.keyspace("stock").delete(b"tea")
    source["fresh"].insert_one({"_id": 1})
    source.keyspace("other").put(b"k", b"v")
    report = pipeline.replicate(None, source.path, dest)
    assert (report.copied, report.changes, report.batches) == (0, 5, 1)
    assert report.commit == source.stats().last_commit == source.consumer("replica").position
    assert contents(dest) == contents(source.path)
    assert pipeline.replicate(None, source.path, dest).to_dict()["batches"] == 0


def test_a_commit_of_the_source_is_never_split(source: lowtide.Store, tmp_path: Path) -> None:
    pipeline.replicate(None, source.path, tmp_path / "dest")
    for n in range(4):
        with source.transaction() as tx:
            tx["users"].insert_one({"_id": 100 + n, "mail": f"x{n}"})
            tx["orders"].insert_one({"_id": 100 + n})
    with lowtide.open(tmp_path / "dest") as dest:
        before = dest.stats().last_commit
        dest.consumer("test")
    report = pipeline.replicate(None, source.path, tmp_path / "dest", batch_changes=1)
    assert report.batches == 4
    with lowtide.open(tmp_path / "dest") as dest:
        found: dict[int, set[str]] = {}
        for change in dest.changes(before, keyspaces=["documents/users", "documents/orders"]):
            found.setdefault(change.ts, set()).add(change.keyspace)
        assert list(found.values()) == [{"documents/users", "documents/orders"}] * 4


def test_documents_may_exchange_unique_values(source: lowtide.Store, tmp_path: Path) -> None:
    pipeline.replicate(None, source.path, tmp_path / "dest")
    with source.transaction() as tx:
        tx["users"].update_one({"_id": 0}, {"$set": {"mail": "between"}})
        tx["users"].update_one({"_id": 1}, {"$set": {"mail": "m0"}})
        tx["users"].update_one({"_id": 0}, {"$set": {"mail": "m1"}})
    pipeline.replicate(None, source.path, tmp_path / "dest")
    assert contents(tmp_path / "dest") == contents(source.path)
    source["users"].create_index("_id_copy")  # so that the collection is copied, in parts
    with source.transaction() as tx:
        tx["users"].update_one({"_id": 0}, {"$set": {"mail": "between"}})
        tx["users"].update_one({"_id": 9}, {"$set": {"mail": "m1"}})
        tx["users"].update_one({"_id": 0}, {"$set": {"mail": "m9"}})
    report = pipeline.replicate(None, source.path, tmp_path / "dest", batch_changes=1)
    assert (report.copied, report.resynced) == (2, ("users",))
    assert contents(tmp_path / "dest") == contents(source.path)


def test_a_document_that_is_older_than_the_schema_is_replicated(source: lowtide.Store, tmp_path: Path) -> None:
    source["orders"].set_schema({"required": ["sum"]})
    for number in range(2):
        pipeline.replicate(None, source.path, tmp_path / "dest")
        assert contents(tmp_path / "dest") == contents(source.path)
        source["orders"].create_index("tags")
        source["orders"].insert_one({"_id": number, "sum": 1, "tags": [1, 2]})
        source["orders"].delete_one({"_id": "o1"})
    pipeline.replicate(None, source.path, tmp_path / "dest")
    source["orders"].set_schema(None)
    source["orders"].insert_one({"_id": "odd", "tags": [1]})
    source["orders"].set_schema({"required": ["sum"]})
    assert pipeline.replicate(None, source.path, tmp_path / "dest").changes == 1
    assert contents(tmp_path / "dest") == contents(source.path)
    with lowtide.open(tmp_path / "dest") as dest, pytest.raises(lowtide.errors.DocumentRefused):
        dest["orders"].insert_one({"_id": "refused"})


def test_what_is_no_change_of_documents_is_followed(source: lowtide.Store, tmp_path: Path) -> None:
    dest = tmp_path / "dest"

    def follows(*, resynced: set[str]) -> None:
        report = pipeline.replicate(None, source.path, dest)
        assert contents(dest) == contents(source.path)
        assert set(report.resynced) == resynced

    follows(resynced={"users", "orders", "stock"})
    source["users"].rename("people")
    source["users"].insert_one({"_id": 1})
    follows(resynced={"users", "people"})
    source["orders"].drop()
    follows(resynced={"orders"})
    source["orders"].insert_one({"_id": "again"})
    follows(resynced=set())
    source["orders"].insert_one({"_id": "more"})
    source["people"].drop_indexes()
    follows(resynced={"people"})


def test_only_what_is_named_is_replicated(source: lowtide.Store, tmp_path: Path) -> None:
    pipeline.replicate(None, source.path, tmp_path / "dest", ["users"])
    assert contents(tmp_path / "dest")["collections"].keys() == {"users"}
    assert contents(tmp_path / "dest")["values"] == {}
    report = pipeline.replicate(None, source.path, tmp_path / "dest", ["users", "orders"], keyspaces=["stock"])
    assert contents(tmp_path / "dest") == contents(source.path)
    assert report.copied == 12
    pipeline.replicate(None, source.path, tmp_path / "dest", ["users"])
    source["orders"].drop()
    pipeline.replicate(None, source.path, tmp_path / "dest", ["users"])
    assert contents(tmp_path / "dest")["collections"].keys() == {"users", "orders"}


def test_a_source_without_anything_has_a_replica(open_store: OpenStore, tmp_path: Path) -> None:
    source = open_store("source")
    for _ in range(2):
        assert pipeline.replicate(None, source.path, tmp_path / "dest").resynced == ()
    source["first"].insert_one({"_id": 1})
    report = pipeline.replicate(None, source.path, tmp_path / "dest")
    assert (report.changes, report.resynced) == (1, ())
    assert contents(tmp_path / "dest") == contents(source.path)


def test_a_bulk_load_is_followed(spark: SparkSession, source: lowtide.Store, tmp_path: Path) -> None:
    pipeline.replicate(spark, source.path, tmp_path / "dest")
    lowtide.spark.register(spark)
    frame = spark.range(5, 15).selectExpr("id AS _id", "concat('n', id) AS mail")
    options = {"path": str(source.path), "collection": "users", "writeMode": "upsert", "bulkBytes": "0"}
    frame.write.format("lowtide").options(**options).mode("append").save()
    source["users"].insert_one({"_id": 99, "mail": "99"})
    report = pipeline.replicate(spark, source.path, tmp_path / "dest")
    assert report.resynced == ("users",)
    source["users"].insert_one({"_id": 98, "mail": "98"})
    report = pipeline.replicate(spark, source.path, tmp_path / "dest")
    assert (report.changes, report.resynced) == (1, ())
    assert contents(tmp_path / "dest") == contents(source.path)


def test_a_replica_that_lost_the_log_is_compared_with_a_snapshot(source: lowtide.Store, tmp_path: Path) -> None:
    pipeline.replicate(None, source.path, tmp_path / "dest")
    source.consumer("replica").remove()
    source["users"].delete_many({"_id": {"$lt": 3}})
    source["users"].insert_one({"_id": 77, "mail": "x" * (1 << 20)})
    path = source.path
    source.close()
    for _ in range(3):
        with lowtide.open(path, durability="relaxed", segment_bytes=1 << 20) as store:
            store["orders"].update_many({}, {"$inc": {"n": 1}})
            store["big"].insert_one({"_id": store.stats().last_commit, "x": "x" * (1 << 20)})
            store.checkpoint()
    with lowtide.open(path, read_only=True) as store, pytest.raises(lowtide.errors.ChangesLost):
        list(store.changes(0))
    report = pipeline.replicate(None, path, tmp_path / "dest")
    assert "users" in report.resynced
    assert contents(tmp_path / "dest") == contents(path)


class Killed(BaseException):
    """What a step raises in the place of a kill."""


def dying(at: int) -> Callable[[str], None]:
    steps = count()

    def step(words: str) -> None:
        if next(steps) == at:
            raise Killed(words)

    return step


def dying_when(beginning: str) -> Callable[[str], None]:
    def step(words: str) -> None:
        if words.startswith(beginning):
            raise Killed(words)

    return step


def test_what_a_copy_that_was_cut_short_left_goes_if_the_source_drops_it(source: lowtide.Store, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        pipeline.replicate(None, source.path, tmp_path / "dest", progress=dying_when("defining collection 'orders'"))
    source["orders"].drop()
    pipeline.replicate(None, source.path, tmp_path / "dest")
    assert contents(tmp_path / "dest") == contents(source.path)


def test_a_collection_that_looks_as_before_is_copied_if_it_was_not_followed_meanwhile(
    source: lowtide.Store, tmp_path: Path
) -> None:
    source["fresh"].insert_many([{"_id": 1}, {"_id": 2}])
    pipeline.replicate(None, source.path, tmp_path / "dest")
    source["fresh"].drop()
    source["orders"].insert_one({"_id": "later"})  # is followed, so the position is behind the drop
    with pytest.raises(Killed):
        pipeline.replicate(None, source.path, tmp_path / "dest", progress=dying_when("recording what is copied"))
    source["fresh"].insert_one({"_id": 3})
    pipeline.replicate(None, source.path, tmp_path / "dest")
    assert contents(tmp_path / "dest") == contents(source.path)


def change_something(store: lowtide.Store, choose: random.Random) -> None:
    name, other = choose.sample(["users", "orders", "fresh", "more"], 2)
    match choose.choice(["insert", "insert", "update", "delete", "both", "value", "index", "schema", "drop", "rename"]):
        case "insert":
            store[name].insert_one({"mail": str(choose.random())})
        case "update":
            store[name].update_many({}, {"$set": {"n": choose.randrange(9)}})
        case "delete":
            store[name].delete_one({})
        case "both":
            with store.transaction() as tx:
                tx[name].insert_one({"mail": str(choose.random())})
                tx[other].delete_one({})
        case "value":
            store.keyspace("stock").put(b"%d" % choose.randrange(5), b"%d" % choose.randrange(99))
        case "index":
            store[name].create_index(choose.choice(["n", "tags"]))
        case "schema":
            store[name].set_schema(choose.choice([None, {"properties": {"n": {"type": "integer"}}}]))
        case "drop":
            store[name].drop()
        case "rename" if store[name].count_documents({}):
            store[name].rename(other, dropTarget=True)


@pytest.mark.parametrize("seed", range(4))
def test_a_replication_survives_its_end_at_any_step(source: lowtide.Store, tmp_path: Path, seed: int) -> None:
    choose, dest = random.Random(seed), tmp_path / "dest"
    for _ in range(12):
        for _ in range(choose.randrange(6)):
            change_something(source, choose)
        try:
            pipeline.replicate(None, source.path, dest, batch_changes=2, progress=dying(choose.randrange(12)))
        except Killed:
            continue
        assert contents(dest) == contents(source.path)
    pipeline.replicate(None, source.path, dest)
    assert contents(dest) == contents(source.path)


def test_a_process_that_is_killed_leaves_a_replica_that_goes_on(source: lowtide.Store, tmp_path: Path) -> None:
    dest = tmp_path / "dest"
    for fatal in (2, 5, 1, 3):
        command = [sys.executable, "-m", "tests.spark.programs.replicating", str(source.path), str(dest), str(fatal)]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        with source.transaction() as tx:
            tx["users"].insert_one({"_id": 100 + fatal, "mail": str(fatal)})
            tx["orders"].update_many({}, {"$inc": {"n": 1}})
    pipeline.replicate(None, source.path, dest)
    assert contents(dest) == contents(source.path)


def test_a_replication_follows(source: lowtide.Store, tmp_path: Path) -> None:
    rounds = count()

    def follow() -> bool:
        number = next(rounds)
        source["users"].insert_one({"_id": 1000 + number, "mail": f"f{number}"})
        return number < 3

    report = pipeline.replicate(None, source.path, tmp_path / "dest", follow=follow)
    assert (report.changes, report.batches) == (3, 3)
    with lowtide.open(tmp_path / "dest") as dest:
        assert dest["users"].count_documents({"_id": {"$gte": 1000}}) == 3


def test_a_wrong_call_is_refused(source: lowtide.Store, tmp_path: Path) -> None:
    for arguments, words in (
        ({"dest_path": source.path}, "are the same store"),
        ({"source_path": tmp_path / "none"}, "there is no Lowtide store"),
        ({"collections": "users"}, "lists of names"),
        ({"keyspaces": ["documents/users"]}, "belongs to a kind of data"),
        ({"batch_changes": 0}, "at least one change"),
    ):
        given: dict[str, Any] = {"source_path": source.path, "dest_path": tmp_path / "dest", **arguments}
        with pytest.raises(UsageError, match=words):
            pipeline.replicate(None, **given)
    assert not (tmp_path / "dest").exists()
