"""$match, $sort, $skip, $limit, $sample and $unwind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import OperationFailure
from lowtide.values.values import place
from tests.unit.documents.aggregation.piping import run, same

NUMBERS = [{"n": number} for number in range(10)]


def numbers(*stages: dict[str, Any]) -> list[int]:
    return [document["n"] for document in run(list(stages), NUMBERS)]


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        ({}, list(range(10))),
        ({"n": 3}, [3]),
        ({"n": {"$gte": 8}}, [8, 9]),
        ({"$or": [{"n": 1}, {"n": 2}]}, [1, 2]),
        ({"$expr": {"$eq": [{"$mod": ["$n", 4]}, 0]}}, [0, 4, 8]),
        ({"n": {"$gt": 0}, "$expr": {"$eq": [{"$mod": ["$n", 4]}, 0]}}, [4, 8]),
        ({"$and": [{"n": {"$lt": 5}}, {"$expr": {"$gt": ["$n", 2]}}]}, [3, 4]),
        ({"$or": [{"n": 9}, {"$expr": {"$lt": ["$n", 2]}}]}, [0, 1, 9]),
        ({"$nor": [{"n": {"$gt": 1}}, {"$expr": {"$eq": ["$n", 0]}}]}, [1]),
        ({"$and": [{"$or": [{"$expr": "$n"}, {"n": 0}]}, {"n": {"$lte": 1}}]}, [0, 1]),
        ({"$expr": "$missing"}, []),
    ],
    ids=repr,
)
def test_match_lets_through_what_matches(filter: dict[str, Any], wanted: list[int]) -> None:
    assert numbers({"$match": filter}) == wanted


@pytest.mark.parametrize(
    ("stages", "wanted"),
    [
        ([{"$sort": {"n": -1}}], list(range(9, -1, -1))),
        ([{"$sort": {"n": -1}}, {"$limit": 2}], [9, 8]),
        ([{"$sort": {"n": -1}}, {"$skip": 1}, {"$limit": 2}], [8, 7]),
        ([{"$sort": {"n": -1}}, {"$skip": 1}, {"$skip": 1}, {"$limit": 2}], [7, 6]),
        ([{"$sort": {"n": -1}}, {"$limit": 3}, {"$sort": {"n": 1}}], [7, 8, 9]),
        ([{"$sort": {"n": -1}}, {"$match": {"n": {"$lt": 3}}}, {"$limit": 2}], [2, 1]),
        ([{"$limit": 3}, {"$skip": 1}], [1, 2]),
        ([{"$limit": 3}, {"$skip": 5}], []),
        ([{"$skip": 8}, {"$limit": 5}], [8, 9]),
        ([{"$skip": 0}, {"$limit": 1}], [0]),
        ([{"$limit": 2.0}], [0, 1]),
        ([{"$limit": 99}], list(range(10))),
    ],
    ids=repr,
)
def test_documents_are_ordered_and_counted_off(stages: list[dict[str, Any]], wanted: list[int]) -> None:
    assert numbers(*stages) == wanted


fields = st.fixed_dictionaries(
    {"b": st.integers(0, 3)}, optional={"a": st.none() | st.integers(0, 3) | st.sampled_from(["", "b", True, 1.5])}
)


@given(documents=st.lists(fields), count=st.integers(1, 5), skip=st.integers(0, 3))
def test_sort_and_limit_are_the_beginning_of_all_that_is_sorted(
    documents: list[dict[str, Any]], count: int, skip: int
) -> None:
    documents = [{**document, "at": at} for at, document in enumerate(documents)]
    wanted = sorted(documents, key=lambda each: (place(each.get("a")), -each["b"]))
    sort = {"$sort": {"a": 1, "b": -1}}
    assert same(run([sort], documents), wanted)
    assert same(run([sort, {"$limit": count}], documents), wanted[:count])
    assert same(run([sort, {"$skip": skip}, {"$limit": count}], documents), wanted[skip : skip + count])


@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 12))))
def test_skip_and_limit_are_slices(steps: list[tuple[bool, int]]) -> None:
    stages: list[dict[str, Any]] = [{"$skip": count} if skip else {"$limit": count + 1} for skip, count in steps]
    wanted = list(range(10))
    for skip, count in steps:
        wanted = wanted[count:] if skip else wanted[: count + 1]
    assert numbers(*stages) == wanted


@pytest.mark.parametrize("size", [1, 3, 10, 50])
def test_a_sample_has_no_document_twice(size: int) -> None:
    found = numbers({"$sample": {"size": size}})
    assert len(found) == len(set(found)) == min(size, 10)


def test_every_document_may_be_in_a_sample() -> None:
    seen = {number for _ in range(500) for number in numbers({"$sample": {"size": 2}})}
    assert seen == set(range(10))


ARRAYS: list[dict[str, Any]] = [
    {"_id": 0, "a": [1, 2]},
    {"_id": 1, "a": []},
    {"_id": 2, "a": None},
    {"_id": 3},
    {"_id": 4, "a": 5},
    {"_id": 5, "a": [[6], None]},
]
NESTED: list[dict[str, Any]] = [{"o": {"a": [1, 2], "b": 3}}, {"o": [{"a": [4]}]}, {"o": 5}]


@pytest.mark.parametrize(
    ("operand", "documents", "wanted"),
    [
        (
            "$a",
            ARRAYS,
            [
                {"_id": 0, "a": 1},
                {"_id": 0, "a": 2},
                {"_id": 4, "a": 5},
                {"_id": 5, "a": [6]},
                {"_id": 5, "a": None},
            ],
        ),
        (
            {"path": "$a", "includeArrayIndex": "i", "preserveNullAndEmptyArrays": True},
            ARRAYS,
            [
                {"_id": 0, "a": 1, "i": 0},
                {"_id": 0, "a": 2, "i": 1},
                {"_id": 1, "i": None},
                {"_id": 2, "a": None, "i": None},
                {"_id": 3, "i": None},
                {"_id": 4, "a": 5, "i": None},
                {"_id": 5, "a": [6], "i": 0},
                {"_id": 5, "a": None, "i": 1},
            ],
        ),
        (
            {"path": "$a", "preserveNullAndEmptyArrays": True},
            ARRAYS[1:4],
            [{"_id": 1}, {"_id": 2, "a": None}, {"_id": 3}],
        ),
        ("$o.a", NESTED, [{"o": {"a": 1, "b": 3}}, {"o": {"a": 2, "b": 3}}]),
        (
            {"path": "$o.a", "includeArrayIndex": "o.i"},
            NESTED,
            [{"o": {"a": 1, "b": 3, "i": 0}}, {"o": {"a": 2, "b": 3, "i": 1}}],
        ),
        ("$a", [], []),
    ],
    ids=repr,
)
def test_unwind_makes_a_document_of_each_element(
    operand: Any, documents: list[dict[str, Any]], wanted: list[dict[str, Any]]
) -> None:
    before = repr(documents)
    assert same(run([{"$unwind": operand}], documents), wanted)
    assert repr(documents) == before


@given(lists=st.lists(st.lists(st.integers())))
def test_unwinding_and_pushing_again_gives_the_arrays_back(lists: list[list[int]]) -> None:
    documents = [{"_id": number, "a": each} for number, each in enumerate(lists)]
    stages: list[dict[str, Any]] = [{"$unwind": "$a"}, {"$group": {"_id": "$_id", "a": {"$push": "$a"}}}]
    assert run(stages, documents) == [document for document in documents if document["a"]]


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        ({"$match": 1}, "expected a filter, got int 1"),
        ({"$match": {"a": {"$nope": 1}}}, r".*\$nope"),
        ({"$match": {"a": {"$nope": 1}, "$expr": True}}, r".*\$nope"),
        ({"$match": {"$expr": {"$nope": 1}}}, r"\$expr: unknown operator \$nope"),
        ({"$sort": {}}, "a sort must be an object of field paths"),
        ({"$sort": "n"}, "a sort must be an object of field paths"),
        ({"$sort": {"n": 2}}, ".*'n'"),
        ({"$skip": -1}, "expected an integer of at least 0, got int -1"),
        ({"$skip": "1"}, "expected an integer of at least 0"),
        ({"$limit": 0}, "expected an integer of at least 1, got int 0"),
        ({"$limit": 1.5}, "expected an integer of at least 1"),
        ({"$limit": True}, "expected an integer of at least 1"),
        ({"$sample": 3}, "expected an object with size"),
        ({"$sample": {"size": 0}}, "size: expected an integer of at least 1"),
        ({"$unwind": "a"}, r"the path must begin with \$"),
        ({"$unwind": "$"}, r"the path must begin with \$"),
        ({"$unwind": {"path": "$a", "includeArrayIndex": "$i"}}, "includeArrayIndex must be a field path"),
        (
            {"$unwind": {"path": "$a", "preserveNullAndEmptyArrays": 1}},
            "preserveNullAndEmptyArrays must be true or false",
        ),
        ({"$unwind": {"path": "$a", "index": "i"}}, "unknown operand 'index'"),
    ],
    ids=repr,
)
def test_a_stage_that_cannot_be_is_refused(stage: dict[str, Any], reason: str) -> None:
    (name,) = stage
    with pytest.raises(OperationFailure, match=rf"^stage 1 \(\{name}\): {reason}"):
        run([stage], [])
