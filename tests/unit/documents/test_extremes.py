"""Values that are too deep or too long are refused with the store's own errors."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import lowtide
from lowtide import DocumentRefused, OperationFailure, WriteError
from lowtide.documents.aggregation.pipeline import DEEPEST

LONG = 10**8000
"""Longer than Python writes out."""


def nested(levels: int) -> Any:
    found: Any = "$zero"
    for _ in range(levels // 2):
        found = {"$add": [found, 1]}
    return found


def test_a_pipeline_is_as_deep_as_it_may_be(store: lowtide.Store) -> None:
    numbers = store["numbers"]
    numbers.insert_one({"_id": 1, "zero": Decimal(0)})
    deep = nested(DEEPEST - 4)
    assert numbers.aggregate([{"$project": {"n": deep}}]).to_list() == [{"_id": 1, "n": (DEEPEST - 4) // 2}]
    for levels in (DEEPEST, 100_000):
        with pytest.raises(OperationFailure, match=f"stage 1.*nests deeper than {DEEPEST} levels"):
            numbers.aggregate([{"$project": {"n": nested(levels)}}])
    itself: dict[str, Any] = {}
    itself["$add"] = [1, itself]
    with pytest.raises(OperationFailure, match="does it contain itself"):
        numbers.aggregate([{"$project": {"n": itself}}])


@pytest.mark.parametrize(
    "update",
    [{"$mul": {"n": 1.5}}, {"$inc": {"n": 1.5}}, {"$push": {"n": 1}}, {"$pop": {"n": 1}}, {"$set": {"n.a": 1}}],
)
def test_an_update_is_refused_in_words_where_a_number_is_long(store: lowtide.Store, update: Any) -> None:
    numbers = store["numbers"]
    numbers.insert_one({"_id": 1, "n": LONG})
    with pytest.raises(WriteError, match="an int of thousands of digits"):
        numbers.update_one({"_id": 1}, update)


@pytest.mark.parametrize(
    "expression",
    [
        {"$toString": "$n"},
        {"$toDouble": "$n"},
        {"$concat": ["$n"]},
        {"$dateAdd": {"startDate": "$$NOW", "unit": "day", "amount": "$n"}},
    ],
)
def test_an_expression_is_refused_in_words_where_a_number_is_long(store: lowtide.Store, expression: Any) -> None:
    numbers = store["numbers"]
    numbers.insert_one({"_id": 1, "n": LONG})
    with pytest.raises(OperationFailure, match="an int of thousands of digits"):
        numbers.aggregate([{"$project": {"x": expression}}]).to_list()


def test_a_call_is_refused_in_words_where_a_number_is_long(store: lowtide.Store) -> None:
    numbers = store["numbers"]
    with pytest.raises(OperationFailure, match="an int of thousands of digits"):
        numbers.find({"a": {"$size": -LONG}})
    with pytest.raises(OperationFailure, match="an int of thousands of digits"):
        numbers.find().skip(-LONG)


def test_a_schema_refuses_in_words_where_a_number_is_long(store: lowtide.Store) -> None:
    numbers = store["numbers"]
    numbers.insert_one({"_id": 1, "n": LONG})
    violations = numbers.set_schema({"properties": {"n": {"maximum": 3}}})
    assert [(_id, "thousands of digits" in each.reason) for _id, each in violations] == [(1, True)]
    with pytest.raises(DocumentRefused, match="an int of thousands of digits"):
        numbers.insert_one({"_id": 2, "n": LONG})
