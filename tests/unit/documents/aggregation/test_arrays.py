"""The array operators of expressions, and those between arrays and objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import OperationFailure
from lowtide.values.values import place
from tests.unit.documents.aggregation.piping import NOTHING, same, value_of

DOCUMENT = {"n": [1, 2, 3], "words": ["b", "a"], "objects": [{"x": 1}, {"x": 2, "y": 3}, 5], "o": {"a": 1, "b": 2}}

CASES: list[tuple[Any, Any]] = [
    ({"$size": "$n"}, 3),
    ({"$size": [[1, [2]]]}, 2),
    ({"$arrayElemAt": ["$n", 0]}, 1),
    ({"$arrayElemAt": ["$n", -1]}, 3),
    ({"$arrayElemAt": ["$n", 1.0]}, 2),
    ({"$arrayElemAt": ["$n", 3]}, NOTHING),
    ({"$arrayElemAt": ["$n", -4]}, NOTHING),
    ({"$arrayElemAt": [None, 0]}, None),
    ({"$first": "$n"}, 1),
    ({"$last": "$n"}, 3),
    ({"$first": [[]]}, NOTHING),
    ({"$last": "$missing"}, None),
    ({"$slice": ["$n", 2]}, [1, 2]),
    ({"$slice": ["$n", -2]}, [2, 3]),
    ({"$slice": ["$n", 1, 1]}, [2]),
    ({"$slice": ["$n", -9, 1]}, [1]),
    ({"$slice": ["$n", 9, 1]}, []),
    ({"$slice": ["$n", 0]}, []),
    ({"$slice": ["$missing", 1]}, None),
    ({"$concatArrays": ["$n", "$words"]}, [1, 2, 3, "b", "a"]),
    ({"$concatArrays": ["$n", None]}, None),
    ({"$concatArrays": []}, []),
    ({"$filter": {"input": "$n", "cond": {"$gt": ["$$this", 1]}}}, [2, 3]),
    ({"$filter": {"input": "$n", "as": "m", "cond": {"$gte": ["$$m", "$o.b"]}, "limit": 1}}, [2]),
    ({"$filter": {"input": None, "cond": True}}, None),
    ({"$map": {"input": "$n", "in": {"$multiply": ["$$this", 2]}}}, [2, 4, 6]),
    ({"$map": {"input": "$objects", "as": "o", "in": "$$o.x"}}, [1, 2, None]),
    ({"$map": {"input": "$missing", "in": 1}}, None),
    (
        {
            "$map": {
                "input": "$n",
                "as": "a",
                "in": {"$map": {"input": "$n", "as": "b", "in": {"$add": ["$$a", "$$b"]}}},
            }
        },
        [[2, 3, 4], [3, 4, 5], [4, 5, 6]],
    ),
    ({"$reduce": {"input": "$n", "initialValue": 10, "in": {"$add": ["$$value", "$$this"]}}}, 16),
    ({"$reduce": {"input": [], "initialValue": "x", "in": 1}}, "x"),
    ({"$reduce": {"input": None, "initialValue": 0, "in": 1}}, None),
    ({"$in": [2.0, "$n"]}, True),
    ({"$in": [True, "$n"]}, False),
    ({"$in": [[1], [[1], 2]]}, True),
    ({"$in": ["$missing", [None]]}, False),
    ({"$indexOfArray": ["$n", 3]}, 2),
    ({"$indexOfArray": ["$n", 1, 1]}, -1),
    ({"$indexOfArray": ["$n", 3, 0, 2]}, -1),
    ({"$indexOfArray": [None, 3]}, None),
    ({"$reverseArray": "$n"}, [3, 2, 1]),
    ({"$reverseArray": None}, None),
    ({"$range": [0, 5]}, [0, 1, 2, 3, 4]),
    ({"$range": [5, 0, -2]}, [5, 3, 1]),
    ({"$range": [0, 0]}, []),
    ({"$setUnion": [[1, 2, 1.0], [True, 2]]}, [1, 2, True]),
    ({"$setUnion": [[1], None]}, None),
    ({"$setIntersection": [[3, 1, 3], [1.0, 3, 4]]}, [3, 1]),
    ({"$setIntersection": []}, []),
    ({"$setDifference": [[1, True, 2, 2], [1.0]]}, [True, 2]),
    ({"$setEquals": [[1, 2, 2], [2.0, 1]]}, True),
    ({"$setEquals": [[1], [True]]}, False),
    ({"$setIsSubset": [[1], [1.0, 2]]}, True),
    ({"$setIsSubset": [[3], []]}, False),
    ({"$allElementsTrue": [[1, "", True]]}, True),
    ({"$anyElementTrue": [[0, None, False]]}, False),
    ({"$isArray": "$n"}, True),
    ({"$isArray": ["$o"]}, False),
    ({"$isArray": "$missing"}, False),
    ({"$objectToArray": "$o"}, [{"k": "a", "v": 1}, {"k": "b", "v": 2}]),
    ({"$objectToArray": None}, None),
    ({"$arrayToObject": [[["a", 1], ["b", 2], ["a", 3]]]}, {"a": 3, "b": 2}),
    ({"$arrayToObject": [[{"k": "a", "v": None}]]}, {"a": None}),
    ({"$arrayToObject": "$missing"}, None),
    ({"$mergeObjects": ["$o", {"b": 5, "c": 6}, None, "$missing"]}, {"a": 1, "b": 5, "c": 6}),
    ({"$mergeObjects": []}, {}),
    ({"$mergeObjects": None}, {}),
    ({"$getField": "n"}, [1, 2, 3]),
    ({"$getField": {"field": "a", "input": "$o"}}, 1),
    ({"$getField": {"$literal": "$price"}}, NOTHING),
    ({"$getField": {"field": {"$literal": "$p.q"}, "input": {"$literal": {"$p.q": 7}}}}, 7),
    ({"$sortArray": {"input": [3, "a", None, 1], "sortBy": 1}}, [None, 1, 3, "a"]),
    (
        {"$sortArray": {"input": [{"a": 1, "b": 1}, {"a": 2}, {"a": 1}], "sortBy": {"a": -1, "b": 1}}},
        [
            {"a": 2},
            {"a": 1},
            {"a": 1, "b": 1},
        ],
    ),
    ({"$zip": {"inputs": ["$n", "$words"]}}, [[1, "b"], [2, "a"]]),
    (
        {"$zip": {"inputs": ["$n", "$words"], "useLongestLength": True, "defaults": [0, "?"]}},
        [[1, "b"], [2, "a"], [3, "?"]],
    ),
    ({"$zip": {"inputs": ["$n", None]}}, None),
    ({"$firstN": {"n": 2, "input": "$n"}}, [1, 2]),
    ({"$lastN": {"n": 2, "input": "$n"}}, [2, 3]),
    ({"$maxN": {"n": 2, "input": [1, None, 3, 2]}}, [3, 2]),
    ({"$minN": {"n": 2, "input": [1, None, 3, 2]}}, [1, 2]),
    ({"$sum": "$n"}, 6),
    ({"$sum": ["$n", 1, "a", 2.5]}, 3.5),
    ({"$sum": "$missing"}, 0),
    ({"$avg": "$n"}, 2.0),
    ({"$avg": ["a", None]}, None),
    ({"$min": [3, None, "a", 2]}, 2),
    ({"$max": "$n"}, 3),
    ({"$max": [1, [0]]}, [0]),
    ({"$max": [None, "$missing"]}, None),
    ({"$stdDevPop": [1, 3]}, 1.0),
    ({"$stdDevSamp": [1, "a"]}, None),
]


@pytest.mark.parametrize(("expression", "wanted"), CASES, ids=repr)
def test_an_array_operator_gives_what_it_should(expression: Any, wanted: Any) -> None:
    assert same(value_of(expression, DOCUMENT), wanted)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ({"$size": "$o"}, r"\$size: expected an array, got dict"),
        ({"$size": "$missing"}, r"\$size: expected an array, got nothing"),
        ({"$size": None}, r"\$size: expected an array, got NoneType"),
        ({"$arrayElemAt": ["$n", 0.5]}, r"\$arrayElemAt: the index must be an integer"),
        ({"$first": "$o"}, r"\$first: expected an array"),
        ({"$slice": ["$n", 0, 0]}, r"\$slice: the count must be greater than zero"),
        ({"$concatArrays": ["$n", 1]}, r"\$concatArrays: expected an array"),
        ({"$filter": {"input": 1, "cond": True}}, r"\$filter: input must be an array, got int 1"),
        ({"$filter": {"input": [1], "cond": True, "limit": 0}}, r"\$filter: limit must be a positive integer"),
        ({"$filter": {"input": [], "as": "X", "cond": True}}, r"\$filter: 'X' is not a valid variable name"),
        ({"$map": {"input": [], "as": "m", "in": "$$this"}}, r"\$map: unknown variable \$\$this"),
        ({"$in": [1, "$o"]}, r"\$in: expected an array"),
        ({"$range": [0, 5, 0]}, r"\$range: the step must not be zero"),
        ({"$range": [0, 10**12]}, r"\$range: the range has more than"),
        ({"$arrayToObject": [[["a"]]]}, r"\$arrayToObject: expected an array of \[name, value\]"),
        ({"$arrayToObject": [[[1, 2]]]}, r"\$arrayToObject: field names must be strings"),
        ({"$arrayToObject": [[["a", 1], {"k": "b", "v": 2}]]}, r"\$arrayToObject: .* got a mixture of both"),
        ({"$arrayToObject": [[{"k": "b", "v": 2}, ["a", 1]]]}, r"\$arrayToObject: .* got a mixture of both"),
        ({"$mergeObjects": "$objects"}, r"\$mergeObjects: expected objects, got list"),
        ({"$mergeObjects": [1]}, r"\$mergeObjects: expected objects, got int 1"),
        ({"$sortArray": {"input": [1], "sortBy": 2}}, r"\$sortArray: sortBy must be 1 or -1"),
        ({"$getField": "$price"}, r"\$getField: field must be a field name, in \$literal"),
        ({"$firstN": {"n": 0, "input": []}}, r"\$firstN: n must be greater than zero"),
    ],
    ids=repr,
)
def test_an_array_operator_refuses_what_it_cannot_take(expression: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=reason):
        value_of(expression, DOCUMENT)


values = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 2.5, "", "a"])


@given(first=st.lists(values), second=st.lists(values))
def test_sets_are_those_of_the_comparison_order(first: list[Any], second: list[Any]) -> None:
    document = {"a": first, "b": second}
    left, right = set(map(place, first)), set(map(place, second))
    for name, wanted in (
        ("$setUnion", left | right),
        ("$setIntersection", left & right),
        ("$setDifference", left - right),
    ):
        found = value_of({name: ["$a", "$b"]}, document)
        assert len(found) == len(wanted)
        assert set(map(place, found)) == wanted


@given(pairs=st.dictionaries(st.text(max_size=3), values))
def test_an_object_survives_the_way_through_an_array(pairs: dict[str, Any]) -> None:
    assert same(value_of({"$arrayToObject": {"$objectToArray": "$o"}}, {"o": pairs}), pairs)
