"""Every accumulator, over values that are there, null, missing, and of mixed types."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from lowtide.documents.aggregation.accumulators import ACCUMULATORS
from lowtide.documents.aggregation.stage import CHUNK
from lowtide.errors import OperationFailure
from tests.unit.documents.aggregation.piping import run, same

MIXED: list[dict[str, Any]] = [
    {"v": 2, "w": "b", "o": {"a": 1, "b": 1}},
    {"v": None, "w": "a"},
    {"w": "c", "o": None},
    {"v": "text", "w": None},
    {"v": 3.5, "o": {"b": 2}},
    {"v": 2.0, "w": [1]},
]
EMPTY: list[dict[str, Any]] = [{}, {"v": None}]


def accumulated(accumulator: dict[str, Any], documents: list[dict[str, Any]]) -> Any:
    (group,) = run([{"$group": {"_id": None, "is": accumulator}}], documents)
    return group["is"]


CASES: list[tuple[dict[str, Any], list[dict[str, Any]], Any]] = [
    ({"$sum": "$v"}, MIXED, 7.5),
    ({"$sum": "$v"}, EMPTY, 0),
    ({"$sum": 1}, MIXED, 6),
    ({"$sum": 0.5}, MIXED, 3.0),
    ({"$sum": Decimal("0.1")}, EMPTY, Decimal("0.2")),
    ({"$sum": "text"}, MIXED, 0),
    ({"$sum": True}, MIXED, 0),
    ({"$sum": "$v"}, [{"v": 1}, {"v": True}, {"v": 2}], 3),
    ({"$sum": "$v"}, [{"v": 0.1}, {"v": Decimal("0.2")}, {"v": 1}, {"v": 0.5}], Decimal("1.8")),
    ({"$sum": "$v"}, [{"v": 2**64}, {"v": 2**64}], 2**65),
    ({"$sum": {"$multiply": ["$v", 2]}}, [{"v": 1}, {"v": 2}], 6),
    ({"$sum": "$o.b"}, MIXED, 3),
    ({"$sum": "$w"}, [{"w": [1, 2]}], 0),
    ({"$avg": "$v"}, MIXED, 2.5),
    ({"$avg": "$v"}, EMPTY, None),
    ({"$avg": "$v"}, [{"v": Decimal(1)}, {"v": 2}], Decimal("1.5")),
    ({"$avg": "$v"}, [{"v": 1}, {"v": 2}], 1.5),
    ({"$min": "$v"}, MIXED, 2),
    ({"$max": "$v"}, MIXED, "text"),
    ({"$min": "$w"}, MIXED, "a"),
    ({"$max": "$w"}, MIXED, [1]),
    ({"$min": "$v"}, EMPTY, None),
    ({"$max": "$o"}, MIXED, {"b": 2}),
    ({"$max": {"$add": ["$v", 1]}}, [{"v": 1}, {"v": 5}, {}], 6),
    ({"$first": "$v"}, MIXED, 2),
    ({"$first": "$v"}, EMPTY, None),
    ({"$first": "$v"}, [{"v": None}, {"v": 1}], None),
    ({"$last": "$v"}, MIXED, 2.0),
    ({"$last": "$v"}, [{"v": 1}, {}], None),
    ({"$push": "$v"}, MIXED, [2, None, "text", 3.5, 2.0]),
    ({"$push": {"x": "$v"}}, EMPTY, [{}, {"x": None}]),
    ({"$push": "$missing"}, EMPTY, []),
    ({"$addToSet": "$v"}, MIXED, [2, None, "text", 3.5]),
    ({"$addToSet": "$v"}, [{"v": 1}, {"v": True}, {"v": [1]}, {"v": [1.0]}, {}], [1, True, [1]]),
    ({"$addToSet": "$v"}, [{}], []),
    ({"$count": {}}, MIXED, 6),
    ({"$stdDevPop": "$v"}, [{"v": 1}, {"v": 3}, {"v": "x"}], 1.0),
    ({"$stdDevPop": "$v"}, [{"v": 1}], 0.0),
    ({"$stdDevPop": "$v"}, EMPTY, None),
    ({"$stdDevSamp": "$v"}, [{"v": 1}, {"v": 3}], math.sqrt(2)),
    ({"$stdDevSamp": "$v"}, [{"v": 1}], None),
    ({"$mergeObjects": "$o"}, MIXED, {"a": 1, "b": 2}),
    ({"$mergeObjects": "$o"}, EMPTY, {}),
    ({"$firstN": {"n": 2, "input": "$v"}}, MIXED, [2, None]),
    ({"$firstN": {"n": 9, "input": "$v"}}, EMPTY, [None, None]),
    ({"$lastN": {"n": 2, "input": "$v"}}, MIXED, [3.5, 2.0]),
    ({"$maxN": {"n": 2, "input": "$v"}}, MIXED, ["text", 3.5]),
    ({"$minN": {"n": 2, "input": "$v"}}, MIXED, [2, 2.0]),
    ({"$minN": {"n": 2, "input": "$v"}}, EMPTY, []),
    ({"$top": {"sortBy": {"v": -1}, "output": "$w"}}, MIXED, None),
    ({"$top": {"sortBy": {"w": 1}, "output": ["$w", "$v"]}}, MIXED[:3], ["a", None]),
    ({"$bottom": {"sortBy": {"w": 1}, "output": "$w"}}, MIXED[:3], "c"),
    ({"$topN": {"n": 2, "sortBy": {"w": -1}, "output": "$w"}}, MIXED[:3], ["c", "b"]),
    ({"$bottomN": {"n": 2, "sortBy": {"w": 1}, "output": "$w"}}, MIXED[:3], ["b", "c"]),
]


@pytest.mark.parametrize(("accumulator", "documents", "wanted"), CASES, ids=repr)
def test_an_accumulator_gives_what_it_should(
    accumulator: dict[str, Any], documents: list[dict[str, Any]], wanted: Any
) -> None:
    assert same(accumulated(accumulator, documents), wanted)


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_every_accumulator_is_in_the_table(name: str) -> None:
    assert any(name in accumulator for accumulator, _, _ in CASES)


@pytest.mark.parametrize(
    ("accumulator", "wanted"),
    [
        ({"$sum": "$v"}, 4 * CHUNK * (4 * CHUNK + 1) // 2),
        ({"$first": "$v"}, 4 * CHUNK),
        ({"$last": "$v"}, 1),
        ({"$count": {}}, 4 * CHUNK),
        ({"$max": "$v"}, 4 * CHUNK),
        ({"$minN": {"n": 3, "input": "$v"}}, [1, 2, 3]),
        ({"$lastN": {"n": 3, "input": "$v"}}, [3, 2, 1]),
        ({"$top": {"sortBy": {"v": 1}, "output": "$v"}}, 1),
        ({"$bottomN": {"n": 2, "sortBy": {"v": 1}, "output": "$v"}}, [4 * CHUNK - 1, 4 * CHUNK]),
    ],
    ids=repr,
)
def test_an_accumulator_goes_on_from_one_chunk_of_documents_to_the_next(
    accumulator: dict[str, Any], wanted: Any
) -> None:
    assert accumulated(accumulator, [{"v": value} for value in range(4 * CHUNK, 0, -1)]) == wanted


@pytest.mark.parametrize(
    ("accumulator", "reason"),
    [
        ({"$nope": 1}, r"unknown accumulator \$nope"),
        ({"$add": [1, 2]}, r"unknown accumulator \$add"),
        ({"$sum": 1, "$avg": 1}, "expected an object with one accumulator"),
        (1, "expected an object with one accumulator"),
        ({}, "expected an object with one accumulator"),
        ({"$count": 1}, r"\$count: expected {}, got int 1"),
        ({"$sum": {"$nope": 1}}, r"\$sum: unknown operator \$nope"),
        ({"$firstN": {"n": 0, "input": 1}}, r"\$firstN: n must be a positive integer"),
        ({"$firstN": {"input": 1}}, r"\$firstN: 'n' is required"),
        ({"$top": {"sortBy": {"a": 2}, "output": 1}}, r"\$top: .*'a'"),
    ],
    ids=repr,
)
def test_an_accumulator_that_cannot_be_is_refused_with_stage_and_field(accumulator: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=rf"^stage 2 \(\$group\): field 'is': {reason}"):
        run([{"$match": {}}, {"$group": {"_id": None, "is": accumulator}}], [])


def test_a_value_that_an_accumulator_cannot_take_is_refused_when_it_comes() -> None:
    with pytest.raises(OperationFailure, match=r"\$mergeObjects: expected objects, got int 1"):
        accumulated({"$mergeObjects": "$o"}, [{"o": 1}])
    with pytest.raises(OperationFailure, match=r"\$sum: the result is not a number"):
        accumulated({"$sum": "$v"}, [{"v": math.inf}, {"v": -math.inf}])
    with pytest.raises(OperationFailure, match=r"\$sum: the result is out of range"):
        accumulated({"$sum": "$v"}, [{"v": 10**400}, {"v": 0.5}])
