"""$group, $sortByCount, $count, $bucket and $bucketAuto."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import OperationFailure
from lowtide.values.values import place
from tests.unit.documents.aggregation.piping import run, same


def groups(key: Any, values: list[Any]) -> list[Any]:
    """The groups of documents with ``k``, each with its key and the ``n`` of its documents."""
    documents = [{"n": number, **value} for number, value in enumerate(values)]
    return [(group["_id"], group["n"]) for group in run([{"$group": {"_id": key, "n": {"$push": "$n"}}}], documents)]


@pytest.mark.parametrize(
    ("key", "values", "wanted"),
    [
        ("$k", [], []),
        ("$k", [{"k": "a"}, {"k": "b"}, {"k": "a"}], [("a", [0, 2]), ("b", [1])]),
        ("$k", [{"k": 1}, {"k": 1.0}, {"k": Decimal("1.0")}, {"k": True}], [(1, [0, 1, 2]), (True, [3])]),
        ("$k", [{"k": 0}, {"k": False}, {"k": ""}, {"k": None}], [(0, [0]), (False, [1]), ("", [2]), (None, [3])]),
        ("$k", [{"k": None}, {}], [(None, [0, 1])]),
        ("$k.x", [{"k": {"x": None}}, {}, {"k": 1}], [(None, [0, 1, 2])]),
        ("$k", [{"k": [1, 2]}, {"k": [1, 2.0]}, {"k": [2, 1]}], [([1, 2], [0, 1]), ([2, 1], [2])]),
        ("$k", [{"k": {"a": 1}}, {"k": {"a": 1.0}}, {"k": {"a": True}}], [({"a": 1}, [0, 1]), ({"a": True}, [2])]),
        (
            "$k",
            [{"k": datetime(2024, 1, 1)}, {"k": datetime(2024, 1, 1, tzinfo=UTC)}, {"k": b"a"}],
            [(datetime(2024, 1, 1), [0, 1]), (b"a", [2])],
        ),
        (
            {"a": "$k", "b": "$j"},
            [{"k": 1}, {"k": 1.0}, {"k": 1, "j": None}],
            [({"a": 1}, [0, 1]), ({"a": 1, "b": None}, [2])],
        ),
        ({"a": "$k"}, [{"k": 1}, {"k": True}], [({"a": 1}, [0]), ({"a": True}, [1])]),
        ({"$toUpper": "$k"}, [{"k": "a"}, {"k": "A"}, {}], [("A", [0, 1]), ("", [2])]),
        ({"$cond": ["$k", "$k", "$$REMOVE"]}, [{"k": 1}, {}], [(1, [0]), (None, [1])]),
        (None, [{}, {}], [(None, [0, 1])]),
        ("all", [{}, {}], [("all", [0, 1])]),
        ({}, [{}, {}], [({}, [0, 1])]),
        ([], [{}, {}], [([], [0, 1])]),
    ],
    ids=repr,
)
def test_documents_with_equal_keys_are_one_group(key: Any, values: list[Any], wanted: list[Any]) -> None:
    assert same(groups(key, values), wanted)


def test_a_group_needs_no_accumulator() -> None:
    assert run([{"$group": {"_id": "$a"}}], [{"a": 1}, {"a": 2}, {"a": 1}]) == [{"_id": 1}, {"_id": 2}]


keys = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 1.5, "", "a", b"a"])


@given(pairs=st.lists(st.tuples(keys, st.integers())))
def test_the_sums_of_groups_are_those_of_a_dict(pairs: list[tuple[Any, int]]) -> None:
    wanted: dict[Any, list[int]] = {}
    for key, value in pairs:
        wanted.setdefault(place(key), []).append(value)
    found = run(
        [{"$group": {"_id": "$k", "n": {"$sum": 1}, "total": {"$sum": "$v"}, "least": {"$min": "$v"}}}],
        [{"k": key, "v": value} for key, value in pairs],
    )
    assert [(place(each["_id"]), each["n"], each["total"], each["least"]) for each in found] == [
        (key, len(values), sum(values), min(values)) for key, values in wanted.items()
    ]


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False, width=16) | st.integers(-99, 99)))
def test_the_average_lies_between_the_extremes(values: list[Any]) -> None:
    documents = [{"v": value} for value in values]
    for group in run(
        [{"$group": {"_id": None, **{name: {f"${name}": "$v"} for name in ("avg", "min", "max")}}}], documents
    ):
        assert group["min"] == min(values)
        assert group["max"] == max(values)
        assert group["min"] <= group["avg"] * (1 + 1e-12 * (1 if group["avg"] > 0 else -1))
        assert group["avg"] * (1 - 1e-12 * (1 if group["avg"] > 0 else -1)) <= group["max"]


def test_the_most_frequent_come_first() -> None:
    documents: list[dict[str, Any]] = [{"k": "a"}, {"k": "b"}, {"k": "b"}, {}, {"k": "b"}, {"k": None}]
    assert run([{"$sortByCount": "$k"}], documents) == [
        {"_id": "b", "count": 3},
        {"_id": None, "count": 2},
        {"_id": "a", "count": 1},
    ]
    assert run([{"$sortByCount": {"$type": "$k"}}], documents)[0] == {"_id": "string", "count": 4}


def test_count_tells_how_many_and_nothing_if_none() -> None:
    assert run([{"$count": "n"}], [{}, {}, {}]) == [{"n": 3}]
    assert run([{"$count": "n"}], []) == []


BUCKET = {"groupBy": "$v", "boundaries": [0, 10, 20]}


@pytest.mark.parametrize(
    ("more", "values", "wanted"),
    [
        ({}, [], []),
        ({}, [0, 9.5, 10], [{"_id": 0, "count": 2}, {"_id": 10, "count": 1}]),
        ({}, [15], [{"_id": 10, "count": 1}]),
        ({"default": "other"}, [20, -1, None, "x", 5], [{"_id": 0, "count": 1}, {"_id": "other", "count": 4}]),
        ({"default": -5}, [20, 5], [{"_id": -5, "count": 1}, {"_id": 0, "count": 1}]),
        (
            {"boundaries": [{"$add": [1, 1]}, {"$literal": 9}], "default": {"$literal": "$x"}},
            [1, 2],
            [
                {"_id": 2, "count": 1},
                {"_id": "$x", "count": 1},
            ],
        ),
        ({"output": {"s": {"$sum": "$v"}}}, [1, 2, 12], [{"_id": 0, "s": 3}, {"_id": 10, "s": 12}]),
    ],
    ids=repr,
)
def test_documents_fall_into_buckets(more: dict[str, Any], values: list[Any], wanted: list[Any]) -> None:
    assert same(run([{"$bucket": {**BUCKET, **more}}], [{"v": value} for value in values]), wanted)


def test_a_value_outside_all_buckets_is_refused_without_a_default() -> None:
    with pytest.raises(OperationFailure, match=r"stage 1 \(\$bucket\): int 20 is outside the boundaries"):
        run([{"$bucket": BUCKET}], [{"v": 20}])
    with pytest.raises(OperationFailure, match="nothing is outside"):
        run([{"$bucket": BUCKET}], [{}])


@pytest.mark.parametrize(
    ("buckets", "values", "wanted"),
    [
        (2, [], []),
        (2, [4, 1, 3, 2], [(1, 3, 2), (3, 4, 2)]),
        (3, [1, 1, 1, 2], [(1, 2, 3), (2, 2, 1)]),
        (5, [1, 2], [(1, 2, 1), (2, 2, 1)]),
        (1, ["b", "a"], [("a", "b", 2)]),
        (2, [1, None, 2], [(None, 2, 2), (2, 2, 1)]),
    ],
    ids=repr,
)
def test_buckets_are_made_as_even_as_can_be(buckets: int, values: list[Any], wanted: list[Any]) -> None:
    found = run([{"$bucketAuto": {"groupBy": "$v", "buckets": buckets}}], [{"v": value} for value in values])
    assert [(each["_id"]["min"], each["_id"]["max"], each["count"]) for each in found] == wanted


@given(values=st.lists(st.integers(0, 20)), buckets=st.integers(1, 8))
def test_automatic_buckets_hold_every_document_once(values: list[int], buckets: int) -> None:
    found = run(
        [{"$bucketAuto": {"groupBy": "$v", "buckets": buckets, "output": {"all": {"$push": "$v"}}}}],
        [{"v": value} for value in values],
    )
    assert [value for each in found for value in each["all"]] == sorted(values)
    assert len(found) <= buckets
    for each, following in pairwise(found):
        assert each["_id"]["max"] == following["_id"]["min"] > max(each["all"])


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        ({"$group": {"n": {"$sum": 1}}}, "expected an object with _id"),
        ({"$group": "$a"}, "expected an object with _id"),
        ({"$group": {"_id": None, "a.b": {"$sum": 1}}}, "'a.b' is not a valid field name"),
        ({"$group": {"_id": None, "$a": {"$sum": 1}}}, r"'\$a' is not a valid field name"),
        ({"$group": {"_id": {"$nope": 1}}}, r"field '_id': unknown operator \$nope"),
        ({"$group": {"_id": {"a.b": 1}}}, r"field '_id': 'a.b' is not a valid field name"),
        ({"$sortByCount": "k"}, "expected an expression"),
        ({"$count": ""}, "expected a field name for the count"),
        ({"$count": "$n"}, "expected a field name for the count"),
        ({"$count": 1}, "expected a field name for the count"),
        ({"$bucket": {"groupBy": "$v"}}, "'boundaries' is required"),
        ({"$bucket": {"groupBy": "$v", "boundaries": [1]}}, "boundaries must be an array of at least two"),
        ({"$bucket": {"groupBy": "$v", "boundaries": [1, 1]}}, "boundaries must be in ascending order"),
        ({"$bucket": {"groupBy": "$v", "boundaries": [1, "a"]}}, "boundaries must all have the same type"),
        ({"$bucket": {"groupBy": "$v", "boundaries": [1, "$v"]}}, "boundaries: expected a constant, got str"),
        ({"$bucket": {**BUCKET, "default": "$$NOW"}}, "default: expected a constant"),
        ({"$bucket": {**BUCKET, "default": "$$ROOT"}}, "default: expected a constant"),
        ({"$bucket": {**BUCKET, "default": {"$nope": 1}}}, r"default: unknown operator \$nope"),
        ({"$bucket": {**BUCKET, "default": 5}}, "the default must be outside"),
        ({"$bucket": {**BUCKET, "output": 5}}, "output must be an object"),
        (
            {"$bucket": {**BUCKET, "output": {"x": {"$nope": 1}}}},
            r"output: field 'x': unknown accumulator \$nope",
        ),
        ({"$bucketAuto": {"groupBy": "$v", "buckets": 0}}, "buckets must be a positive integer"),
        ({"$bucketAuto": {"groupBy": "$v", "buckets": 1, "granularity": "R5"}}, "unknown operand 'granularity'"),
    ],
    ids=repr,
)
def test_a_group_that_cannot_be_is_refused(stage: dict[str, Any], reason: str) -> None:
    (name,) = stage
    with pytest.raises(OperationFailure, match=rf"^stage 1 \(\{name}\): {reason}"):
        run([stage], [])
