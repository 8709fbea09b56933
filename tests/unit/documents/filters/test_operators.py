"""Every operator against a table of cases, including edge cases: null, missing, arrays of arrays, mixed types."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from lowtide.documents.filters import compile_filter

NOON = datetime(2020, 1, 1, 12)
ID = UUID(int=7)
MISSING: Any = object()

# What is asked of the field "a", values of it that match, and values that do not.
CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "a number": (1, [1, 1.0, Decimal("1.00"), [1, 2], [0, 1.0]], [True, "1", 2, None, MISSING, [[1]], {"a": 1}]),
    "zero": (0, [0, -0.0, Decimal("-0")], [False, None, MISSING, "", []]),
    "a large integer": (2**70, [2**70, float(2**70), [2**70]], [2**70 + 1]),
    "a decimal": (Decimal("0.1"), [Decimal("0.10")], [0.1]),
    "a string": ("x", ["x", ["x"]], ["X", "xx", b"x", None]),
    "a boolean": (True, [True, [True]], [1, False, "true"]),
    "bytes": (b"x", [b"x", [b"x"]], ["x", b"xx"]),
    "a UUID": (ID, [ID, [ID]], [ID.bytes, str(ID)]),
    "a datetime": (NOON, [NOON, NOON.replace(tzinfo=UTC)], [NOON + timedelta(microseconds=1), str(NOON)]),
    "a datetime elsewhere": (NOON.replace(tzinfo=timezone(timedelta(hours=2))), [datetime(2020, 1, 1, 10)], [NOON]),
    "null": (None, [None, MISSING, [1, None]], [0, False, "", [], [[None]], {}]),
    "an object": ({"x": 1, "y": 2}, [{"x": 1, "y": 2.0}, [{"x": 1, "y": 2}]], [{"y": 2, "x": 1}, {"x": 1}]),
    "an empty object": ({}, [{}, [{}]], [{"x": 1}, [], None, MISSING]),
    "an array": ([1, 2], [[1, 2], [[1, 2]], [1.0, 2]], [[2, 1], [1, 2, 3], 1, [[[1, 2]]]]),
    "an empty array": ([], [[], [[]], [1, []]], [None, MISSING, [1]]),
    "an array of null": ([None], [[None], [[None]]], [None, [], MISSING]),
    "a tuple": ((1, 2), [[1, 2]], [[1]]),
    "a pattern": (re.compile("^x", re.IGNORECASE), ["xy", "X", ["a", "x"]], ["ax", None, MISSING, 1, b"x", [["x"]]]),
    "$eq": ({"$eq": 1}, [1, [1]], [2, MISSING]),
    "$eq null": ({"$eq": None}, [None, MISSING, [None]], [0, []]),
    "$eq of an object": ({"$eq": {"x": 1}}, [{"x": 1}], [{"x": 2}]),
    "$ne": ({"$ne": 1}, [2, MISSING, None, True, [2], []], [1, 1.0, [1, 2]]),
    "$ne null": ({"$ne": None}, [0, [], [1]], [None, MISSING, [None, 1]]),
    "$ne of an array": ({"$ne": [1]}, [1, [2]], [[1], [[1]]]),
    "$gt": ({"$gt": 5}, [6, 5.5, Decimal(6), [1, 9], 2**70], [5, 4, "6", True, None, MISSING, [], [[9]], NOON]),
    "$gt of infinity": ({"$gt": float("-inf")}, [-(2**70), 0], [float("-inf"), None]),
    "$gte": ({"$gte": 5}, [5, 5.0, 6, [1, 5]], [4, "5", [4]]),
    "$lt": ({"$lt": 5}, [4, -1.5, [9, 1]], [5, "4", None, MISSING, False]),
    "$lte": ({"$lte": 5}, [5, Decimal(5), [9, 5]], [6, None, [6]]),
    "$gt of a string": ({"$gt": "b"}, ["c", "ba", ["c"]], ["b", "a", 9, {}, NOON]),
    "$lt of a string": ({"$lt": "b"}, ["", "aa"], ["b", None, 1]),
    "$gt of a boolean": ({"$gt": False}, [True], [False, 1]),
    "$lt of a datetime": ({"$lt": NOON}, [datetime(2019, 1, 1, tzinfo=UTC)], [NOON, NOON.replace(tzinfo=UTC), 0]),
    "$gt of bytes": ({"$gt": b"b"}, [b"c", b"aa", ID], [b"b", b"", "c"]),
    "$gt null": ({"$gt": None}, [], [None, MISSING, 0, [None]]),
    "$lt null": ({"$lt": None}, [], [None, MISSING, 0]),
    "$gte null": ({"$gte": None}, [None, MISSING, [None]], [0, "", []]),
    "$lte null": ({"$lte": None}, [None, MISSING], [0, False]),
    "$gt of an array": ({"$gt": [1]}, [[2], [1, 0], [[2]]], [[1], [0, 9], 2, []]),
    "$lt of an object": ({"$lt": {"x": 2}}, [{"x": 1}, {}, [{"x": 1}]], [{"x": 2}, {"y": 1}, 1]),
    "a range": ({"$gt": 1, "$lt": 3}, [2, [0, 5]], [1, 3, [0, 1], [3]]),
    "$in": ({"$in": [1, "x", NOON]}, [1.0, "x", NOON.replace(tzinfo=UTC), [7, 1]], [True, 2, None, MISSING, [[1]]]),
    "$in with null": ({"$in": [None, 1]}, [None, MISSING, 1, [None]], [0, []]),
    "$in with booleans": ({"$in": [True]}, [True], [1, False]),
    "$in with arrays": ({"$in": [[1, 2]]}, [[1, 2], [[1, 2]]], [1, [1]]),
    "$in with objects": ({"$in": [{"x": 1}]}, [{"x": 1.0}], [{"x": True}]),
    "$in with patterns": ({"$in": [re.compile("^a"), 1]}, ["ab", 1, ["b", "a"]], ["ba", 2, None, MISSING]),
    "$in of nothing": ({"$in": []}, [], [None, MISSING, 1, []]),
    "$nin": ({"$nin": [1, None]}, [2, [], True], [1, None, MISSING, [1, 2]]),
    "$nin of nothing": ({"$nin": []}, [None, MISSING, 1, []], []),
    "$nin with patterns": ({"$nin": [re.compile("a")]}, ["b", MISSING, 1], ["a", ["b", "a"]]),
    "$exists": ({"$exists": True}, [None, 0, [], {}], [MISSING]),
    "$exists, not": ({"$exists": False}, [MISSING], [None, 0, [], {}]),
    "$exists by number": ({"$exists": 1}, [None], [MISSING]),
    "$type number": ({"$type": "number"}, [1, 1.5, Decimal(1), 2**70, [1]], ["1", True, None, MISSING, [[1]]]),
    "$type int": ({"$type": "int"}, [1, -(2**31)], [2**31, 1.0, True, Decimal(1)]),
    "$type long": ({"$type": "long"}, [2**31, 2**70], [1, 1.0]),
    "$type double": ({"$type": "double"}, [1.0], [1, Decimal(1)]),
    "$type decimal": ({"$type": 19}, [Decimal(1)], [1, 1.0]),
    "$type string": ({"$type": 2}, ["", ["x"]], [b"", 2]),
    "$type object": ({"$type": "object"}, [{}, [{}]], [[], None]),
    "$type array": ({"$type": "array"}, [[], [1], [[1]]], [1, {}, MISSING]),
    "$type binData": ({"$type": "binData"}, [b"", ID], [""]),
    "$type bool": ({"$type": 8.0}, [True, False], [1, 0]),
    "$type date": ({"$type": "date"}, [NOON], ["2020"]),
    "$type null": ({"$type": "null"}, [None, [None]], [MISSING, 0]),
    "$type of several": ({"$type": ["string", 10]}, ["x", None], [1, MISSING]),
    "$type of none that is stored": ({"$type": "objectId"}, [], [1, "x", MISSING]),
    "$mod": ({"$mod": [4, 1]}, [5, 1, 9.7, Decimal("5.5"), [2, 5], 2**70 + 1], [4, "5", True, None, MISSING, -3]),
    "$mod below zero": ({"$mod": [4, -1]}, [-5, -1], [5, 3, -3]),
    "$mod by less than zero": ({"$mod": [-4, 1]}, [5], [-5]),
    "$mod of fractions": ({"$mod": [2.9, 1.9]}, [3], [2]),
    "$mod of infinity": ({"$mod": [2, 0]}, [2], [float("inf"), Decimal("-Infinity")]),
    "$regex": ({"$regex": "b.d"}, ["abcd", ["x", "bcd"]], ["bd", "b\nd", 1, None, MISSING, [["bcd"]]]),
    "$regex with i": ({"$regex": "^AB", "$options": "i"}, ["abc"], ["cab"]),
    "$regex with m": ({"$options": "m", "$regex": "^b"}, ["a\nb"], ["ab"]),
    "$regex with s": ({"$regex": "a.b", "$options": "s"}, ["a\nb"], ["ab"]),
    "$regex with x": ({"$regex": "a b # both", "$options": "x"}, ["ab"], ["a b"]),
    "$regex of a pattern": ({"$regex": re.compile("^a")}, ["ab"], ["ba"]),
    "$regex of a pattern with options": ({"$regex": re.compile("^a"), "$options": "i"}, ["Ab"], ["ba"]),
    "$regex beside others": ({"$regex": "^a", "$ne": "ab"}, ["a"], ["ab", "b"]),
    "$all": ({"$all": [1, 2]}, [[1, 2], [3, 2, 1]], [[1], 1, [[1, 2]], MISSING]),
    "$all of one": ({"$all": [1]}, [1, [1, 2]], [2, [[1]]]),
    "$all of an array": ({"$all": [[1, 2]]}, [[1, 2], [[1, 2], 3]], [[1], [[1]]]),
    "$all of null": ({"$all": [None]}, [None, MISSING, [None]], [1, []]),
    "$all of nothing": ({"$all": []}, [], [[], [1], MISSING]),
    "$all of patterns": ({"$all": [re.compile("^a"), "b"]}, [["ab", "b"]], ["ab", ["b"]]),
    "$all of $elemMatch": (
        {"$all": [{"$elemMatch": {"x": 1, "y": 1}}, {"$elemMatch": {"x": 2}}]},
        [[{"x": 1, "y": 1}, {"x": 2}]],
        [[{"x": 1}, {"x": 2, "y": 1}], [{"x": 1, "y": 1}]],
    ),
    "$elemMatch of values": ({"$elemMatch": {"$gt": 1, "$lt": 3}}, [[2], [0, 2.5]], [[0, 5], 2, [[2]], [], MISSING]),
    "$elemMatch of null": ({"$elemMatch": {"$eq": None}}, [[None], [1, None]], [None, MISSING, []]),
    "$elemMatch with $ne": ({"$elemMatch": {"$ne": 1}}, [[1, 2], [None], [[1]]], [[1], [1, 1.0], [], 2]),
    "$elemMatch with $not": ({"$elemMatch": {"$not": {"$gt": 1}, "$type": "number"}}, [[1], [5, 0]], [[2], ["x"]]),
    "$elemMatch with $in": ({"$elemMatch": {"$in": [1, [2]]}}, [[1], [[2]]], [1, [2]]),
    "$elemMatch with $nin": ({"$elemMatch": {"$nin": [1]}}, [[1, 2]], [[1], []]),
    "$elemMatch with $exists": ({"$elemMatch": {"$exists": True}}, [[None], [1]], [[], 1]),
    "$elemMatch with $exists, not": ({"$elemMatch": {"$exists": False}}, [], [[], [None], 1, MISSING]),
    "$elemMatch with $size": ({"$elemMatch": {"$size": 2}}, [[[1, 2]]], [[1, 2], [[1]]]),
    "$elemMatch with $all": ({"$elemMatch": {"$all": [1]}}, [[1, 2]], [[[1]], 1]),
    "$elemMatch in $elemMatch": ({"$elemMatch": {"$elemMatch": {"$gt": 1}}}, [[[2]], [5, [0, 3]]], [[2], [[1]]]),
    "$elemMatch with $regex": ({"$elemMatch": {"$regex": "A", "$options": "i"}}, [["b", "a"]], ["a", [["a"]]]),
    "$elemMatch of objects": (
        {"$elemMatch": {"x": 1, "y": {"$gt": 1}}},
        [[{"x": 1, "y": 2}], [5, {"x": [0, 1], "y": 2}]],
        [[{"x": 1}, {"y": 2}], {"x": 1, "y": 2}, [[{"x": 1, "y": 2}]], [1]],
    ),
    "$elemMatch of a missing field": ({"$elemMatch": {"x": None}}, [[{}], [[1]], [{"x": None}]], [[1], [{"x": 1}], []]),
    "$elemMatch by index": ({"$elemMatch": {"0": 1}}, [[[1]], [{"0": 1}]], [[1], [[2, 1]]]),
    "$elemMatch of everything": ({"$elemMatch": {}}, [[{}], [[]], [{"x": 1}]], [[], [1], MISSING]),
    "$elemMatch with $or": ({"$elemMatch": {"$or": [{"x": 1}, {"y": 1}]}}, [[{"y": 1}]], [[{"x": 2}], {"x": 1}]),
    "$elemMatch with $and later": ({"$elemMatch": {"x": 1, "$and": [{"y": 1}]}}, [[{"x": 1, "y": 1}]], [[{"x": 1}]]),
    "$size": ({"$size": 2}, [[1, 2], [[], []]], [[1], 2, "ab", [[1, 2]], {"0": 1, "1": 2}, MISSING]),
    "$size of nothing": ({"$size": 0}, [[]], [MISSING, None, [[]], [None]]),
    "$size as a double": ({"$size": 1.0}, [[1]], [[]]),
    "$not": ({"$not": {"$gt": 5}}, [5, "x", MISSING, None, []], [6, [1, 6]]),
    "$not of several": ({"$not": {"$gt": 1, "$lt": 3}}, [1, 3, MISSING, [1]], [2, [0, 5]]),
    "$not of a pattern": ({"$not": re.compile("^a")}, ["b", 1, MISSING], ["a", ["b", "a"]]),
    "$not of $regex": ({"$not": {"$regex": "^A", "$options": "i"}}, ["b"], ["a"]),
    "$not of $not": ({"$not": {"$not": {"$eq": 1}}}, [1, [1]], [2, MISSING]),
    "$not of $elemMatch": ({"$not": {"$elemMatch": {"$gt": 1}}}, [[1], 5, MISSING], [[2]]),
    "$comment": ({"$gt": 1, "$comment": "large"}, [2], [1]),
}


def _documents(value: Any) -> dict[str, Any]:
    return {"z": 0} if value is MISSING else {"z": 0, "a": value}


@pytest.mark.parametrize(
    ("asked", "value", "wanted"),
    [
        pytest.param(asked, value, wanted, id=f"{name}-{'missing' if value is MISSING else value!r}-{wanted}")
        for name, (asked, yes, no) in CASES.items()
        for wanted, values in ((True, yes), (False, no))
        for value in values
    ],
)
def test_a_value_matches_or_does_not(asked: Any, value: Any, wanted: bool) -> None:
    document = _documents(value)
    assert compile_filter({"a": asked}).matches(document) is wanted
    assert compile_filter({"o.a": asked}).matches({"o": document}) is wanted, "in an object, it is the same"
    assert compile_filter({"l.a": asked}).matches({"l": [document]}) is wanted, "in an array of one, it is the same"


# Filters of several fields or of paths, documents that match, and documents that do not.
FILTERS: list[tuple[dict[str, Any] | None, list[dict[str, Any]], list[dict[str, Any]]]] = [
    (None, [{}, {"a": 1}], []),
    ({}, [{}, {"a": 1}], []),
    ({"$comment": "all"}, [{}, {"a": 1}], []),
    ({"a": 1, "b": 2}, [{"a": 1, "b": 2}], [{"a": 1}, {"b": 2}, {}]),
    ({"a": 1, "b": 2, "c": 3}, [{"a": 1, "b": 2, "c": 3}], [{"a": 1, "b": 2, "c": 4}, {"c": 3}]),
    ({"$and": [{"a": 1}, {"b": 2}]}, [{"a": 1, "b": 2}], [{"a": 1}]),
    ({"$or": [{"a": 1}, {"b": 2}]}, [{"a": 1}, {"b": 2}], [{"a": 2}, {}]),
    ({"$or": [{"a": 1}], "b": 2}, [{"a": 1, "b": 2}], [{"a": 1}, {"b": 2}]),
    ({"$or": [{"a": 1}, {}]}, [{}, {"a": 2}], []),
    ({"$nor": [{"a": 1}, {"b": 2}]}, [{}, {"a": 2}], [{"a": 1}, {"b": 2}, {"a": [1]}]),
    ({"$nor": [{"a": None}]}, [{"a": 1}], [{}, {"a": None}]),
    ({"$and": [{"$or": [{"a": 1}, {"a": 2}]}, {"$nor": [{"b": 1}]}]}, [{"a": 2}], [{"a": 2, "b": 1}, {"a": 3}]),
    ({"a.b": 1}, [{"a": {"b": 1}}, {"a": [{"b": 1}]}, {"a": [5, {"b": [1]}]}], [{"a": [[{"b": 1}]]}, {"a.b": 1}]),
    ({"a.b": None}, [{}, {"a": 1}, {"a": {}}, {"a": [{}]}], [{"a": []}, {"a": [1]}, {"a": [[]]}, {"a": {"b": 1}}]),
    ({"a.b": {"$ne": None}}, [{"a": {"b": 1}}, {"a": []}, {"a": [1]}], [{}, {"a": [{"b": 1}, {}]}]),
    ({"a.b": {"$exists": False}}, [{}, {"a": []}, {"a": [1]}, {"a": [{}]}], [{"a": [{}, {"b": 1}]}]),
    ({"a.b": {"$exists": True}}, [{"a": [{}, {"b": None}]}], [{}, {"a": []}, {"a": [{}]}]),
    ({"a.0": 1}, [{"a": [1, 2]}, {"a": {"0": 1}}, {"a": [{"0": 1}]}], [{"a": [2, 1]}, {"a": [[1]]}, {"a": 1}]),
    ({"a.0": [1]}, [{"a": [[1]]}, {"a": {"0": [1]}}], [{"a": [1]}]),
    ({"a.0.b": 1}, [{"a": [{"b": 1}]}, {"a": [{"b": [1]}]}, {"a": [[{"b": 1}]]}], [{"a": [{}, {"b": 1}]}]),
    ({"a.1.0": 4}, [{"a": [1, [4]]}, {"a": {"1": [4]}}], [{"a": [[4], 1]}]),
    ({"a.00": 1}, [{"a": {"00": 1}}], [{"a": [1]}]),
    ({"a.b.c": {"$gt": 1}}, [{"a": [{"b": [{"c": 2}]}]}, {"a": {"b": {"c": [0, 3]}}}], [{"a": [{"b": [{"c": 1}]}]}]),
    ({"a.b": {"$size": 1}}, [{"a": {"b": [1]}}, {"a": [{"b": 1}, {"b": [2]}]}], [{"a": [{"b": 1}]}]),
    ({"a.b": {"$elemMatch": {"$gt": 1}}}, [{"a": [{"b": [0, 2]}]}], [{"a": [{"b": 2}]}]),
    ({"a.0": {"$elemMatch": {"$gt": 1}}}, [{"a": [[2]]}], [{"a": [2]}]),
    ({"": 1}, [{"": 1}], [{}]),
]


@pytest.mark.parametrize(("filter", "yes", "no"), FILTERS, ids=repr)
def test_a_document_matches_or_does_not(filter: Any, yes: list[Any], no: list[Any]) -> None:
    matches = compile_filter(filter).matches
    assert [matches(document) for document in yes] == [True] * len(yes)
    assert [matches(document) for document in no] == [False] * len(no)


def test_what_is_done_to_an_operand_later_changes_no_filter() -> None:
    wanted = [1, {"x": 2}]
    compiled = compile_filter({"a": wanted})
    wanted.append(3)
    assert compiled.matches({"a": [1, {"x": 2}]})
