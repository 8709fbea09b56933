"""Types that cannot be inferred from documents are stored with their collection."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import lowtide
from lowtide.documents.column_types import kept_types, merge_types
from lowtide.spark.options import SparkOptions
from lowtide.spark.writing import BatchWriter
from tests.conftest import OpenStore
from tests.unit.spark.loading import Load

DDL = "_id bigint, day date, wall timestamp_ntz, tags map<string,bigint>, days array<date>, in struct<d:date,n:bigint>"
ROW = {
    "_id": 1,
    "day": date(2026, 5, 1),
    "wall": datetime(2026, 5, 1, 12, 30),
    "tags": [("a", 1), ("b", None)],
    "days": [date(2026, 5, 2), None],
    "in": {"d": date(2026, 5, 3), "n": 7},
}


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    return open_store(monitor_interval=3600)


def parsed(ddl: str) -> StructType:
    """The schema of the part of DDL that these tests need, which Spark alone could parse with a session."""
    types = {"date": "date", "timestamp_ntz": "timestamp_ntz", "bigint": "long", "string": "string"}

    def kind(text: str) -> Any:
        outer, _, inner = text.partition("<")
        inner = inner[:-1]
        if outer == "array":
            return {"type": "array", "elementType": kind(inner), "containsNull": True}
        if outer == "map":
            key, value = inner.split(",")
            return {"type": "map", "keyType": kind(key), "valueType": kind(value), "valueContainsNull": True}
        if outer == "struct":
            return {"type": "struct", "fields": [field(*each.split(":")) for each in inner.split(",")]}
        return types[outer]

    def field(name: str, text: str) -> Any:
        return {"name": name, "type": kind(text), "nullable": True, "metadata": {}}

    return StructType.fromJson({"type": "struct", "fields": [field(*each.split(" ")) for each in ddl.split(", ")]})


def write(path: Path, ddl: str, *rows: dict[str, Any], overwrite: bool = False, **options: str) -> None:
    schema = parsed(ddl)
    arrow = to_arrow_schema(schema, timezone="UTC")
    made = BatchWriter(SparkOptions({"path": str(path), "collection": "c", **options}), schema, overwrite)
    message = pickle.loads(pickle.dumps(made)).write(iter([pa.RecordBatch.from_pylist(list(rows), arrow)]))
    pickle.loads(pickle.dumps(made)).commit([message])


@pytest.mark.parametrize("bulk", ["0", "1000000"])
def test_what_is_written_is_read_with_the_same_types_and_values(store: lowtide.Store, bulk: str) -> None:
    write(store.path, DDL, ROW, {"_id": 2}, bulkBytes=bulk)
    load = Load(store.path, collection="c")
    assert load.schema == parsed(DDL)
    assert load.rows() == [ROW, dict.fromkeys(ROW) | {"_id": 2}]


def test_documents_are_stored_as_ever(store: lowtide.Store) -> None:
    write(store.path, DDL, ROW)
    document = store["c"].find_one({"_id": 1})
    assert document is not None
    assert (document["day"], document["tags"]) == (datetime(2026, 5, 1), {"a": 1, "b": None})


def test_a_column_that_is_null_everywhere_is_known_too(store: lowtide.Store) -> None:
    write(store.path, "_id bigint, day date", {"_id": 1})
    assert Load(store.path, collection="c").schema == parsed("_id bigint, day date")
    assert Load(store.path, collection="c", columns="_id").schema == parsed("_id bigint")


def test_fields_of_other_writers_come_beside_those_that_are_kept(store: lowtide.Store) -> None:
    write(store.path, "_id bigint, in struct<d:date>", {"_id": 1, "in": {"d": date(2026, 5, 3)}})
    store["c"].insert_one({"_id": 2, "in": {"d": None, "x": 1}, "more": "text"})
    schema = Load(store.path, collection="c").schema
    assert schema.simpleString() == "struct<_id:bigint,in:struct<d:date,x:bigint>,more:string>"


def test_a_document_that_no_longer_fits_follows_the_mode(store: lowtide.Store) -> None:
    write(store.path, "_id bigint, day date", {"_id": 1, "day": date(2026, 5, 1)})
    store["c"].insert_one({"_id": 2, "day": "soon"})
    with pytest.raises(lowtide.Error, match="_id 2, field 'day'"):
        Load(store.path, collection="c").rows()
    lenient = Load(store.path, collection="c", mode="PERMISSIVE").rows()
    assert lenient == [{"_id": 1, "day": date(2026, 5, 1)}, {"_id": 2, "day": None}]
    assert Load(store.path, collection="c", schemaFrom="sample").schema["day"].dataType.simpleString() == "string"


def test_a_schema_of_the_user_goes_before(store: lowtide.Store) -> None:
    write(store.path, "_id bigint, day date", {"_id": 1, "day": date(2026, 5, 1)})
    load = Load(store.path, parsed("_id bigint, day timestamp_ntz"), collection="c")
    assert load.rows() == [{"_id": 1, "day": datetime(2026, 5, 1)}]
    assert Load(store.path, collection="c", jsonColumns="day").schema["day"].dataType.simpleString() == "string"


@pytest.mark.parametrize("bulk", ["0", "1000000"])
def test_an_overwrite_replaces_the_types_and_a_drop_forgets_them(store: lowtide.Store, bulk: str) -> None:
    write(store.path, "_id bigint, day date, due date", {"_id": 1, "day": date(2026, 5, 1)}, bulkBytes=bulk)
    write(store.path, "_id bigint, day string", {"_id": 1, "day": "x"}, overwrite=True, bulkBytes=bulk)
    assert Load(store.path, collection="c").schema == parsed("_id bigint, day string")
    write(store.path, "_id bigint, day date", {"_id": 2, "day": date(2026, 5, 1)}, overwrite=True, bulkBytes=bulk)
    store["c"].rename("d")
    assert Load(store.path, collection="d").schema["day"].dataType.simpleString() == "date"
    store["d"].drop()
    store["d"].insert_one({"_id": 1, "day": datetime(2026, 5, 1, 1, tzinfo=UTC)})
    assert Load(store.path, collection="d").schema["day"].dataType.simpleString() == "timestamp"


def test_a_write_of_the_same_types_leaves_the_collections_row_alone(store: lowtide.Store) -> None:
    """Else it would conflict with every writer of documents at the time."""
    write(store.path, "_id bigint, day date", {"_id": 1, "day": date(2026, 5, 1)})
    before = store.keyspace("lowtide/collections").get(b"c")
    last = store.stats().last_commit
    write(store.path, "_id bigint, day date", {"_id": 2, "day": date(2026, 5, 1)})
    keyspaces = {change.keyspace for change in store.changes(since=last)}
    assert store.keyspace("lowtide/collections").get(b"c") == before
    assert "lowtide/collections" not in keyspaces
    write(store.path, "_id bigint, v bigint", {"_id": 3, "v": 1})
    assert store.keyspace("lowtide/collections").get(b"c") == before


@pytest.mark.parametrize(
    ("stored", "written", "replace", "merged"),
    [
        ({}, {"a": None}, False, {}),
        ({}, {"a": "date"}, False, {"a": "date"}),
        ({"a": "date"}, {"b": None}, False, {"a": "date"}),
        ({"a": "date"}, {"a": None}, False, {}),
        ({"a": "date"}, {"a": "timestamp_ntz"}, False, {}),
        ({"a": "date"}, {"a": "timestamp_ntz"}, True, {"a": "timestamp_ntz"}),
        ({"a": "date", "b": "date"}, {"a": "date"}, True, {"a": "date"}),
    ],
)
def test_types_of_several_writes(stored: Any, written: Any, replace: bool, merged: Any) -> None:
    before = merge_types(None, stored, replace=False)
    assert kept_types(merge_types(before, written, replace=replace)) == merged
