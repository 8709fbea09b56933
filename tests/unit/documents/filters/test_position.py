"""The element of an array that makes a document match, for the positional ``$``."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.documents.filters import compile_filter


@pytest.mark.parametrize(
    ("filter", "document", "wanted"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 5}, {"a": [4, 5, 5]}, 1),
        ({"a": 5}, {"a": [4]}, None),
        ({"a": [4, 5]}, {"a": [4, 5]}, None),
        ({"a": {"$gt": 4}}, {"a": [1, 7, 9]}, 1),
        ({"a": {"$in": [9]}}, {"a": [1, 7, 9]}, 2),
        ({"a.b": 2}, {"a": [{"b": 1}, {"b": 2}]}, 1),
        ({"a.b": 2}, {"a": {"b": [0, 1, 2]}}, 2),
        ({"a.b": 2}, {"a": [{"b": 1}, {"b": [0, 0, 2]}]}, 1),
        ({"a.1.b": 2}, {"a": [{"b": 1}, {"b": [0, 0, 2]}]}, 2),
        ({"a.b.c": 7}, {"a": [{}, {"b": [{"c": 7}]}]}, 1),
        ({"a.1": 7}, {"a": [6, 7]}, 1),
        ({"a": {"$elemMatch": {"b": 1, "c": 1}}}, {"a": [{"b": 1}, {"c": 1}, {"b": 1, "c": 1}]}, 2),
        ({"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}}, {"a": [0, 5, 2]}, 2),
        ({"x.a": {"$elemMatch": {"$gt": 1}}}, {"x": [{"a": [0]}, {"a": [0, 0, 2]}]}, 1),
        ({"a": {"$all": [{"$elemMatch": {"b": 1}}]}}, {"a": [{}, {"b": 1}]}, 1),
        ({"a": {"$ne": 1}}, {"a": [2, 3]}, None),
        ({"a": {"$size": 2}}, {"a": [2, 3]}, None),
        ({"_id": 1, "a": 3}, {"_id": 1, "a": [2, 3]}, 1),
        ({"a": 3, "_id": 1}, {"_id": 1, "a": [2, 3]}, 1),
        ({"a": 3, "b": 1}, {"a": [2, 3], "b": [1]}, 0),
        ({"$and": [{"a": 3}, {"b": 1}]}, {"a": [2, 3], "b": 1}, 1),
        ({"$or": [{"a": 9}, {"b": 1}]}, {"a": [2, 3], "b": [0, 0, 1]}, 2),
        ({"$nor": [{"a": 9}]}, {"a": [2, 3]}, None),
        ({}, {"a": [2, 3]}, None),
    ],
    ids=str,
)
def test_the_position_is_that_of_the_first_element_that_matched(filter: Any, document: Any, wanted: int | None) -> None:
    assert compile_filter(filter).position(document) == wanted
