"""The operators that change arrays, case by case."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lowtide.documents.updates import compile_update
from lowtide.errors import OperationFailure, WriteError
from tests.unit.documents.updates.updating import NOW, exact, updated

CASES: list[tuple[list[Any] | None, str, Any, list[Any] | None]] = [
    # $push
    (None, "$push", 1, [1]),
    ([], "$push", 1, [1]),
    ([1], "$push", [2, 3], [1, [2, 3]]),
    ([1], "$push", None, [1, None]),
    ([1], "$push", {"x": 1}, [1, {"x": 1}]),
    ([1], "$push", {"$each": [2, 3]}, [1, 2, 3]),
    ([1], "$push", {"$each": []}, [1]),
    (None, "$push", {"$each": []}, []),
    ([1, 2], "$push", {"$each": [8, 9], "$position": 0}, [8, 9, 1, 2]),
    ([1, 2], "$push", {"$each": [8, 9], "$position": 1}, [1, 8, 9, 2]),
    ([1, 2], "$push", {"$each": [8], "$position": -1}, [1, 8, 2]),
    ([1, 2], "$push", {"$each": [8], "$position": -9}, [8, 1, 2]),
    ([1, 2], "$push", {"$each": [8], "$position": 99}, [1, 2, 8]),
    ([1, 2], "$push", {"$each": [3], "$slice": 2}, [1, 2]),
    ([1, 2], "$push", {"$each": [3], "$slice": -2}, [2, 3]),
    ([1, 2], "$push", {"$each": [3], "$slice": 0}, []),
    ([1, 2], "$push", {"$each": [3], "$slice": -9}, [1, 2, 3]),
    ([1, 2, 3], "$push", {"$each": [], "$slice": -2.0}, [2, 3]),
    ([3, 1], "$push", {"$each": [2], "$sort": 1}, [1, 2, 3]),
    ([3, 1], "$push", {"$each": [2], "$sort": -1, "$slice": 2}, [3, 2]),
    ([True, "b", [1], None, 2.5], "$push", {"$each": [{}, 10], "$sort": 1}, [None, 2.5, 10, "b", {}, [1], True]),
    ([1, 2], "$push", {"$each": [0], "$position": 1, "$sort": 1, "$slice": -2}, [1, 2]),
    ([{"n": 2}, {"n": 1}], "$push", {"$each": [], "$sort": {"n": 1}}, [{"n": 1}, {"n": 2}]),
    ([{"n": 1}, 7, {"n": None}], "$push", {"$each": [{}], "$sort": {"n": 1}}, [7, {"n": None}, {}, {"n": 1}]),
    ([{"n": 1}, 7, {"n": None}], "$push", {"$each": [{}], "$sort": {"n": -1}}, [{"n": 1}, 7, {"n": None}, {}]),
    (
        [{"n": 1, "m": {"k": 1}}, {"n": 2, "m": {"k": 2}}],
        "$push",
        {"$each": [{"n": 3, "m": {"k": 1}}], "$sort": {"m.k": -1, "n": -1}},
        [{"n": 2, "m": {"k": 2}}, {"n": 3, "m": {"k": 1}}, {"n": 1, "m": {"k": 1}}],
    ),
    ([{"n": [1, 9]}, {"n": [1, 2]}], "$push", {"$each": [], "$sort": {"n.1": 1}}, [{"n": [1, 2]}, {"n": [1, 9]}]),
    # $addToSet
    (None, "$addToSet", 1, [1]),
    ([1], "$addToSet", 1, [1]),
    ([1], "$addToSet", 1.0, [1]),
    ([1], "$addToSet", True, [1, True]),
    ([1, 1], "$addToSet", 2, [1, 1, 2]),
    ([1], "$addToSet", [1], [1, [1]]),
    ([[1]], "$addToSet", [1.0], [[1]]),
    ([{"x": 1, "y": 2}], "$addToSet", {"y": 2, "x": 1}, [{"x": 1, "y": 2}, {"y": 2, "x": 1}]),
    ([1], "$addToSet", {"$each": [2, 1, 2.0, 3]}, [1, 2, 3]),
    ([1], "$addToSet", {"$each": [1]}, [1]),
    (None, "$addToSet", {"$each": []}, []),
    # $pop
    ([1, 2, 3], "$pop", 1, [1, 2]),
    ([1, 2, 3], "$pop", -1, [2, 3]),
    ([1], "$pop", 1.0, []),
    ([], "$pop", 1, []),
    (None, "$pop", -1, None),
    # $pullAll
    ([1, 2, 1.0, 3], "$pullAll", [1, 3], [2]),
    ([1, 2], "$pullAll", [], [1, 2]),
    ([1, [2], {"x": 1}], "$pullAll", [[2], {"x": 1}], [1]),
    (None, "$pullAll", [1], None),
    # $pull
    ([1, 2, 1.0, True], "$pull", 1, [2, True]),
    ([1, None], "$pull", None, [1]),
    ([1, 2], "$pull", 5, [1, 2]),
    (None, "$pull", 5, None),
    ([], "$pull", {"$gt": 1}, []),
    ([[1, 2], [2, 1], 1], "$pull", [1, 2], [[2, 1], 1]),
    ([1, 5, 9, "x"], "$pull", {"$gte": 5}, [1, "x"]),
    ([1, 5, 9, "x"], "$pull", {"$in": [1, "x"]}, [5, 9]),
    ([1, 5, 9], "$pull", {"$ne": 5}, [5]),
    ([1, 5, 9], "$pull", {"$gt": 1, "$lt": 9}, [1, 9]),
    (["ab", "b"], "$pull", re.compile("^a"), ["b"]),
    (["ab", "b"], "$pull", {"$regex": "^a"}, ["b"]),
    ([{"n": 1, "m": 2}, {"n": 1}, 1], "$pull", {"n": 1, "m": 2}, [{"n": 1}, 1]),
    ([{"m": 2, "n": 1}, {"n": 1}, 1], "$pull", {"n": 1, "m": 2}, [{"n": 1}, 1]),
    ([{"n": 1}, {"n": 8}, 9], "$pull", {"n": {"$gte": 5}}, [{"n": 1}, 9]),
    ([{"n": {"k": 1}}, {"n": {"k": 2}}], "$pull", {"n.k": 2}, [{"n": {"k": 1}}]),
    ([{"n": [1, 2]}, {"n": [3]}], "$pull", {"n": {"$elemMatch": {"$gt": 2}}}, [{"n": [1, 2]}]),
    ([{"n": 1}, {"n": 2}, {"n": 3}], "$pull", {"$or": [{"n": 1}, {"n": 3}]}, [{"n": 2}]),
    ([{"n": 1}, {}, 5, None], "$pull", {}, [5, None]),
]


@pytest.mark.parametrize(("before", "operator", "operand", "after"), CASES)
def test_an_array_changes_as_mongodb_has_it(
    before: list[Any] | None, operator: str, operand: Any, after: list[Any] | None
) -> None:
    document = {"_id": 1} if before is None else {"_id": 1, "a": before}
    expected = {"_id": 1} if after is None else {"_id": 1, "a": after}
    assert exact(updated(document, {operator: {"a": operand}})) == exact(expected)


@pytest.mark.parametrize(("before", "operator", "operand", "after"), CASES)
def test_an_array_inside_an_array_changes_alike(
    before: list[Any] | None, operator: str, operand: Any, after: list[Any] | None
) -> None:
    document = {"_id": 1, "x": [0, {} if before is None else {"a": before}]}
    expected = {"_id": 1, "x": [0, {} if after is None else {"a": after}]}
    assert exact(updated(document, {operator: {"x.1.a": operand}})) == exact(expected)


@pytest.mark.parametrize("value", [None, 5, "x", {"0": 1}])
@pytest.mark.parametrize(
    ("operator", "operand"),
    [
        ("$push", 1),
        ("$push", {"$each": []}),
        ("$addToSet", 1),
        ("$pop", 1),
        ("$pullAll", [1]),
        ("$pull", 1),
        ("$pull", {"$gt": 1}),
        ("$pull", {"n": 1}),
    ],
)
def test_what_is_no_array_is_refused(value: Any, operator: str, operand: Any) -> None:
    update = compile_update({operator: {"x.a": operand}})
    with pytest.raises(WriteError, match=rf"field 'x.a': \{operator} requires an array, but the field is .*_id 7"):
        update.apply({"_id": 7, "x": {"a": value}}, now=NOW)


@pytest.mark.parametrize(("operator", "operand"), [("$pop", 1), ("$pull", 1), ("$pull", {"n": 1}), ("$pullAll", [1])])
def test_taking_away_needs_a_path_that_could_be_there(operator: str, operand: Any) -> None:
    for value in (5, None, "x", [1]):
        for path in ("x.a", "x.a.b"):
            with pytest.raises(WriteError, match=r"field 'x': cannot access or create field 'a'.*_id 7"):
                compile_update({operator: {path: operand}}).apply({"_id": 7, "x": value}, now=NOW)
    for document, path in (({"x": {}}, "x.a.b"), ({"x": {"b": 1}}, "x.a"), ({"x": [1]}, "x.5"), ({}, "x.a")):
        assert updated(document, {operator: {path: operand}}) is document


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"$push": {"a": {"$each": 5}}}, r"\$each of 'a' must be an array, got int 5"),
        ({"$push": {"a": {"$slice": 5}}}, r"require \$each"),
        ({"$push": {"a": {"$each": [], "$limit": 5}}}, r"unknown modifier '\$limit'"),
        ({"$push": {"a": {"$each": [], "x": 5}}}, "unknown modifier 'x'"),
        ({"$push": {"a": {"$each": [], "$slice": "x"}}}, r"\$slice of 'a' must be an int"),
        ({"$push": {"a": {"$each": [], "$slice": 1.5}}}, r"\$slice of 'a' must be an int"),
        ({"$push": {"a": {"$each": [], "$position": True}}}, r"\$position of 'a' must be an int"),
        ({"$push": {"a": {"$each": [], "$sort": 2}}}, r"\$sort of 'a' must be 1, -1"),
        ({"$push": {"a": {"$each": [], "$sort": True}}}, r"\$sort of 'a' must be 1, -1"),
        ({"$push": {"a": {"$each": [], "$sort": {}}}}, r"\$sort of 'a' must be 1, -1"),
        ({"$push": {"a": {"$each": [], "$sort": {"n": "asc"}}}}, r"\$sort of 'a' must be 1, -1"),
        ({"$push": {"a": {"$each": [], "$sort": {"n.": 1}}}}, r"\$sort of 'a' requires field paths"),
        ({"$addToSet": {"a": {"$each": 5}}}, r"\$each of 'a' must be an array"),
        ({"$addToSet": {"a": {"$each": [], "$slice": 5}}}, r"the only modifier is \$each"),
        ({"$addToSet": {"a": {"$in": [1]}}}, r"require \$each"),
        ({"$pop": {"a": 2}}, r"\$pop of 'a' must be 1"),
        ({"$pop": {"a": True}}, r"\$pop of 'a' must be 1"),
        ({"$pop": {"a": "x"}}, r"\$pop of 'a' must be 1"),
        ({"$pullAll": {"a": 5}}, r"\$pullAll of 'a' must be an array"),
        ({"$pull": {"a": {"$near": 5}}}, r"\$near"),
    ],
)
def test_an_operand_of_the_wrong_kind_is_refused_before_any_document(update: dict[str, Any], message: str) -> None:
    with pytest.raises(OperationFailure, match=message):
        compile_update(update)
