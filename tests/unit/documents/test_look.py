"""A look at a collection: documents by a plan, each once, in order, fetched no further than is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import lowtide
from lowtide.documents.filters import compile_filter
from lowtide.documents.look import Look, Touched
from lowtide.documents.plans.plan import Plan
from lowtide.documents.sorting import compile_sort

COUNT = 200


@pytest.fixture
def look(store: lowtide.Store) -> Iterator[Look]:
    """Of documents 0 to 199; ``n`` is the number modulo 10, ``tags`` are two numbers, ``u`` is unique."""
    many = store["many"]
    many.insert_many([{"_id": each, "n": each % 10, "tags": [each % 7, each % 3], "u": -each} for each in range(COUNT)])
    many.create_index("u", unique=True)
    for keys in ("n", "tags", [("n", -1), ("u", 1)]):
        many.create_index(keys)
    with store.snapshot() as snapshot:
        yield Look(snapshot, lambda name: snapshot.keyspace(name)._prefix, "many")


def ids(look: Look, filter: Any, sort: Any = None, limit: int = 0, hint: Any = None, touched: Any = None) -> list[int]:
    compiled, order = compile_filter(filter), compile_sort(sort) if sort is not None else None
    by = look.plan(compiled, order, hint, limited=bool(limit))
    return [document["_id"] for _, _, document in look.matching(compiled, by, order, limit, touched)]


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
def test_a_plan_gives_what_a_scan_gives(look: Look, filter: Any, sort: Any) -> None:
    """Each document once, and the first of them if they are limited."""
    order = [("_id", 1)] if sort is None else sort
    everything = ids(look, filter, order, hint="$natural")
    found = ids(look, filter, sort)
    assert sorted(found) == sorted(everything)
    assert len(set(found)) == len(found)
    if sort is not None:
        assert found == everything
    for limit in (1, 5, 33):
        few = ids(look, filter, sort, limit)
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
    look: Look, filter: Any, sort: Any, limit: int, keys: int, documents: int
) -> None:
    touched = Touched()
    ids(look, filter, sort, limit, touched=touched)
    assert (touched.keys, touched.documents) == (keys, documents)


def test_entries_that_lead_nowhere_are_passed_over(store: lowtide.Store, look: Look) -> None:
    by = Plan(look.row.index("u_1"), keys=(b"\x20nothing",))
    assert list(look.stored(by)) == []
    assert list(look.entries(by)) == []


def test_a_collection_that_does_not_exist_is_empty(store: lowtide.Store) -> None:
    with store.snapshot() as snapshot:
        look = Look(snapshot, lambda name: snapshot.keyspace(name)._prefix, "nobody")
        assert ids(look, {}) == []
        assert look.row.indexes == ()
