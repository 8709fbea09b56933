"""Filters that are refused: the error names the operator and the place."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lowtide.documents.filters import compile_filter
from lowtide.errors import InvalidDocument, OperationFailure

PATTERN = re.compile("a")
REFUSED: list[tuple[Any, str]] = [
    ({"a": {"$foo": 1}}, "$foo at 'a'"),
    ({"a.b": {"$gt": 1, "$foo": 1}}, "$foo at 'a.b'"),
    ({"a": {"$not": {"$foo": 1}}}, "$foo at 'a'"),
    ({"a": {"$elemMatch": {"$foo": 1}}}, "$foo at 'a'"),
    ({"a": {"$elemMatch": {"b": {"$foo": 1}}}}, "$foo at 'b'"),
    ({"$or": [{"a": 1}, {"b": {"$foo": 1}}]}, "$foo at 'b'"),
    ({"$gt": 1}, "$gt: expected a field name here"),
    ({"$not": {"a": 1}}, "$not: expected a field name here"),
    ({"$and": [{"$or": [{"$in": [1]}]}]}, "$in at '$and.0.$or.0'"),
    ({"$expr": {"$gt": ["$a", "$b"]}}, "$expr: not supported"),
    ({"$where": "1"}, "$where: not supported"),
    ({"$foo": 1}, "$foo: not supported"),
    ({"a": {"$and": [{"b": 1}]}}, "$and at 'a'"),
    ({"a": {"b": 1, "$gt": 2}}, "$gt at 'a'"),
    ({"a": {"$gt": 2, "b": 1}}, "$gt at 'a'"),
    ({"a": {"$gt": 2, 5: 1}}, "$gt at 'a'"),
    ({"$and": []}, "$and"),
    ({"$or": {}}, "$or"),
    ({"$or": {"a": 1}}, "$or"),
    ({"$nor": [1]}, "$nor: element 0 must be a filter, a dict, got 1"),
    ({"$and": [{}, None]}, "$and: element 1 must be a filter, a dict, got None"),
    ({"a": {"$in": 1}}, "$in at 'a'"),
    ({"a": {"$in": {"b": 1}}}, "$in at 'a'"),
    ({"a": {"$in": "text"}}, "$in at 'a'"),
    ({"a": {"$nin": None}}, "$nin at 'a'"),
    ({"a": {"$in": [{"$gt": 1}]}}, "$in at 'a'"),
    ({"a": {"$not": 1}}, "$not at 'a'"),
    ({"a": {"$not": {}}}, "$not at 'a'"),
    ({"a": {"$not": {"b": 1}}}, "$not at 'a'"),
    ({"a": {"$not": "x"}}, "$not at 'a'"),
    ({"a": {"$ne": PATTERN}}, "$ne at 'a'"),
    ({"a": {"$eq": PATTERN}}, "$eq at 'a'"),
    ({"a": {"$gt": PATTERN}}, "$gt at 'a'"),
    ({"a": {"$type": "text"}}, "$type at 'a'"),
    ({"a": {"$type": 99}}, "$type at 'a'"),
    ({"a": {"$type": True}}, "$type at 'a'"),
    ({"a": {"$type": []}}, "$type at 'a'"),
    ({"a": {"$type": ["int", None]}}, "$type at 'a'"),
    ({"a": {"$mod": [0, 1]}}, "$mod at 'a'"),
    ({"a": {"$mod": [0.5, 1]}}, "$mod at 'a'"),
    ({"a": {"$mod": [2]}}, "$mod at 'a'"),
    ({"a": {"$mod": [2, 1, 0]}}, "$mod at 'a'"),
    ({"a": {"$mod": 2}}, "$mod at 'a'"),
    ({"a": {"$mod": ["2", 1]}}, "$mod at 'a'"),
    ({"a": {"$mod": [float("inf"), 1]}}, "$mod at 'a'"),
    ({"a": {"$mod": [True, 1]}}, "$mod at 'a'"),
    ({"a": {"$size": -1}}, "$size at 'a'"),
    ({"a": {"$size": 1.5}}, "$size at 'a'"),
    ({"a": {"$size": "1"}}, "$size at 'a'"),
    ({"a": {"$all": 1}}, "$all at 'a'"),
    ({"a": {"$all": [{"$gt": 1}]}}, "$all at 'a'"),
    ({"a": {"$all": [{"$elemMatch": {"b": 1}}, 1]}}, "$all at 'a'"),
    ({"a": {"$elemMatch": 1}}, "$elemMatch at 'a'"),
    ({"a": {"$elemMatch": [1]}}, "$elemMatch at 'a'"),
    ({"a": {"$elemMatch": {"$gt": 1, "b": 1}}}, "$gt at 'a'"),
    ({"a": {"$regex": "("}}, "$regex at 'a'"),
    ({"a": {"$regex": 1}}, "$regex at 'a'"),
    ({"a": {"$regex": re.compile(b"a")}}, "$regex at 'a'"),
    ({"a": re.compile(b"a")}, "$regex at 'a'"),
    ({"a": {"$regex": "a", "$options": "z"}}, "$options at 'a'"),
    ({"a": {"$regex": "a", "$options": 1}}, "$options at 'a'"),
    ({"a": {"$regex": re.compile("a", re.IGNORECASE), "$options": "m"}}, "$options at 'a'"),
    ({"a": {"$options": "i"}}, "$options at 'a'"),
    ({1: 2}, "field names must be strings"),
    ([("a", 1)], "a filter must be a dict"),
    ("a", "a filter must be a dict"),
]


@pytest.mark.parametrize(("filter", "message"), REFUSED, ids=repr)
def test_it_is_refused_by_name_and_place(filter: Any, message: str) -> None:
    with pytest.raises(OperationFailure, match=re.escape(message)):
        compile_filter(filter)


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, 1j, [{"b": float("nan")}], "\ud800", ["\ud800"]], ids=ascii)
@pytest.mark.parametrize("asked", [lambda value: value, lambda value: {"$gt": value}, lambda value: {"$in": [value]}])
def test_values_that_no_document_can_hold_are_refused_by_place(value: Any, asked: Any) -> None:
    with pytest.raises(InvalidDocument, match="'a"):
        compile_filter({"a": asked(value)})


def test_a_filter_that_contains_itself_is_refused() -> None:
    branches: list[Any] = []
    branches.append({"$or": branches})
    nested: dict[str, Any] = {}
    nested["$not"] = nested
    for filter in ({"$or": branches}, {"a": nested}):
        with pytest.raises(OperationFailure, match="contain itself"):
            compile_filter(filter)
