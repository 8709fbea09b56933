"""Points: filters that ask for one value of one field, and are answered without a plan."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import lowtide
from lowtide.documents.plans.point import point_of
from lowtide.values.ordering import encode


@pytest.mark.parametrize(
    ("filter", "path", "value"),
    [
        *((7, "_id", 7), ("x", "_id", "x"), ({"_id": b"x"}, "_id", b"x"), ({"a": 1}, "a", 1), ({"a": True}, "a", True)),
        *(({"a": 1.0}, "a", 1), ({"a": UUID(int=1)}, "a", UUID(int=1)), ({"a b": ""}, "a b", "")),
        ({"a": datetime(2020, 1, 1, tzinfo=UTC)}, "a", datetime(2020, 1, 1)),
    ],
    ids=str,
)
def test_one_value_of_one_field(filter: Any, path: str, value: Any) -> None:
    point = point_of(filter)
    assert point is not None
    assert (point.path, point.encoded) == (path, encode(value))
    assert point.is_of({path: value}) or type(point.value) is datetime
    assert not point.is_of({path: [value]})
    assert not point.is_of({path: "another"})
    assert not point.is_of({})


@pytest.mark.parametrize(
    "filter",
    [
        *(None, {}, {"a": None}, {"a": [1]}, {"a": {"b": 1}}, {"a": {"$gt": 1}}, {"a": 1, "b": 2}, {"a.b": 1}),
        *({"$or": [{"a": 1}]}, {"$comment": "x"}, {"a": re.compile("x")}, {"a": float("nan")}, {"a": "\ud800"}),
        *({"a": "x" * 300}, {"_id": "x" * 250}, {"_id": 1.0}, {"_id": True}, True, 1.5, {1: 1}, ["a"]),
    ],
    ids=ascii,
)
def test_everything_else_is_left_to_the_planner(filter: Any) -> None:
    assert point_of(filter) is None


VALUES: list[Any] = [None, 1, 1.5, Decimal("1.5"), True, "x", "y" * 280, [1, 2], [], ["x"], {"b": 1}, b"x", 2**70]


@pytest.mark.parametrize("options", [None, {}, {"unique": True}, {"sparse": True}], ids=str)
def test_a_point_finds_what_a_scan_finds(store: lowtide.Store, options: Any) -> None:
    found = store["found"]
    some = [{"_id": number, "a": each} for number, each in enumerate(VALUES)]
    if options == {"unique": True}:
        some = [each for each in some if each["a"] not in (Decimal("1.5"), [1, 2], ["x"])]
    found.insert_many([*some, {"_id": "none"}] if options != {"unique": True} else some)
    if options is not None:
        found.create_index("a", **options)
    for value in (*VALUES, 2, 1.0, False, "z", datetime(2020, 1, 1), "y" * 281):
        expected = found.find_one({"a": value}, hint="$natural")
        assert found.find_one({"a": value}) == expected, value
        changed = found.find_one_and_update({"a": value}, {"$set": {"seen": 1}}, {"seen": 0})
        assert changed == expected, value
        assert found.delete_one({"a": value}).deleted_count == (expected is not None), value
        if expected is not None:
            found.insert_one(expected)
