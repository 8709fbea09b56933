"""Reading a snapshot by parts, as Spark's tasks do, compared with the collection itself."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

import lowtide
from lowtide.base import borrowing
from lowtide.documents.arrow import table
from lowtide.documents.ids import id_key
from lowtide.errors import Error, OperationFailure, SnapshotExpired, UsageError
from lowtide.files.extended import dumps
from lowtide.readers.pinned import renew_pin
from lowtide.spark import partitions as cutting
from tests.conftest import OpenStore
from tests.unit.documents.strategies import documents, filters
from tests.unit.spark.loading import Load

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


IDS = struct(_id=LongType())


@pytest.fixture
def collection(store: lowtide.Store) -> lowtide.Collection:
    return store.collection("c")


# Filters: exactly what find() finds, each once


@pytest.fixture(scope="module")
def filtered() -> Iterator[tuple[lowtide.Store, list[int]]]:
    """A store for many examples, and how many collections it has had."""
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory, durability="relaxed") as store:
        yield store, [0]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_filter_in_any_parts_gives_what_find_gives(
    filtered: tuple[lowtide.Store, list[int]], data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "SMALL", 2)
    store, number = filtered
    number[0] += 1
    collection = store.collection(f"c{number[0]}")
    rows = data.draw(st.lists(documents, min_size=1, max_size=12))
    collection.insert_many([{"_id": position, **each} for position, each in enumerate(rows)])
    for path in data.draw(st.sampled_from([(), ("a",), ("a", "b"), ("a.b",)])):
        collection.create_index(path)
    for _ in range(2):
        wanted = data.draw(filters | st.builds(_by_id, st.integers(-1, 12), st.integers(-1, 12), filters))
        try:
            expected = {row["_id"] for row in collection.find(wanted)}
        except OperationFailure:
            continue
        load = Load(
            store.path,
            IDS,
            collection=collection.name,
            filter=dumps(wanted).decode(),
            partitions=data.draw(st.integers(1, 4)),
            batchSize=data.draw(st.integers(1, 5)),
        )
        assert Counter(load.ids()) == Counter(expected)


def _by_id(low: int, high: int, other: dict[str, Any]) -> dict[str, Any]:
    return {"$and": [{"_id": {"$gte": low, "$lt": high}}, other]}


FILTERS: list[dict[str, Any]] = [
    {},
    {"a": 3},
    {"a": {"$in": [1, 2, 5]}},
    {"tags": "x"},
    {"tags": {"$in": ["x", "y"]}},
    {"a": {"$gte": 3}, "tags": "y"},
    {"_id": {"$gte": 40, "$lt": 60}},
    {"_id": 7},
    {"_id": {"$in": [1, 2, 900]}},
    {"_id": {"$nin": [1, 2]}},
    {"_id": {"$gte": 40}, "a": 3},
    {"$or": [{"a": 1}, {"tags": "x"}, {"_id": 7}]},
    {"$or": [{"a": 1}, {"b": 1}]},
    {"a": None},
    {"nothing": {"$exists": True}},
    {"u": {"$gt": 10, "$lt": 20}},
    {"u": 15},
    {"$nor": [{"a": 1}]},
]


@pytest.fixture
def indexed(collection: lowtide.Collection) -> lowtide.Collection:
    collection.insert_many(
        [{"_id": n, "a": n % 7, "b": n % 3, "u": n, "tags": [["x", "y"], ["y"], []][n % 3]} for n in range(100)]
    )
    collection.insert_one({"_id": 100})
    for keys in ("a", "tags"):
        collection.create_index(keys)
    collection.create_index("u", unique=True)
    return collection


@pytest.mark.parametrize("small", [0, 20_000])
def test_filters_by_indexes_of_all_kinds_and_by_none(
    store: lowtide.Store, indexed: lowtide.Collection, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(cutting, "SMALL", small)
    for wanted in FILTERS:
        load = Load(store.path, IDS, collection="c", filter=dumps(wanted).decode(), partitions=3, batchSize=8)
        assert Counter(load.ids()) == Counter(row["_id"] for row in indexed.find(wanted)), wanted


def test_an_index_that_is_made_later_changes_nothing(store: lowtide.Store, collection: lowtide.Collection) -> None:
    collection.insert_many([{"_id": n, "a": n % 2} for n in range(10)])
    load = Load(store.path, IDS, collection="c", filter='{"a": 1}')
    collection.create_index("a")
    store.checkpoint()
    assert load.ids() == [1, 3, 5, 7, 9]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", "a JSON object"),
        ("3", "a JSON object"),
        ('{"$foo": 1}', "foo"),
        ('{"a": {"$bar": 1}}', "bar"),
        ("{", "JSON"),
    ],
)
def test_what_is_no_filter_is_refused_and_keeps_no_pin(
    store: lowtide.Store, collection: lowtide.Collection, text: str, reason: str
) -> None:
    collection.insert_one({"_id": 1})
    with pytest.raises(UsageError, match=reason):
        Load(store.path, IDS, collection="c", filter=text)
    assert store.pins() == []


@pytest.mark.parametrize(
    "options",
    [
        {"filter": "{"},
        {"filter": '{"a": {"$bar": 1}}'},
        {"mode": "lenient"},
        {"partitions": "many"},
        {"batchSize": "0"},
        {"cache": "maybe"},
        {"cacheBytes": "1g"},
        {"keyStart": "5", "keyEnd": "4"},
        {"startingVersion": "1"},
        {"jsonColumns": "other"},
    ],
)
def test_options_that_are_refused_keep_no_pin_of_an_inferred_schema(
    store: lowtide.Store, collection: lowtide.Collection, options: dict[str, Any]
) -> None:
    collection.insert_one({"_id": 1})
    with pytest.raises(UsageError):
        Load(store.path, collection="c", **options)
    assert store.pins() == []


@pytest.mark.parametrize("kind", [DayTimeIntervalType(), MapType(LongType(), LongType()), VariantType()])
def test_a_type_that_no_column_can_have_is_refused_before_any_task(
    store: lowtide.Store, collection: lowtide.Collection, kind: DataType
) -> None:
    collection.insert_one({"_id": 1})
    with pytest.raises(UsageError, match="column 'v'"):
        Load(store.path, struct(_id=LongType(), v=kind), collection="c")
    assert store.pins() == []


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
    monkeypatch.setattr(load.reader, "_instant", replace(load.reader._instant, ttl=0.0))  # type: ignore[attr-defined]
    assert list(load.reader.read(load.partitions[0])) == []
    assert len(renewed) > 5


# Schemas that the user gives


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (IntegerType(), 7, 7),
        (IntegerType(), 2**40, None),
        (LongType(), 7, 7),
        (LongType(), "x", None),
        (FloatType(), 0.5, 0.5),
        (DoubleType(), 3, 3.0),
        (DecimalType(10, 2), Decimal("1.25"), Decimal("1.25")),
        (DecimalType(4, 1), Decimal("1.25"), None),
        (StringType(), "x", "x"),
        (StringType(), 7, None),
        (BinaryType(), b"x", b"x"),
        (DateType(), datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 1).date()),
        (TimestampType(), NOON, NOON),
        (TimestampNTZType(), NOON, NOON.replace(tzinfo=None)),
        (ArrayType(LongType()), [1, 2], [1, 2]),
        (MapType(StringType(), LongType()), {"a": 1}, [("a", 1)]),
        (struct(x=LongType(), y=StringType()), {"x": 1, "z": 2}, {"x": 1, "y": None}),
        (NullType(), None, None),
        (LongType(), None, None),
    ],
)
def test_values_are_read_as_the_declared_type_or_as_null(
    store: lowtide.Store, collection: lowtide.Collection, kind: DataType, value: Any, read: Any
) -> None:
    collection.insert_one({"_id": 1, "v": value})
    assert Load(store.path, struct(v=kind), collection="c").rows() == [{"v": read}]


@pytest.fixture
def mixed(collection: lowtide.Collection) -> lowtide.Collection:
    collection.insert_many([{"_id": 1, "v": 1}, {"_id": 2, "v": "two"}, {"_id": 3}])
    return collection


MIXED = struct(_id=LongType(), v=LongType())


def test_permissive_is_the_mode_of_a_declared_schema(store: lowtide.Store, mixed: lowtide.Collection) -> None:
    rows = [{"_id": 1, "v": 1}, {"_id": 2, "v": None}, {"_id": 3, "v": None}]
    assert Load(store.path, MIXED, collection="c").rows() == rows
    assert Load(store.path, MIXED, collection="c", mode="permissive").rows() == rows


def test_drop_malformed_leaves_documents_out(store: lowtide.Store, mixed: lowtide.Collection) -> None:
    assert Load(store.path, MIXED, collection="c", mode="DropMalformed").ids() == [1, 3]


def test_fail_fast_names_store_collection_document_and_field(store: lowtide.Store, mixed: lowtide.Collection) -> None:
    load = Load(store.path, MIXED, collection="c", mode="FAILFAST")
    with pytest.raises(Error, match=f"store {store.path}, at commit .*'c'.*_id 2, field 'v': str 'two' does not fit"):
        load.rows()


def test_another_mode_is_refused(store: lowtide.Store, mixed: lowtide.Collection) -> None:
    with pytest.raises(UsageError, match="the mode is PERMISSIVE, DROPMALFORMED or FAILFAST, not 'lenient'"):
        Load(store.path, MIXED, collection="c", mode="lenient")


@pytest.mark.parametrize("options", [{}, {"columnNameOfCorruptRecord": "bad"}])
def test_a_column_keeps_the_document_that_does_not_fit(
    store: lowtide.Store, mixed: lowtide.Collection, options: dict[str, str]
) -> None:
    name = options.get("columnNameOfCorruptRecord", "_corrupt_record")
    schema = struct(**{"_id": LongType(), name: StringType(), "v": LongType()})
    rows = Load(store.path, schema, collection="c", **options).rows()
    assert [row[name] for row in rows] == [None, '{"_id":2,"v":"two"}', None]


def test_a_column_that_may_not_be_null_refuses_what_would_be(store: lowtide.Store, mixed: lowtide.Collection) -> None:
    schema = StructType([StructField("_id", LongType(), False), StructField("v", LongType(), False)])
    with pytest.raises(Error, match=r"_id 2, field 'v'.*not nullable"):
        Load(store.path, schema, collection="c").rows()
    assert Load(store.path, schema, collection="c", mode="DROPMALFORMED").ids() == [1]


def test_json_columns_hold_whatever_there_is(store: lowtide.Store, mixed: lowtide.Collection) -> None:
    rows = Load(store.path, struct(v=StringType()), collection="c", jsonColumns="v").rows()
    assert [row["v"] for row in rows] == ["1", '"two"', None]


def test_what_does_not_fit_an_inferred_schema_is_an_error(store: lowtide.Store, collection: lowtide.Collection) -> None:
    collection.insert_many([{"_id": n, "v": "x" if n == 999 else n} for n in range(1000)])
    load = Load(store.path, collection="c", sampleSize=10)
    with pytest.raises(Error, match="_id 999, field 'v'"):
        load.rows()
    assert len(Load(store.path, collection="c", sampleSize=10, mode="PERMISSIVE").rows()) == 1000


def test_a_schema_without_columns_still_counts(store: lowtide.Store, mixed: lowtide.Collection) -> None:
    load = Load(store.path, StructType([]), collection="c")
    assert sum(batch.num_rows for part in load.partitions for batch in load.batches(part)) == 3


def test_columns_beside_a_schema_must_be_its_own(store: lowtide.Store, mixed: lowtide.Collection) -> None:
    assert Load(store.path, MIXED, collection="c", columns="_id,v").ids() == [1, 2, 3]
    with pytest.raises(UsageError, match="option 'columns' asks for v, and the given schema has _id, v"):
        Load(store.path, MIXED, collection="c", columns="v")


def test_changes_are_asked_for_by_name(store: lowtide.Store, mixed: lowtide.Collection) -> None:
    with pytest.raises(UsageError, match="'startingVersion' has no meaning without readChangeFeed"):
        Load(store.path, MIXED, collection="c", startingVersion=1)


def test_a_declared_schema_of_a_collection_that_does_not_exist_is_empty(store: lowtide.Store) -> None:
    assert Load(store.path, MIXED, collection="none").rows() == []
    assert Load(store.path, MIXED, collection="none", filter='{"v": 1}', keyStart=1).rows() == []


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
    store.keyspace("documents/c").put(id_key(3), damage)
    load = Load(store.path, MIXED, collection="c", **options)
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
