"""Parsing of pyarrow expressions: what they ask of columns, and the equivalent filter of documents."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.dataset import field

from lowtide.columnar.inference import JSON, TIMESTAMP
from lowtide.columnar.predicates import columns_of, conditions, document_filter, parsed

MOMENT = datetime(2026, 5, 1, tzinfo=UTC)
SOME_ID = UUID(int=0xABCDEF)
SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64()),
        pa.field("f", pa.float64()),
        pa.field("d", pa.decimal128(38, 2)),
        pa.field("s", pa.string()),
        pa.field("t", TIMESTAMP),
        pa.field("b", pa.bool_()),
        pa.field("j", pa.string(), metadata=JSON),
        pa.field("x.y", pa.int64()),
        pa.field("$z", pa.int64()),
        pa.field("o", pa.struct([pa.field("x", pa.int64())])),
    ]
)


def one_of(name: str, values: list[Any]) -> Any:
    """SQL's IN, as DuckDB writes it."""
    return pc.if_else(field(name).is_valid(), field(name).isin(values), pa.scalar(None, pa.bool_()))


def asked(expression: Any) -> dict[str, Any]:
    return document_filter(conditions(parsed(expression)), SCHEMA)


@pytest.mark.parametrize(
    ("expression", "filter"),
    [
        (field("n") == 5, {"n": {"$eq": 5}}),
        (pc.scalar(5) < field("n"), {"n": {"$gt": 5}}),
        (
            (field("n") >= 5) & (field("n") <= 9) & (field("s") == "a"),
            {"n": {"$gte": 5, "$lte": 9}, "s": {"$in": ["a"]}},
        ),
        ((field("n") > 5) & (field("n") > 7), {"n": {"$gt": 5}}),
        (one_of("n", [1, 2]), {"n": {"$in": [1, 2]}}),
        (one_of("s", ["a", str(SOME_ID)]), {"s": {"$in": ["a", str(SOME_ID), SOME_ID]}}),
        (field("s") == str(SOME_ID).upper(), {"s": {"$in": [str(SOME_ID).upper()]}}),
        (field("s").is_null(), {"s": {"$eq": None}}),
        (field("j").is_null(), {"j": {"$eq": None}}),
        (field("d") == Decimal("5.25"), {"d": {"$eq": Decimal("5.25")}}),
        (field("b") == True, {"b": {"$eq": True}}),  # noqa: E712
        (field("t") < pa.scalar(MOMENT, TIMESTAMP), {"t": {"$lt": MOMENT}}),
    ],
)
def test_what_an_expression_asks_of_columns_becomes_a_filter(expression: Any, filter: dict[str, Any]) -> None:
    assert asked(expression) == filter


@pytest.mark.parametrize(
    "expression",
    [
        (field("n") == 5) | (field("s") == "a"),
        ~(field("n") == 5),
        field("n") != 5,
        field("s") > "a",
        field("j") == "1",
        field("x.y") == 1,
        field("$z") == 1,
        field("missing") == 1,
        field("o", "x") == 1,
        field("n") == field("f"),
        field("n") + 1 == 5,
        field("f") == float("inf"),
        field("f").is_null(nan_is_null=True),
    ],
)
def test_what_cannot_be_put_so_narrows_nothing(expression: Any) -> None:
    assert asked(expression) == {}


def test_a_double_is_looked_for_with_the_values_that_are_rounded_to_it() -> None:
    bounds = asked(field("f") == 0.1)["f"]
    assert bounds["$gte"] < Decimal("0.1") < bounds["$lte"]
    assert bounds["$lte"] - bounds["$gte"] < 1e-12
    assert asked(field("f") <= 0.0)["f"]["$lte"] > Decimal("1e-320")


def test_the_columns_of_an_expression_are_known() -> None:
    tree = parsed((field("n") == 5) | (field("o", "x") > field("f")))
    assert columns_of(tree) == {"n", "o", "f"}
    assert columns_of(parsed(pc.scalar(True))) == set()
    assert columns_of(None) is None


def test_what_is_no_expression_is_not_taken_apart() -> None:
    assert parsed(object()) is None
    assert list(conditions(None)) == []
