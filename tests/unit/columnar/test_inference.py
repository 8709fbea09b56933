"""The policy of type inference: each of its rows is a test."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.columnar import inference
from lowtide.columnar.inference import JSON, Shape, field_of, infer_schema, is_json, merge
from tests.unit.columnar.documents import VALUES

MOMENT = datetime(2026, 5, 1, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", "UTC")
TEXT = "JSON text"


def shape_of(values: list[Any]) -> Shape:
    shape = Shape()
    for each in values:
        shape.add(each)
    return shape


def found(values: list[Any]) -> Any:
    field = field_of("v", shape_of(values), pa.null())
    return TEXT if is_json(field) else field.type


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([], pa.null()),
        ([None], pa.null()),
        ([None, True], pa.bool_()),
        ([1, -(2**63), 2**63 - 1], pa.int64()),
        ([1, 2**63], pa.decimal128(38, 0)),
        ([-(2**63) - 1], pa.decimal128(38, 0)),
        ([10**38 - 1], pa.decimal128(38, 0)),
        ([10**38], TEXT),
        ([1.5], pa.float64()),
        ([1, 1.5, None], pa.float64()),
        ([1.5, 2**64], pa.float64()),
        ([1.5, 10**38], TEXT),
        ([float("inf")], pa.float64()),
        ([1.5, Decimal("1.50")], pa.float64()),
        ([Decimal("1.50"), Decimal("100")], pa.decimal128(38, 2)),
        ([Decimal("1.50"), 7], pa.decimal128(38, 2)),
        ([Decimal("1E+5")], pa.decimal128(38, 0)),
        ([Decimal("0E-60")], pa.decimal128(38, 0)),
        ([Decimal("0." + "1" * 38)], pa.decimal128(38, 38)),
        ([Decimal("1." + "1" * 38)], TEXT),
        ([Decimal("0." + "1" * 38), 1], TEXT),
        ([Decimal("1E-20"), 10**20], TEXT),
        ([Decimal("Infinity")], TEXT),
        ([Decimal("1E+38")], TEXT),
        (["a"], pa.string()),
        (["a", UUID(int=1)], pa.string()),
        ([UUID(int=1)], pa.string()),
        ([b"a"], pa.binary()),
        ([b"a", UUID(int=1)], TEXT),
        ([MOMENT, MOMENT.replace(tzinfo=None)], TIMESTAMP),
        ([MOMENT, "2026-05-01"], TEXT),
        ([1, "1"], TEXT),
        ([True, 1], TEXT),
        ([{"a": 1}, {"b": "x"}, {}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ([{"a": {"b": 1}}, {"a": {"b": 0.5}}], pa.struct([("a", pa.struct([("b", pa.float64())]))])),
        ([{}], TEXT),
        ([{"a": 1}, "x"], TEXT),
        ([{"a": 1}, [1]], TEXT),
        ([[]], pa.list_(pa.null())),
        ([[], [1, None], [2.5]], pa.list_(pa.float64())),
        ([[[1]], [["a"]]], pa.list_(pa.list_(pa.field("item", pa.string(), metadata=JSON)))),
        ([[{"a": 1}], [{"b": 1}]], pa.list_(pa.struct([("a", pa.int64()), ("b", pa.int64())]))),
        ([[1], 1], TEXT),
    ],
)
def test_the_policy(values: list[Any], type_: Any) -> None:
    assert found(values) == type_
    assert found([None, *values[::-1]]) == type_ or isinstance(values[0], dict | list)


def test_objects_of_very_many_names_become_text() -> None:
    most = {str(each): each for each in range(inference.MAX_FIELDS)}
    assert pa.types.is_struct(found([most]))
    assert found([most, {"one more": 1}]) == TEXT
    assert found([{**most, "one more": 1}, {"a": 1}]) == TEXT


def test_text_inside_of_a_struct_is_marked_there() -> None:
    [field] = found([{"a": 1}, {"a": "x"}])
    assert is_json(field)


def test_fields_come_in_the_order_in_which_they_were_seen_or_asked_for() -> None:
    documents: list[dict[str, Any]] = [{"_id": 1, "b": 1}, {"a": "x", "_id": 2}]
    assert infer_schema(documents).names == ["_id", "b", "a"]
    schema = infer_schema(documents, columns=["a", "none", "_id", "a"])
    assert schema == pa.schema([("a", pa.string()), ("none", pa.null()), ("_id", pa.int64())])


def test_what_is_only_null_may_be_given_a_type() -> None:
    fields = inference.Fields()
    fields.add([{"a": None, "b": [], "c": {"d": None}}])
    expected = [("a", pa.string()), ("b", pa.list_(pa.string())), ("c", pa.struct([("d", pa.string())]))]
    assert fields.schema(unknown=pa.string()) == pa.schema(expected)


SHAPES = st.builds(shape_of, st.lists(VALUES, max_size=4))


@given(SHAPES, SHAPES, SHAPES)
def test_merging_is_associative_commutative_and_idempotent(first: Shape, second: Shape, third: Shape) -> None:
    assert merge(merge(first, second), third) == merge(first, merge(second, third))
    assert merge(first, second) == merge(second, first)
    assert merge(first, first) == first


@given(st.lists(VALUES, max_size=6), st.integers(0, 6))
def test_merging_shapes_is_seeing_all_values(values: list[Any], cut: int) -> None:
    whole = shape_of(values)
    first, second = shape_of(values[:cut]), shape_of(values[cut:])
    assert merge(first, second) == whole
    assert (first, second) == (shape_of(values[:cut]), shape_of(values[cut:])), "neither has changed"


@given(st.lists(st.dictionaries(st.text(max_size=2), st.integers(), max_size=4), max_size=5))
def test_crowding_does_not_depend_on_the_order(objects: list[dict[str, Any]]) -> None:
    limit = inference.MAX_FIELDS
    inference.MAX_FIELDS = 3  # type: ignore[misc]
    try:
        shapes = [shape_of([each]) for each in objects]
        forward, backward = Shape(), Shape()
        for each in shapes:
            forward.absorb(each)
        for each in reversed(shapes):
            backward.absorb(each)
        assert forward == backward == shape_of(objects)
    finally:
        inference.MAX_FIELDS = limit  # type: ignore[misc]
