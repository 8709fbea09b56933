"""Comparisons, boolean operators and conditions of expressions."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from lowtide.errors import OperationFailure
from tests.unit.documents.aggregation.piping import NOTHING, same, value_of

CASES: list[tuple[Any, Any]] = [
    ({"$eq": [1, 1.0]}, True),
    ({"$eq": [1, True]}, False),
    ({"$eq": [Decimal("1.50"), 1.5]}, True),
    ({"$eq": ["$missing", None]}, False),
    ({"$eq": ["$missing", "$gone"]}, True),
    ({"$eq": [[1, 2], [1, 2.0]]}, True),
    ({"$eq": [datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)]}, True),
    ({"$ne": ["a", "b"]}, True),
    ({"$ne": [1, 1]}, False),
    ({"$gt": ["$missing", None]}, False),
    ({"$lt": ["$missing", None]}, True),
    ({"$gt": ["a", 10**9]}, True),
    ({"$gte": [2, 2]}, True),
    ({"$lt": [[1], [1, 1]]}, True),
    ({"$lte": [{"a": 1}, {"a": 0}]}, False),
    ({"$cmp": [1, 2]}, -1),
    ({"$cmp": [2, 2.0]}, 0),
    ({"$cmp": [True, "x"]}, 1),
    ({"$and": []}, True),
    ({"$and": [1, "", []]}, True),
    ({"$and": [True, 0.0]}, False),
    ({"$and": [True, None]}, False),
    ({"$or": []}, False),
    ({"$or": [0, Decimal(0), "$missing", None, False]}, False),
    ({"$or": [False, {}]}, True),
    ({"$not": [0]}, True),
    ({"$not": "$missing"}, True),
    ({"$not": [""]}, False),
    ({"$cond": [True, 1, 2]}, 1),
    ({"$cond": {"if": {"$gt": [1, 2]}, "then": "yes", "else": "no"}}, "no"),
    ({"$cond": [False, 1, "$$REMOVE"]}, NOTHING),
    ({"$cond": [True, 1, {"$divide": [1, 0]}]}, 1),
    ({"$ifNull": [None, "$missing", 3]}, 3),
    ({"$ifNull": [0, 3]}, 0),
    ({"$ifNull": [None, "$missing"]}, NOTHING),
    ({"$switch": {"branches": [{"case": 0, "then": 1}, {"case": 1, "then": 2}], "default": 3}}, 2),
    ({"$switch": {"branches": [{"case": False, "then": 1}], "default": "d"}}, "d"),
    ({"$switch": {"branches": [{"case": False, "then": 1}], "default": None}}, None),
]


@pytest.mark.parametrize(("expression", "wanted"), CASES, ids=repr)
def test_a_condition_gives_what_it_should(expression: Any, wanted: Any) -> None:
    assert same(value_of(expression), wanted)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ({"$eq": [1]}, r"\$eq: expected 2 operands, got 1"),
        ({"$cond": [1, 2]}, r"\$cond: expected 3 operands, got 2"),
        ({"$cond": {"if": 1, "then": 2}}, r"\$cond: 'else' is required"),
        ({"$cond": {"if": 1, "then": 2, "else": 3, "or": 4}}, r"\$cond: unknown operand 'or'"),
        ({"$ifNull": [1]}, r"\$ifNull: expected at least 2 operands"),
        ({"$switch": {"branches": []}}, r"\$switch: branches must be a non-empty array"),
        ({"$switch": {"branches": [{"case": 1}]}}, r"\$switch: branch 0: 'then' is required"),
        ({"$switch": {"branches": [{"case": 0, "then": 1}]}}, r"\$switch: no branch matches"),
    ],
    ids=repr,
)
def test_a_condition_that_cannot_be_is_refused(expression: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=reason):
        value_of(expression)
