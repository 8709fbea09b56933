"""Reads by a schema that the user gives: types, modes, and what does not fit."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
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
)

import lowtide
from lowtide.errors import Error, UsageError
from tests.unit.spark.loading import Load, struct

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def collection(store: lowtide.Store) -> lowtide.Collection:
    return store.collection("c")


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
