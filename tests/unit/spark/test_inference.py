"""The schema of a collection that is read without a given schema."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import StructType

import lowtide
from lowtide.errors import Error, UsageError
from lowtide.values.ids import id_key
from tests.unit.spark.loading import Load

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def shown(schema: StructType) -> dict[str, str]:
    """The types by name, JSON text as json."""
    return {
        field.name: field.dataType.simpleString().replace("string", "json")
        if field.metadata == {"lowtide": "json"}
        else field.dataType.simpleString()
        for field in schema
    }


def inferred(store: lowtide.Store, *documents: dict[str, Any], schema: Any = None, **options: Any) -> dict[str, str]:
    collection = store.collection("c")
    for number, each in enumerate(documents):
        collection.insert_one({"_id": number, **each})
    if schema is not None:
        collection.set_schema(schema)
    return shown(Load(store.path, collection="c", **options).schema)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "bigint"),
        ([1, 2.5], "double"),
        ([1, 2**70], "decimal(38,0)"),
        ([Decimal("1.25"), 3], "decimal(38,2)"),
        (["a", None], "string"),
        ([True, None], "boolean"),
        ([b"x"], "binary"),
        ([NOON], "timestamp"),
        ([1, "a"], "json"),
        ([None], "json"),
        ([{"a": 1}, {"b": "x"}], "struct<a:bigint,b:string>"),
        ([[1], [2.5], []], "array<double>"),
        ([[1, "a"]], "array<json>"),
        ([[]], "array<json>"),
        ([{}], "json"),
        ([{"a": 1}, [1]], "json"),
    ],
)
def test_types_widen_to_what_holds_all_that_was_seen(store: lowtide.Store, values: list[Any], kind: str) -> None:
    found = inferred(store, *({"v": value} for value in values))
    assert found == {"_id": "bigint", "v": kind}


def test_what_was_inferred_can_be_read(store: lowtide.Store) -> None:
    values = [1, "a", None, [1, {"x": 1}], {"y": 2**70}]
    inferred(store, *({"v": value, "w": [value]} for value in values))
    rows = Load(store.path, collection="c").rows()
    assert [row["v"] for row in rows] == ["1", '"a"', None, '[1,{"x":1}]', '{"y":1180591620717411303424}']


def test_the_sample_is_spread_over_all_keys(store: lowtide.Store) -> None:
    store.collection("c").insert_many(
        [{"_id": number, "v": 0.5 if number >= 900 else number} for number in range(1000)]
    )
    assert shown(Load(store.path, collection="c", sampleSize=100).schema)["v"] == "double"


def test_a_sample_of_everything_misses_nothing(store: lowtide.Store) -> None:
    store.collection("c").insert_many([{"_id": number, f"f{number}": 1} for number in range(200)])
    assert len(Load(store.path, collection="c").schema) == 201


# Columns


def test_columns_come_in_the_order_in_which_they_are_asked_for(store: lowtide.Store) -> None:
    found = inferred(store, {"a": 1, "b": "x", "c": 2.5}, columns="c,_id,a")
    assert list(found.items()) == [("c", "double"), ("_id", "bigint"), ("a", "bigint")]
    assert Load(store.path, collection="c", columns='["b"]').rows() == [{"b": "x"}]


def test_a_column_that_was_not_seen_is_json_text(store: lowtide.Store) -> None:
    """It may be in a document that is not in the sample."""
    assert inferred(store, {"a": 1}, columns="a,rare") == {"a": "bigint", "rare": "json"}
    assert Load(store.path, collection="c", columns="a,rare").rows() == [{"a": 1, "rare": None}]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Name", "did you mean 'name'?"),
        ("address.city", "read 'address', and select 'address.city' from it"),
        ("*", "without the option all are read"),
    ],
)
def test_but_what_is_plainly_meant_otherwise_is_refused(store: lowtide.Store, name: str, hint: str) -> None:
    document = {"name": "x", "address": {"city": "y"}}
    with pytest.raises(UsageError, match=re.escape(hint)):
        inferred(store, document, columns=f"_id,{name}")
    assert store.pins() == []


def test_json_columns_are_json_text_whatever_was_seen(store: lowtide.Store) -> None:
    found = inferred(store, {"a": {"b": 1}, "c": 2}, jsonColumns="a")
    assert found == {"_id": "bigint", "a": "json", "c": "bigint"}
    assert Load(store.path, collection="c", jsonColumns="a").rows() == [{"_id": 0, "a": '{"b":1}', "c": 2}]


@pytest.mark.parametrize("source", ["auto", "jsonSchema"])
def test_a_column_that_is_asked_for_twice_comes_once(store: lowtide.Store, source: str) -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    assert inferred(store, {"a": 1}, schema=schema, columns="a,a", schemaFrom=source) == {"a": "bigint"}


@pytest.mark.parametrize("source", ["auto", "jsonSchema"])
def test_no_columns_at_all_are_refused(store: lowtide.Store, source: str) -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    with pytest.raises(UsageError, match="option 'columns' names no column"):
        inferred(store, {"a": 1}, schema=schema, columns="", schemaFrom=source)


# JSON Schema

CLOSED = {
    "properties": {
        "_id": {"type": "integer"},
        "name": {"type": "string"},
        "age": {"type": ["integer", "null"]},
        "score": {"type": "number"},
        "active": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"type": "object", "properties": {"zip": {"type": "integer"}}},
        "either": {"type": ["integer", "string"]},
        "things": {"type": "array"},
        "thing": {"type": "object"},
        "free": {},
    },
    "additionalProperties": False,
}
DECLARED = {
    "_id": "bigint",
    "name": "string",
    "age": "bigint",
    "score": "double",
    "active": "boolean",
    "at": "timestamp",
    "tags": "array<string>",
    "home": "struct<zip:bigint>",
    "either": "json",
    "things": "array<json>",
    "thing": "json",
}


def test_a_json_schema_alone_is_enough(store: lowtide.Store) -> None:
    assert inferred(store, schema=CLOSED, schemaFrom="jsonSchema") == DECLARED
    assert inferred(store, schemaFrom="auto") == DECLARED, "there are no documents yet"


def test_columns_choose_from_a_json_schema(store: lowtide.Store) -> None:
    found = inferred(store, schema=CLOSED, schemaFrom="jsonSchema", columns="home,other,name")
    assert list(found.items()) == [("home", "struct<zip:bigint>"), ("other", "json"), ("name", "string")]


def test_what_it_does_not_declare_comes_from_the_sample(store: lowtide.Store) -> None:
    partial = {"properties": {"score": {"type": "number"}, "later": {"type": "integer"}}}
    found = inferred(store, {"score": 1, "more": "x"}, schema=partial)
    assert found == {"_id": "bigint", "score": "double", "more": "string", "later": "bigint"}
    assert inferred(store, schemaFrom="sample") == {"_id": "bigint", "score": "bigint", "more": "string"}


def test_inside_objects_and_arrays_too(store: lowtide.Store) -> None:
    part = {"type": "object", "properties": {"zip": {"type": "number"}, "later": {"type": "boolean"}}}
    partial = {"properties": {"home": part, "homes": {"type": "array", "items": part}}}
    home = {"zip": 1, "street": "x"}
    found = inferred(store, {"home": home, "homes": [home]}, schema=partial)
    struct = "struct<zip:double,street:string,later:boolean>"
    assert found == {"_id": "bigint", "home": struct, "homes": f"array<{struct}>"}


@pytest.mark.parametrize(
    ("declared", "value", "kind"),
    [
        ({"type": "object"}, {"a": 1}, "struct<a:bigint>"),
        ({"type": "array"}, [1], "array<bigint>"),
        ({"type": "array", "items": {"type": ["integer", "string"]}}, [1], "array<json>"),
        ({"type": ["object", "string"]}, {"a": 1}, "json"),
        ({"type": ["integer", "string"]}, "x", "json"),
        ({"type": "integer"}, 2**70, "decimal(38,0)"),
        ({"type": "number"}, Decimal("1.25"), "decimal(38,2)"),
        ({"type": "number"}, 1, "double"),
        ({"type": "string", "format": "date-time"}, "2026-05-01T12:00:00Z", "string"),
        ({"type": "null"}, None, "json"),
        ({"minimum": 1}, 1, "bigint"),
    ],
)
def test_a_declared_type_holds_what_it_allows(
    store: lowtide.Store, declared: dict[str, Any], value: Any, kind: str
) -> None:
    found = inferred(store, {"v": value}, schema={"properties": {"v": declared}})
    assert found["v"] == kind
    assert len(Load(store.path, collection="c").rows()) == 1


def test_a_collection_without_a_json_schema_says_so(store: lowtide.Store) -> None:
    with pytest.raises(UsageError, match="collection 'c' has no JSON Schema that names properties"):
        inferred(store, {"a": 1}, schemaFrom="jsonSchema")


# What is not there


def test_a_collection_that_does_not_exist_is_an_error_that_names_those_that_do(store: lowtide.Store) -> None:
    store.collection("users").insert_one({"_id": 1})
    store.collection("orders").insert_one({"_id": 1})
    with pytest.raises(UsageError, match=r"no collection 'user'.*'orders', 'users'"):
        Load(store.path, collection="user")
    assert store.pins() == [], "a load that failed keeps nothing"


def test_and_so_is_any_in_an_empty_store(store: lowtide.Store) -> None:
    with pytest.raises(UsageError, match=r"no collection 'c'.*has none"):
        Load(store.path, collection="c")


def test_nor_does_one_exist_that_has_neither_documents_nor_indexes_nor_a_schema(store: lowtide.Store) -> None:
    store.collection("c").insert_one({"_id": 1})
    store.collection("c").delete_one({"_id": 1})
    with pytest.raises(UsageError, match=r"no collection 'c'.*give a schema"):
        Load(store.path, collection="c")


def test_a_collection_without_documents_has_an_id(store: lowtide.Store) -> None:
    store.collection("c").create_index("a")
    load = Load(store.path, collection="c")
    assert shown(load.schema) == {"_id": "json"}
    assert load.rows() == []


def test_a_damaged_document_is_named(store: lowtide.Store) -> None:
    store.collection("c").insert_many([{"_id": number} for number in range(5)])
    with store.transaction() as tx:
        tx._tx.keyspace("documents/c").put(id_key(3), b"\xc1")
    with pytest.raises(Error, match="document with _id 3 cannot be decoded"):
        Load(store.path, collection="c")
