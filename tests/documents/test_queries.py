"""Queries by an index find what a scan of all documents finds, in the requested order."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, note, settings

import lowtide
from lowtide.documents.collection import Collection
from lowtide.documents.filters import compile_filter
from lowtide.documents.sorting import compile_sort
from lowtide.values.values import Document
from tests.documents.makings import SCALARS, Maker
from tests.support.collections import check_collection

SCALE = float(os.environ.get("LOWTIDE_PROPERTIES", "1"))
_NUMBERS = count()


def ids_of(found: Any) -> list[Any]:
    return [each["_id"] for each in found]


def hints(collection: Collection) -> list[str | None]:
    return [None, *collection.index_information()]


@given(seed=st.integers(0, 2**64))
@settings(max_examples=int(120 * SCALE), suppress_health_check=list(HealthCheck))
def test_a_query_by_any_index_finds_what_a_full_scan_finds(shared_store: lowtide.Store, seed: int) -> None:
    make, collection = Maker(seed), shared_store.collection(f"c{next(_NUMBERS)}")
    for number in range(make.random.randint(0, 9)):
        collection.insert_one({"_id": number, **make.body()})
    for _ in range(make.random.randint(1, 4)):
        make.index().create(collection)
    for number in range(9, 9 + make.random.randint(0, 5)):
        with suppress(lowtide.WriteError):
            collection.insert_one({"_id": number, **make.body()})
    documents = check_collection(shared_store, collection.name)
    for _ in range(15):
        filter, sort = make.filter(), make.sort()
        note(f"{filter} in the order of {sort}")
        check_query(collection, documents, filter, sort, make.random.randint(0, 3), make.random.randint(0, 4))
    collection.drop()


def check_query(
    collection: Collection,
    documents: dict[Any, Document],
    filter: dict[str, Any],
    sort: list[tuple[str, int]] | None,
    skip: int,
    limit: int,
) -> None:
    """By each index that may serve, and by the one that the planner takes."""
    matches = compile_filter(filter).matches
    expected = [each["_id"] for each in documents.values() if matches(each)]
    assert sorted(ids_of(collection.find(filter, hint="$natural"))) == expected
    place = compile_sort(sort).key if sort is not None else None
    in_order = sorted((place(documents[each]) for each in expected), key=lambda each: each) if place else []
    for hint in hints(collection):
        try:
            found = ids_of(collection.find(filter, sort=sort, hint=hint))
        except lowtide.OperationFailure:
            assert hint is not None, "the planner took an index that cannot serve"
            continue
        assert sorted(found) == expected, hint
        if place is not None:
            assert [place(documents[each]) for each in found] == in_order, hint
        assert collection.count_documents(filter, hint=hint) == len(expected)
        counted = collection.count_documents(filter, hint=hint, skip=skip, limit=limit or None)
        part = ids_of(collection.find(filter, skip=skip, limit=limit, sort=sort, hint=hint))
        assert counted == len(part) == len(set(part)) == len(expected[skip:][: limit or None])
        assert set(part) <= set(expected)
        if place is not None:
            assert [place(documents[each]) for each in part] == in_order[skip:][: limit or None], hint
    first = collection.find_one(filter, sort=sort)
    assert (first["_id"] in expected) if first is not None else not expected
    if place is not None and first is not None:
        assert place(first) == in_order[0]


@given(
    pairs=st.lists(st.tuples(st.sampled_from(SCALARS), st.sampled_from(SCALARS)), min_size=2, max_size=12),
    directions=st.tuples(st.sampled_from([1, -1]), st.sampled_from([1, -1])),
    backwards=st.booleans(),
    low=st.sampled_from(SCALARS),
)
@settings(max_examples=int(60 * SCALE), suppress_health_check=list(HealthCheck))
def test_an_index_gives_the_order_of_comparison_without_sorting(
    shared_store: lowtide.Store, pairs: list[tuple[Any, Any]], directions: tuple[int, int], backwards: bool, low: Any
) -> None:
    collection = shared_store.collection(f"c{next(_NUMBERS)}")
    collection.create_index([("a", directions[0]), ("b", directions[1])])
    collection.insert_many([{"_id": number, "a": a, "b": b} for number, (a, b) in enumerate(pairs)])
    turn = -1 if backwards else 1
    sort = [("a", turn * directions[0]), ("b", turn * directions[1])]
    key = compile_sort(sort).key
    documents = check_collection(shared_store, collection.name)
    for filter in ({}, {"a": {"$gte": low}}, {"a": {"$lt": low}}, {"a": low}):
        cursor = collection.find(filter, sort=sort)
        plan = cursor.clone().explain()["queryPlanner"]["winningPlan"]
        assert plan["stage"] == "FETCH", plan
        matches = compile_filter(filter).matches
        expected = sorted((key(each) for each in documents.values() if matches(each)), key=lambda each: each)
        assert [key(each) for each in cursor] == expected
    collection.drop()
