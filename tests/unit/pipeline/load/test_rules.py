"""The rules of a load: each row becomes a document or a rejection, and never anything else."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lowtide.pipeline.load.judging import COMPUTED, FILE, LINE, Judge
from lowtide.pipeline.load.mapping import parse_mapping
from lowtide.pipeline.load.rules import REASONS, Accepted, Rejected, Rules, Unrepresentable
from lowtide.values.codec import decode_document
from lowtide.values.extended import loads
from lowtide.values.ids import id_key
from tests.unit.pipeline.models import MAPPING, modelled, raw_rows

SCHEMA = {"properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]}


def judged(mapping: Any, row: dict[str, Any], *, schema: Any = None, computed: tuple[Any, ...] = ()) -> Any:
    found = Rules(parse_mapping(mapping), () if schema is None else (schema,)).judge(row, computed)
    return decode_document(found.document) if isinstance(found, Accepted) else (found.reason, found.field)


@pytest.mark.parametrize(
    ("mapping", "row", "expected"),
    [
        (None, {"a": 1, "_id": 7}, {"_id": 7, "a": 1}),
        ({"_id": "a"}, {"a": 1, "b": 2}, {"_id": 1}),
        ({"_id": "a", "*": True}, {"a": 1, "b": 2, "c": None}, {"_id": 1, "b": 2, "c": None}),
        ({"_id": "a", "b": "c", "*": True}, {"a": 1, "b": 2, "c": 3}, {"_id": 1, "b": 3}),
        ({"_id": "a", "b.x": "c", "*": True}, {"a": 1, "b": 2, "c": 3}, {"_id": 1, "b": {"x": 3}}),
        ({"_id": "a", "b.x": "c", "b.y": "a"}, {"a": 1}, {"_id": 1, "b": {"y": 1}}),
        ({"_id": "a.b"}, {"a": {"b": 1}}, {"_id": 1}),
        ({"_id": "a.b"}, {"a.b": 1, "a": {"b": 2}}, {"_id": 1}),
        ({"_id": "a", "k": {"constant": None}}, {"a": 1}, {"_id": 1, "k": None}),
        ({"_id": "a", "k": {"from": "b", "cast": "int"}}, {"a": 1, "b": None}, {"_id": 1, "k": None}),
        ({"_id": "a"}, {"b": 1}, ("no_id", "_id")),
        ({"_id": "a.b"}, {"a": 7}, ("no_id", "_id")),
        ({"_id": "a"}, {"a": None}, ("no_id", "_id")),
        ({"_id": "a"}, {"a": 1.5}, ("bad_id", "_id")),
        ({"_id": "a"}, {"a": "x" * 300}, ("bad_id", "_id")),
        ({"_id": "a", "k.n": {"from": "b", "cast": "int"}}, {"a": 1, "b": "x"}, ("cast", "k.n")),
        (None, {"_id": 1, "a": {"$set": 1}}, ("name", "a.$set")),
        (None, {"_id": 1, "a": float("nan")}, ("value", "a")),
        (None, {"_id": 1, "a": object()}, ("value", "a")),
        (None, {"_id": 1, "a": Unrepresentable("far")}, ("value", "a")),
        ({"_id": "a", "b.c": "d"}, {"a": 1, "d": Unrepresentable("far")}, ("value", "b.c")),
    ],
)
def test_a_row_becomes_a_document_or_a_rejection(mapping: Any, row: dict[str, Any], expected: Any) -> None:
    assert judged(mapping, row) == expected


def test_the_values_of_expressions_come_in_their_order_and_null_is_left_out() -> None:
    mapping = {"x": {"sql": "1"}, "_id": {"sql": "2", "cast": "int"}, "y": {"sql": "3"}}
    assert judged(mapping, {}, computed=("a", "7", None)) == {"_id": 7, "x": "a"}


def test_a_document_that_violates_the_schema_is_rejected_with_the_field() -> None:
    assert judged(None, {"_id": 1, "age": 3}, schema=SCHEMA) == {"_id": 1, "age": 3}
    assert judged(None, {"_id": 1, "age": -3}, schema=SCHEMA) == ("schema", "age")
    assert judged(None, {"_id": 1}, schema=SCHEMA) == ("schema", "age")
    found = Rules(parse_mapping(None), [SCHEMA]).judge({"_id": 1, "age": -3})
    assert found == Rejected("schema", "age", "-3 is less than the minimum of 0")


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=3)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab$.", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["_id", "a", "b", "$c"]), values))
def test_every_row_has_exactly_one_verdict(row: dict[str, Any]) -> None:
    found = Rules(parse_mapping(None), [{"properties": {"a": {"type": "integer"}}}]).judge(row)
    if isinstance(found, Accepted):
        assert decode_document(found.document) == {"_id": None} | row
        assert found.key == id_key(row["_id"])
    else:
        assert found.reason in REASONS
        assert found.detail


@given(st.lists(raw_rows))
@example([{"id": "", "n": "", "name": ""}])
def test_no_row_is_lost_between_the_batches_of_a_task(rows: list[dict[str, str]]) -> None:
    """But for duplicates, which no task sees alone."""
    columns = {name: pa.array([row[name] or None for row in rows], pa.string()) for name in ("id", "n", "name")}
    batch = pa.record_batch({**columns, FILE: pa.nulls(len(rows), pa.string())})
    judge = Judge(parse_mapping(MAPPING), (), batch.schema)
    found = [row for each in judge(iter([batch.slice(0, 3), batch.slice(3)])) for row in each.to_pylist()]
    assert len(found) == len(rows)
    assert [loads(each["source"]) for each in found] == [
        {name: value for name, value in row.items() if value} for row in rows
    ]
    wanted, refused = modelled(rows)
    stored = [decode_document(each["document"]) for each in found if each["reason"] is None]
    assert [each for each in stored if each["_id"] in wanted] == list(wanted.values())
    assert len(rows) - len(stored) == sum(refused.values()) - refused.get("duplicate_id", 0)


def test_values_of_arrow_are_those_of_documents() -> None:
    far = pa.array([10_000_000], pa.int32()).cast(pa.date32())
    columns = {
        "_id": pa.array([1, 2]),
        "f": pa.array([float("nan"), 1.5]),
        "s": pa.array(
            [{"x": None, "y": [float("nan")]}, None], pa.struct([("x", pa.int64()), ("y", pa.list_(pa.float64()))])
        ),
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "d": pa.chunked_array([pa.array([date(2026, 5, 1)]), far]).combine_chunks(),
        "j": pa.array(['{"a": 1}', "{"]),
        FILE: pa.array([None, "f"], pa.string()),
        f"{COMPUTED}0": pa.array([7, None]),
    }
    batch = pa.record_batch(columns)
    schema = batch.schema.set(5, batch.schema.field(5).with_metadata({"lowtide": "json"}))
    mapping = parse_mapping({"*": True, "n": {"sql": "7"}})
    first, second = [row for each in Judge(mapping, (), schema)(iter([batch])) for row in each.to_pylist()]
    stored = decode_document(first["document"])
    assert str(stored.pop("d")) == "2026-05-01 00:00:00"
    assert stored == {"_id": 1, "s": {"y": [None]}, "m": {"k": 1}, "j": {"a": 1}, "n": 7}
    assert (second["reason"], second["field"], second["file"]) == ("value", "d", "f")


def test_lines_are_parsed_as_extended_json() -> None:
    lines = ['{"_id": 1}', "7", "{", '{"_id": {"$uuid": "x"}}']
    batch = pa.record_batch({LINE: lines, FILE: pa.nulls(4, pa.string())})
    found = [row for each in Judge(parse_mapping(None), (), batch.schema)(iter([batch])) for row in each.to_pylist()]
    assert [row["reason"] for row in found] == [None, "unreadable", "unreadable", "unreadable"]
    assert [row["source"] for row in found] == lines
