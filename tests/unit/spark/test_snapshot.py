"""Reading a snapshot in partitions, as Spark's tasks do, compared with the collection itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructType,
)

import lowtide
from lowtide.columnar import table
from lowtide.engine.base import borrowing
from lowtide.errors import Error, SnapshotExpired, UsageError
from lowtide.sharing.pins.snapshot import renew_pin
from lowtide.spark import snapshot
from lowtide.values.ids import id_key
from tests.conftest import OpenStore
from tests.unit.spark.loading import Load, struct

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


IDS = struct(_id=LongType())


@pytest.fixture
def collection(store: lowtide.Store) -> lowtide.Collection:
    return store.collection("c")


# One instant


def test_a_load_shows_one_instant_while_the_owner_goes_on(store: lowtide.Store, collection: lowtide.Collection) -> None:
    collection.insert_many([{"_id": n, "v": 0} for n in range(50)])
    load = Load(store.path, collection="c", partitions=3)
    declared = Load(store.path, struct(_id=LongType(), v=LongType()), collection="c")
    before = load.rows()
    for round in range(3):
        collection.update_many({"_id": {"$lt": 1000}}, {"$inc": {"v": 1}})
        collection.delete_many({"_id": {"$lt": round * 10}})
        collection.insert_one({"_id": 1000 + round, "v": "no number any more"})
        store.checkpoint()
        store.collect_garbage()
        assert load.rows() == declared.rows() == before == [{"_id": n, "v": 0} for n in range(50)]


def test_a_collection_that_comes_later_is_not_there_yet(store: lowtide.Store) -> None:
    """Not even where the keyspace is given to it after the pin."""
    store.collection("other").insert_one({"_id": 1})
    load = Load(store.path, IDS, collection="c")
    assert load.rows() == []
    store.collection("c").insert_one({"_id": 1})
    store.checkpoint()
    store.collect_garbage()
    assert load.rows() == []
    assert Load(store.path, IDS, collection="c").ids() == [1]


def test_a_collection_that_is_dropped_stays_for_those_who_loaded_it(
    store: lowtide.Store, collection: lowtide.Collection
) -> None:
    collection.insert_many([{"_id": n} for n in range(10)])
    collection.create_index("a")
    load = Load(store.path, collection="c")
    collection.drop()
    store.collection("c").insert_one({"_id": 77})
    store.checkpoint()
    store.collect_garbage()
    assert load.ids() == list(range(10))


def test_nobody_needs_to_own_the_store(open_store: OpenStore) -> None:
    store = open_store()
    store.collection("c").insert_many([{"_id": n} for n in range(10)])
    store.close()
    assert Load(store.path, collection="c").ids() == list(range(10))


def test_a_read_leaves_nothing_open(store: lowtide.Store, collection: lowtide.Collection) -> None:
    collection.insert_many([{"_id": n} for n in range(10)])
    load = Load(store.path, collection="c", batchSize=2, partitions=1)
    before = sum(use.readers for use in borrowing._uses.values())
    load.rows()
    reading = iter(load.reader.read(load.partitions[0]))
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert sum(use.readers for use in borrowing._uses.values()) == before


def test_an_expired_snapshot_says_what_to_do(store: lowtide.Store, collection: lowtide.Collection) -> None:
    collection.insert_many([{"_id": n} for n in range(10)])
    load = Load(store.path, collection="c", pinTtl=77)
    (pin,) = store.pins()
    store.unpin(pin.name)
    with pytest.raises(
        SnapshotExpired,
        match=rf"'c' of the store {store.path}, at commit \d+: .*not read for 77 seconds \(option pinTtl\).*load\(\)",
    ):
        load.rows()


def test_a_pin_that_ends_in_mid_read_ends_the_read(store: lowtide.Store, collection: lowtide.Collection) -> None:
    collection.insert_many([{"_id": n} for n in range(5000)])
    load = Load(store.path, collection="c", batchSize=1, partitions=1)
    reading = iter(load.reader.read(load.partitions[0]))
    next(reading)
    store.unpin(store.pins()[0].name)
    with pytest.raises(SnapshotExpired, match="is no longer kept"):
        list(reading)


def test_tasks_renew_the_pin_also_while_nothing_matches(
    store: lowtide.Store, collection: lowtide.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.insert_many([{"_id": n, "a": 1} for n in range(10)])
    load = Load(store.path, IDS, collection="c", batchSize=1, partitions=1, filter='{"a": 2}')
    renewed: list[str] = []

    def renew(path: Path, name: str) -> None:
        renewed.append(name)
        renew_pin(path, name)

    monkeypatch.setattr("lowtide.spark.snapshot.renew_pin", renew)
    monkeypatch.setattr(load.reader, "_pin", replace(load.reader._pin, ttl=0.0))  # type: ignore[attr-defined]
    assert list(load.reader.read(load.partitions[0])) == []
    assert len(renewed) > 5


# What is damaged, or large


@pytest.mark.parametrize(
    "options", [{}, {"filter": '{"v": 1}'}, {"filter": '{"w": {"$gte": 0}}'}, {"mode": "FAILFAST"}]
)
@pytest.mark.parametrize("damage", [b"\xc1", b"\x93\x01\x02\x03", b"\x81\xa1v"])
def test_a_damaged_document_is_named(
    store: lowtide.Store, collection: lowtide.Collection, options: dict[str, str], damage: bytes
) -> None:
    collection.insert_many([{"_id": n, "v": 1, "w": n} for n in range(5)])
    collection.create_index("w")
    with store.transaction() as tx:
        tx._tx.keyspace("documents/c").put(id_key(3), damage)
    load = Load(store.path, struct(_id=LongType(), v=LongType()), collection="c", **options)
    with pytest.raises(Error, match=r"collection 'c' of the store .*: the document with _id 3 cannot be decoded: "):
        load.rows()


def test_large_documents_come_through(store: lowtide.Store, collection: lowtide.Collection) -> None:
    text = "x" * 3_000_000
    collection.insert_many([{"_id": n, "text": text} for n in range(3)])
    rows = Load(store.path, collection="c", batchSize=2).rows()
    assert [row["text"] == text for row in rows] == [True] * 3


def test_no_batch_has_more_than_a_column_can_hold(
    store: lowtide.Store, collection: lowtide.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MOST_BYTES", 1000)
    collection.insert_many([{"_id": n, "text": "x" * 300} for n in range(20)])
    collection.create_index("text")
    for options in ({}, {"filter": '{"text": {"$gt": ""}}'}):
        load = Load(store.path, struct(_id=LongType(), text=StringType()), collection="c", partitions=1, **options)
        (part,) = load.partitions
        found = load.batches(part)
        assert max(batch.num_rows for batch in found) <= 3
        assert [row for batch in found for row in batch.column("_id").to_pylist()] == list(range(20))


# Keyspaces


@pytest.fixture
def keys(store: lowtide.Store) -> list[tuple[bytes, bytes]]:
    entries = [(f"k{number:02}".encode(), bytes([number])) for number in range(30)] + [(b"\xff\x00", b"end")]
    with store.transaction() as tx:
        for key, value in entries:
            tx.keyspace("k").put(key, value)
    return entries


def pairs(load: Load) -> list[tuple[bytes, bytes]]:
    return [(row["key"], row["value"]) for row in load.rows()]


def test_a_keyspace_has_keys_and_values(store: lowtide.Store, keys: list[tuple[bytes, bytes]]) -> None:
    load = Load(store.path, keyspace="k", partitions=4, batchSize=3)
    assert load.schema.names == ["key", "value"]
    assert pairs(load) == keys
    store.keyspace("k").put(b"new", b"")
    store.checkpoint()
    assert pairs(load) == keys


def test_and_bounds(store: lowtide.Store, keys: list[tuple[bytes, bytes]]) -> None:
    assert pairs(Load(store.path, keyspace="k", keyPrefix="k1")) == keys[10:20]
    assert pairs(Load(store.path, keyspace="k", keyStart="k05", keyEnd="k07")) == keys[5:7]
    assert pairs(Load(store.path, keyspace="k", keyStart="0xff")) == keys[30:]
    assert pairs(Load(store.path, keyspace="k", keyPrefix="0xff")) == keys[30:]


def test_one_that_does_not_exist_is_refused_unless_a_schema_is_given(
    store: lowtide.Store, keys: list[tuple[bytes, bytes]]
) -> None:
    with pytest.raises(UsageError, match=r"no keyspace 'K'.*'k'.*give a schema"):
        Load(store.path, keyspace="K")
    assert store.pins() == []
    assert pairs(Load(store.path, struct(key=BinaryType(), value=BinaryType()), keyspace="none")) == []


def test_and_columns_by_a_schema(store: lowtide.Store, keys: list[tuple[bytes, bytes]]) -> None:
    load = Load(store.path, struct(value=BinaryType()), keyspace="k")
    assert [row["value"] for row in load.rows()] == [value for _, value in keys]
    nothing = Load(store.path, StructType([]), keyspace="k")
    assert sum(batch.num_rows for part in nothing.partitions for batch in nothing.batches(part)) == 31


def test_and_batches_that_large_values_make_short(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MOST_BYTES", 1000)
    entries = [(b"%02d" % number, b"x" * 300) for number in range(20)] + [(b"large", b"y" * 3000), (b"small", b"")]
    with store.transaction() as tx:
        for key, value in entries:
            tx.keyspace("k").put(key, value)
    load = Load(store.path, keyspace="k", partitions=1)
    assert max(batch.num_rows for batch in load.batches(load.partitions[0])) <= 4
    assert pairs(load) == entries


@pytest.mark.parametrize("schema", [struct(other=BinaryType()), struct(key=StringType())])
def test_and_no_others(store: lowtide.Store, schema: StructType) -> None:
    with pytest.raises(UsageError, match="a keyspace has the columns key and value, both binary, not "):
        Load(store.path, schema, keyspace="k")


@pytest.mark.parametrize("name", ["filter", "columns", "jsonColumns"])
def test_and_no_documents(store: lowtide.Store, keys: object, name: str) -> None:
    with pytest.raises(UsageError, match=f"option '{name}' has no meaning for a keyspace"):
        Load(store.path, None, keyspace="k", **{name: "{}"})
    assert store.pins() == []


def test_a_part_of_no_kind_that_we_made_is_never_read(store: lowtide.Store, keys: object, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        list(Load(store.path, keyspace="k").reader.read(InputPartition(None)))


def test_batches_are_record_batches_of_the_schema_that_spark_compares(
    store: lowtide.Store, collection: lowtide.Collection
) -> None:
    collection.insert_one({"_id": 1, "o": {"a": [1, "x"]}, "t": NOON, "d": Decimal("1.5"), "n": None})
    load = Load(store.path, collection="c")
    (batch,) = [batch for part in load.partitions for batch in load.batches(part)]
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pylist() == [{"_id": 1, "o": {"a": ["1", '"x"']}, "t": NOON, "d": Decimal("1.5"), "n": None}]


def test_rows_without_columns_are_counted_and_not_read(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store["c"].insert_many([{"_id": n, "v": "x" * 100} for n in range(1000)])
    store.checkpoint()
    store["c"].delete_many({"_id": {"$lt": 10}})
    load = Load(store.path, StructType([]), collection="c", partitions=3)
    narrow = Load(store.path, StructType([]), collection="c", keyStart=500)
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "_MOST_NUMBERED", 100)
        patch.setattr(snapshot.SnapshotReader, "_documents", lambda *_: pytest.fail("documents were read"))
        assert len(load.partitions) == 3
        assert len(load.rows()) == 990
        assert len(narrow.rows()) == 500
    assert len(Load(store.path, StructType([]), collection="c", filter='{"_id": {"$lt": 20}}').rows()) == 10
