"""Reading a collection: documents by a plan, each once, in order, fetched only as far as requested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import lowtide
from lowtide.documents.filters import compile_filter
from lowtide.documents.plans.plan import Plan
from lowtide.documents.reader import CollectionReader, ReadCounts
from lowtide.documents.sorting import compile_sort
from lowtide.errors import UsageError
from lowtide.values.codec import decode_document
from lowtide.values.ids import id_key

COUNT = 200


@pytest.fixture
def reader(store: lowtide.Store) -> Iterator[CollectionReader]:
    """Of documents 0 to 199; ``n`` is the number modulo 10, ``tags`` are two numbers, ``u`` is unique."""
    many = store["many"]
    many.insert_many([{"_id": each, "n": each % 10, "tags": [each % 7, each % 3], "u": -each} for each in range(COUNT)])
    many.create_index("u", unique=True)
    for keys in ("n", "tags", [("n", -1), ("u", 1)]):
        many.create_index(keys)
    with store.snapshot() as snapshot:
        yield CollectionReader(snapshot._snapshot, lambda name: snapshot.keyspace(name).prefix, "many")


def ids(
    reader: CollectionReader, filter: Any, sort: Any = None, limit: int = 0, hint: Any = None, touched: Any = None
) -> list[int]:
    compiled, order = compile_filter(filter), compile_sort(sort) if sort is not None else None
    by = reader.plan(compiled, order, hint, limited=bool(limit))
    return [document["_id"] for _, _, document in reader.matching(compiled, by, order, limit, touched)]


@pytest.mark.parametrize(
    ("filter", "sort"),
    [
        *(({}, None), ({"n": 3}, None), ({"n": {"$gt": 3, "$lte": 7}}, None), ({"tags": 1}, None), ({"u": -5}, None)),
        *(
            ({"tags": {"$in": [0, 1, 2]}}, None),
            ({"u": {"$in": [-1, -199, 5, -7]}}, None),
            ({"_id": {"$gte": 150}}, None),
        ),
        *(({"$or": [{"n": 3}, {"tags": 3}, {"_id": 3}]}, None), ({"n": 3}, [("u", -1)]), ({"n": 3}, [("u", 1)])),
        *(
            ({}, [("u", 1)]),
            ({}, [("n", 1), ("u", -1)]),
            ({}, [("n", -1), ("u", 1)]),
            ({"tags": {"$gt": 4}}, [("tags", 1), ("_id", 1)]),
        ),
        *(
            ({"_id": {"$in": [9, 3, 5]}}, [("_id", -1)]),
            ({"n": {"$in": [1, 2]}}, [("u", 1)]),
            ({"n": {"$gt": 100}}, None),
        ),
    ],
    ids=str,
)
def test_a_plan_gives_what_a_scan_gives(reader: CollectionReader, filter: Any, sort: Any) -> None:
    """Each document once, and the first of them if they are limited."""
    order = [("_id", 1)] if sort is None else sort
    everything = ids(reader, filter, order, hint="$natural")
    found = ids(reader, filter, sort)
    assert sorted(found) == sorted(everything)
    assert len(set(found)) == len(found)
    if sort is not None:
        assert found == everything
    for limit in (1, 5, 33):
        few = ids(reader, filter, sort, limit)
        assert few == (everything[:limit] if sort is not None else few)
        assert len(few) == min(limit, len(everything))
        assert set(few) <= set(everything)


@pytest.mark.parametrize(
    ("filter", "sort", "limit", "keys", "documents"),
    [
        *(({"u": -5}, None, 0, 1, 1), ({"n": 3}, None, 0, 20, 20), ({"_id": {"$lt": 10}}, None, 0, 0, 10)),
        *(({"_id": {"$in": [1, 2, 999]}}, None, 0, 0, 2), ({}, None, 0, 0, COUNT), ({"u": {"$gt": -3}}, None, 0, 3, 3)),
        *(({"n": 3}, None, 1, 1, 1), ({}, [("u", 1)], 5, 5, 5), ({"n": 3, "x": None}, [("u", 1)], 1, 1, 1)),
    ],
    ids=str,
)
def test_no_more_is_read_than_is_asked_for(
    reader: CollectionReader, filter: Any, sort: Any, limit: int, keys: int, documents: int
) -> None:
    touched = ReadCounts()
    ids(reader, filter, sort, limit, touched=touched)
    assert (touched.keys, touched.documents) == (keys, documents)


def test_entries_that_lead_nowhere_are_passed_over(store: lowtide.Store, reader: CollectionReader) -> None:
    by = Plan(reader.row.index("u_1"), keys=(b"\x20nothing",))
    assert list(reader.stored(by)) == []
    assert list(reader.entries(by)) == []


def test_a_collection_that_does_not_exist_is_empty(store: lowtide.Store) -> None:
    with store.snapshot() as snapshot:
        reader = CollectionReader(snapshot._snapshot, lambda name: snapshot.keyspace(name).prefix, "nobody")
        assert ids(reader, {}) == []
        assert reader.row.indexes == ()


FILTERS = [
    {},
    {"n": 3},
    {"n": {"$gt": 3, "$lte": 7}, "u": {"$lt": -100}},
    {"tags": {"$in": [0, 1, 2]}},
    {"u": {"$in": [-1, -199, 5, -7]}},
    {"_id": {"$gte": 50, "$lt": 150}},
    {"_id": {"$in": [9, 3, 5, 1000]}},
    {"$or": [{"n": 3}, {"tags": 3}, {"_id": 3}]},
    {"n": {"$mod": [2, 1]}},
    {"n": {"$gt": 100}},
]


@pytest.mark.parametrize("filter", FILTERS, ids=str)
@pytest.mark.parametrize("place", ["layers", "both", "base"])
def test_batches_are_what_a_plan_gives_wherever_it_lies(
    reader: CollectionReader, store: lowtide.Store, filter: Any, place: str
) -> None:
    """At a snapshot whose documents were changed, deleted and joined by others since."""
    if place == "base":
        store.checkpoint()
    store["many"].update_many({"_id": {"$mod": [3, 0]}}, {"$set": {"n": 3}})
    store["many"].delete_many({"_id": {"$mod": [5, 0]}})
    store["many"].insert_many([{"_id": COUNT + each, "n": 3, "tags": [1], "u": COUNT + each} for each in range(10)])
    if place == "both":
        store.checkpoint()
    compiled = compile_filter(filter)
    by = reader.plan(compiled, None)
    read, matching = list(reader.values(by)), [value for _, value, _ in reader.matching(compiled, by)]
    for size in (1, 7, 1000):
        for wanted, found in ((read, reader.batches(by, size)), (matching, reader.batches(by, size, compiled))):
            batches = list(found)
            assert [each for batch in batches for each in batch] == wanted
            assert all(0 < len(batch) <= 2 * size for batch in batches), "rows and history have as many"


def test_batches_in_a_transaction_show_its_own_writes(store: lowtide.Store, reader: CollectionReader) -> None:
    with store.transaction() as tx:
        tx["many"].delete_many({"_id": {"$gte": 10}})
        tx["many"].insert_one({"_id": 500, "n": 3, "u": 500})
        here = CollectionReader(tx._tx, reader.prefix_of, "many")
        for filter, expected in (({}, [*range(10), 500]), ({"n": 3}, [3, 500])):
            by = here.plan(compile_filter(filter), None)
            assert [decode_document(each)["_id"] for batch in here.batches(by, 4) for each in batch] == expected


@pytest.mark.parametrize("low", [b"", id_key(0), id_key(50), id_key(300)])
@pytest.mark.parametrize("high", [None, id_key(0), id_key(51), id_key(120)])
def test_batches_between_two_keys_hold_the_lower_and_not_the_higher(
    reader: CollectionReader, low: bytes, high: bytes | None
) -> None:
    expected = [each for each in range(COUNT) if low <= id_key(each) and (high is None or id_key(each) < high)]
    for size in (1, 30, 1000):
        batches = list(reader.batches_between(low, high, size))
        assert [decode_document(each)["_id"] for batch in batches for each in batch] == expected
        assert all(batches)


def test_batches_end_with_their_snapshot(store: lowtide.Store) -> None:
    store["many"].insert_many([{"_id": each} for each in range(10)])
    with store.snapshot() as snapshot:
        reader = CollectionReader(snapshot._snapshot, lambda name: snapshot.keyspace(name).prefix, "many")
        batches = reader.batches(reader.plan(compile_filter({}), None), 3)
        assert len(next(batches)) == 3
    with pytest.raises(UsageError, match="closed"):
        next(batches)


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("limit", [1, 5, 0])
@pytest.mark.parametrize("more", [{}, {"u": {"$gt": -150}}, {"_id": {"$gt": 50}}], ids=["", "range", "rest"])
def test_the_ranges_of_in_are_merged_in_the_order_of_a_sort(
    reader: CollectionReader, direction: int, limit: int, more: dict[str, Any]
) -> None:
    """No more is read than the limit takes, and what the rest of the filter refuses."""
    filter, sort = {"n": {"$in": [1, 4, 4, 9, 77]}, **more}, [("u", direction)]
    matching = compile_filter(filter).matches
    documents = [{"_id": each, "n": each % 10, "u": -each} for each in range(COUNT)]
    expected = sorted(each["_id"] for each in documents if matching(each))[::-direction]
    touched = ReadCounts()
    by = reader.plan(compile_filter(filter), compile_sort(sort), limited=bool(limit))
    assert by.merged or "u" in more
    hint = "n_-1_u_1"
    assert ids(reader, filter, sort, limit, hint, touched) == (expected[:limit] if limit else expected)
    if limit and "_id" not in more:
        assert touched.keys == touched.documents == limit
