"""Which entries a document has in an index: missing fields, arrays, compound keys, values that are too long."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

from lowtide.documents.indexes.entries import (
    CUT,
    LONG,
    MAX_VALUES,
    MULTIKEY,
    IndexEntries,
    cut,
    cut_bound,
    document_key_of,
    entry_key,
    entry_value,
    extract,
)
from lowtide.documents.indexes.spec import Index, parse_keys
from lowtide.errors import WriteError
from lowtide.values.codec import encode_value
from lowtide.values.ordering import encode, inverted
from tests.unit.values.strategies import documents
from tests.unit.values.strategies import paths as any_path


def index(keys: Any, **options: Any) -> Index:
    return Index(name="i", keys=parse_keys(keys), keyspace="k", **options)


@pytest.mark.parametrize(
    ("path", "document", "values", "through"),
    [
        *(("a", {}, [], False), ("a", {"a": None}, [None], False), ("a", {"a": 1}, [1], False)),
        *(("a", {"a": []}, [[]], True), ("a", {"a": [1, 2]}, [1, 2], True), ("a", {"a": [[1], 2]}, [[1], 2], True)),
        *(("a", {"a": {"b": [1]}}, [{"b": [1]}], False), ("a.b", {}, [], False), ("a.b", {"a": 1}, [], False)),
        *(("a.b", {"a": {}}, [], False), ("a.b", {"a": {"b": 1}}, [1], False), ("a.b", {"a": {"b": []}}, [[]], True)),
        *(
            ("a.b", {"a": [{"b": 1}, {"b": 2}]}, [1, 2], True),
            ("a.b", {"a": [{"b": [1, 2]}, {"b": 3}]}, [1, 2, 3], True),
        ),
        *(("a.b", {"a": [{"b": 1}, {}]}, [1, None], True), ("a.b", {"a": []}, [], True)),
        *(("a.0", {"a": [5, 6]}, [5], True), ("a.1.b", {"a": [{}, {"b": 7}]}, [7, None, None], True)),
        *(("a.0", {"a": {"0": 5}}, [5], False), ("a.2", {"a": [5, 6]}, [], True)),
    ],
    ids=str,
)
def test_values_at_a_path(path: str, document: dict[str, Any], values: list[Any], through: bool) -> None:
    assert extract(path)(document) == (values, through)


@pytest.mark.parametrize(
    ("keys", "document", "entries"),
    [
        *(("a", {}, [[None]]), ("a", {"a": 1}, [[1]]), ("a", {"a": [1, 2, 1.0]}, [[1], [2]]), ("a", {"a": []}, [[[]]])),
        *(("a", {"a": [[]]}, [[[]]]), ("a", {"a": [None, 1]}, [[None], [1]]), ("a", {"a": [[1, 2]]}, [[[1, 2]]])),
        *((["a", "b"], {}, [[None, None]]), (["a", "b"], {"a": 1}, [[1, None]]), (["a", "b"], {"b": 2}, [[None, 2]])),
        (["a", "b"], {"a": [1, 2], "b": 3}, [[1, 3], [2, 3]]),
        (["a.x", "a.y"], {"a": [{"x": 1, "y": 2}]}, [[1, 2]]),
        (["a.b", "c"], {"a": {"b": True}, "c": b"x"}, [[True, b"x"]]),
    ],
    ids=str,
)
def test_entries_of_a_document(keys: Any, document: dict[str, Any], entries: list[list[Any]]) -> None:
    found, special = IndexEntries(index(keys)).of({"_id": 1, **document})
    assert found == [b"".join(map(encode, each)) for each in entries]
    assert special == (MULTIKEY if any(type(each) is list for each in document.values()) else 0)


def test_parts_that_descend_are_inverted() -> None:
    found, _ = IndexEntries(index([("a", -1), ("b", 1)])).of({"a": 1, "b": "x"})
    assert found == [inverted(encode(1)) + encode("x")]
    lower, higher = (IndexEntries(index([("a", -1)])).of({"a": each})[0] for each in (2, 1))
    assert lower < higher


@pytest.mark.parametrize(
    ("keys", "document", "count"),
    [
        *(
            ("a", {}, 0),
            ("a", {"a": None}, 1),
            ("a", {"a": []}, 1),
            ("a.b", {"a": 1}, 0),
            ("a.b", {"a": {"b": None}}, 1),
        ),
        *((["a", "b"], {}, 0), (["a", "b"], {"b": 1}, 1), (["a", "b"], {"a": None}, 1)),
    ],
    ids=str,
)
def test_a_sparse_index_leaves_out_what_has_none_of_its_fields(keys: Any, document: Any, count: int) -> None:
    assert len(IndexEntries(index(keys, sparse=True)).of(document)[0]) == count


def test_a_partial_index_holds_what_its_filter_matches() -> None:
    entries = IndexEntries(index("a", partial=encode_value({"b": {"$gt": 5}})))
    assert entries.of({"a": 1, "b": 6}) == ([encode(1)], 0)
    assert entries.of({"a": 1, "b": 5}) == ([], 0)
    assert entries.of({"a": [1, 2], "b": 5}) == ([], 0), "an array that is not in it makes it no multikey index"
    assert entries.fields == {"a", "b"}


@pytest.mark.parametrize(
    "document", [{"a": [1], "b": [2]}, {"a": [], "b": []}, {"a": {"x": [1]}, "b": [1, 2]}], ids=str
)
def test_two_arrays_side_by_side_are_refused(document: dict[str, Any]) -> None:
    keys = ["a.x" if isinstance(document["a"], dict) else "a", "b"]
    with pytest.raises(WriteError, match=r"index 'i' cannot hold the document with _id 7: there are arrays at 'a.*'b'"):
        IndexEntries(index(keys)).of({"_id": 7, **document})


def test_more_entries_than_an_index_holds_of_one_document_are_refused() -> None:
    assert len(IndexEntries(index("a")).of({"a": list(range(10_000))})[0]) == 10_000
    with pytest.raises(WriteError, match="10,000"):
        IndexEntries(index("a")).of({"_id": 1, "a": list(range(10_001))})
    with pytest.raises(WriteError, match="10,000"):
        IndexEntries(index(["a.x", "a.y"])).of({"_id": 1, "a": [{"x": each, "y": each} for each in range(101)]})


def test_long_values_are_cut_and_still_differ() -> None:
    entries = IndexEntries(index("a"))
    longest = "x" * (MAX_VALUES - 3)
    assert entries.of({"a": longest}) == ([encode(longest)], 0)
    (first,), special = entries.of({"a": longest + "y"})
    (second,), _ = entries.of({"a": longest + "z"})
    assert special == LONG
    assert len(first) == len(second) == MAX_VALUES
    assert first != second
    assert first[:CUT] == second[:CUT] == encode(longest)[:CUT]
    assert entries.of({"a": [longest + "y", 1]}) == ([first, encode(1)], LONG | MULTIKEY)
    assert entries.of({"a": longest + "y"})[0] == [first], "the same value has the same key"


def test_what_is_cut_begins_with_the_bound_of_its_values() -> None:
    for length in (1, CUT - 1, CUT, CUT + 1, MAX_VALUES, MAX_VALUES + 1, 5000):
        values = bytes(each % 251 for each in range(length))
        assert cut(values).startswith(cut_bound(values))
        assert len(cut_bound(values)) == min(length, CUT)
        assert (cut(values) == values) == (length <= MAX_VALUES)


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("document_key", [encode(1), encode("x" * 190), encode(b"")])
def test_an_entry_leads_to_its_document(unique: bool, document_key: bytes) -> None:
    made = index("a", unique=unique)
    key, value = entry_key(made, encode("v"), document_key), entry_value(made, document_key)
    assert document_key_of(made, key, value) == document_key
    assert (key == encode("v")) is unique, "two documents cannot have one entry of a unique index"


def test_entries_are_in_the_order_of_values_and_then_of_documents() -> None:
    made = index("a")
    keys = [entry_key(made, encode(value), encode(_id)) for value in (None, 1, 2.5, "a", "b") for _id in (1, 2, "1")]
    assert all(first < second for first, second in pairwise(keys))


@settings(max_examples=150)
@given(documents, any_path)
def test_every_document_has_each_entry_once(document: dict[str, Any], path: str) -> None:
    found, special = IndexEntries(index(path)).of(document)
    assert len(found) == len(set(found)) >= 1
    assert len(found) == 1 or special & MULTIKEY
    assert IndexEntries(index([(path, -1)])).of(document)[0] == [inverted(each) for each in found]
    sparse = IndexEntries(index(path, sparse=True)).of(document)[0]
    assert sparse in ([], found)
