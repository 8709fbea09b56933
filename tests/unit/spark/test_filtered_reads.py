"""Filtered reads find exactly what find() finds, each once. What cannot be read is refused before any task starts."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    DataType,
    DayTimeIntervalType,
    LongType,
    MapType,
    VariantType,
)

import lowtide
from lowtide.errors import OperationFailure, UsageError
from lowtide.spark import partitions as cutting
from lowtide.values.extended import dumps
from tests.unit.spark.loading import Load, struct
from tests.unit.values.strategies import documents, filters

IDS = struct(_id=LongType())


@pytest.fixture
def collection(store: lowtide.Store) -> lowtide.Collection:
    return store.collection("c")


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
    monkeypatch.setattr(cutting, "SMALL_ENTRIES", 2)
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
    monkeypatch.setattr(cutting, "SMALL_ENTRIES", small)
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
    with pytest.raises(UsageError, match=r"column 'v'(: a document has no values| cannot be) of"):
        Load(store.path, struct(_id=LongType(), v=kind), collection="c")
    assert store.pins() == []
