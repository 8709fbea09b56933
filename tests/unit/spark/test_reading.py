"""The convenience functions: how they convert Python values, and the pin of a ``with`` block."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructField, StructType

import lowtide
from lowtide.errors import UsageError
from lowtide.spark.options import SparkOptions
from lowtide.spark.partitions import bounds
from lowtide.spark.reading import _chosen, given_options, pinned
from lowtide.values.ids import id_key
from tests.unit.spark.loading import Load


def text(name: str, value: Any, collection: str | None = "c") -> SparkOptions:
    return SparkOptions(given_options("/store", collection, **{name: value}))


def test_everything_becomes_text_and_nothing_stays_away() -> None:
    given = given_options(Path("/store"), "c", columns=["a", "b,c"], filter={"a": {"$gt": 1}}, as_of=7, cache=True)
    assert given == {
        "path": "/store",
        "collection": "c",
        "columns": '["a","b,c"]',
        "filter": '{"a":{"$gt":1}}',
        "asOf": "7",
        "cache": "True",
    }
    assert given_options("/store", None, keyspace="k", partitions=None) == {"path": "/store", "keyspace": "k"}


def test_lists_are_read_as_lists() -> None:
    assert text("jsonColumns", ["a", "b"]).names("jsonColumns") == ["a", "b"]
    assert text("columns", ("a",)).names("columns") == ["a"]


def test_filters_keep_their_types() -> None:
    wanted = {"at": {"$lt": datetime(2026, 5, 1, tzinfo=UTC)}, "u": UUID(int=7), "b": b"x", "n": 2**70}
    assert text("filter", wanted).json("filter") == wanted


def test_a_filter_may_be_json_text_and_nothing_else_besides() -> None:
    assert text("filter", '{"a": 1}').json("filter") == {"a": 1}
    with pytest.raises(UsageError, match=r"filter must be a MongoDB filter, as a dict or JSON text, not \['a'\]"):
        text("filter", ["a"])


def test_a_pin_stands_for_its_name_and_a_time_for_itself(store: lowtide.Store) -> None:
    assert text("as_of", store.pin("p")).text("asOf") == "p"
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    assert text("as_of", moment).moment("asOf") == moment.timestamp()


@given(st.integers() | st.text(max_size=20) | st.binary(max_size=20) | st.uuids())
def test_ids_keep_their_types(value: Any) -> None:
    """The text "5" is not the number 5."""
    assert bounds(text("keyStart", value)).low == id_key(value)


def test_prefixes_are_texts() -> None:
    assert bounds(text("keyPrefix", "5")).low == id_key("5")[:-2]


@given(st.binary(max_size=9))
def test_keys_of_keyspaces_are_bytes(key: bytes) -> None:
    assert bounds(SparkOptions(given_options("/s", None, keyspace="k", keyStart=key))).low == key


def test_an_unknown_option_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(UsageError, match="no option 'partition'; did you mean 'partitions'"):
        given_options("/store", "c", partition=4)


def test_columns_choose_from_a_schema() -> None:
    schema = StructType([StructField("a", LongType()), StructField("b", StringType())])
    assert _chosen(schema, None) is schema
    assert _chosen(schema, ["b"]) == StructType([StructField("b", StringType())])
    with pytest.raises(UsageError, match="the schema has no column 'z'; it has a, b"):
        _chosen(schema, ["a", "z"])


def test_reads_at_a_pinned_instant_agree(store: lowtide.Store) -> None:
    store.collection("c").insert_one({"_id": 1})
    store.collection("d").insert_one({"_id": 1})
    with pinned(store.path) as pin:
        store.collection("c").insert_one({"_id": 2})
        first = Load(store.path, collection="c", asOf=pin)
        store.collection("d").insert_one({"_id": 2})
        second = Load(store.path, collection="d", asOf=pin)
        assert first.ids() == second.ids() == [1]
        assert pin in [each.name for each in store.pins()]
    assert pin not in [each.name for each in store.pins()]
    assert first.ids() == [1], "a DataFrame has a pin of its own"


def test_the_pin_of_a_block_goes_with_an_error_too(store: lowtide.Store) -> None:
    with pytest.raises(RuntimeError), pinned(store.path) as pin:
        raise RuntimeError
    assert pin not in [each.name for each in store.pins()]


def test_a_pin_that_somebody_removed_ends_the_block_in_peace(store: lowtide.Store) -> None:
    with pinned(store.path) as pin:
        store.unpin(pin)
