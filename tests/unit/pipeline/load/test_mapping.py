"""Mappings: what is accepted, what is refused with which error, and how casts convert values."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from lowtide.errors import UsageError
from lowtide.pipeline.load.mapping import CastFailed, MappedField, cast_of, parse_mapping

WHEN = datetime(2026, 5, 1, tzinfo=UTC)
UUID_TEXT = "12345678-1234-5678-1234-567812345678"


def test_a_mapping_is_parsed() -> None:
    found = parse_mapping(
        {
            "_id": "key",
            "a.b": {"from": "x", "cast": "int"},
            "a.c": {"constant": [1]},
            "d": {"sql": "x + 1", "cast": "str"},
            "*": True,
        }
    )
    assert found.targets == (
        MappedField(("_id",), column="key"),
        MappedField(("a", "b"), column="x", cast="int"),
        MappedField(("a", "c"), constant=[1]),
        MappedField(("d",), sql="x + 1", cast="str"),
    )
    assert found.rest
    assert found.taken == {"key", "x", "_id", "a", "d"}
    assert [each.sql for each in found.expressions] == ["x + 1"]


def test_without_a_mapping_all_columns_stay() -> None:
    found = parse_mapping(None)
    assert (found.targets, found.rest, found.taken) == ((), True, frozenset())


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({}, "a mapping is a dict"),
        (["_id"], "a mapping is a dict"),
        ({"*": "yes"}, r"'\*' lets all other columns through"),
        ({7: "a"}, "named by a string"),
        ({"": "a"}, "named by a string"),
        ({"a..b": "a"}, "cannot be the name of a field"),
        ({"a.$b": "a"}, "cannot be the name of a field"),
        ({"_id.x": "a"}, "inside the _id"),
        ({"a": 7}, "must be the name of a column"),
        ({"a": {}}, "needs one of from, constant and sql, not 0"),
        ({"a": {"from": "x", "sql": "y"}}, "needs one of from, constant and sql, not 2"),
        ({"a": {"from": "x", "kind": "int"}}, "has 'kind'; there are from, constant, sql, cast"),
        ({"a": {"from": ""}}, "'from' of field 'a' is a text"),
        ({"a": {"sql": 7}}, "'sql' of field 'a' is a text"),
        ({"a": {"from": "x", "cast": "integer"}}, "cannot be cast to 'integer'; there are auto, str, int"),
        ({"a": {"constant": 1, "cast": "int"}}, "is a constant"),
        ({"_id": {"constant": 1}}, "the _id cannot be a constant"),
        ({"a": {"constant": {1, 2}}}, "the constant of field 'a'"),
        ({"a": "x", "a.b": "y"}, "'a' cannot be a value, since 'a.b' is inside it"),
    ],
)
def test_a_wrong_mapping_is_refused(mapping: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_mapping(mapping)


@pytest.mark.parametrize(
    ("mapping", "columns", "words"),
    [
        ({"_id": "a"}, ["b", "c"], "'a', which the source does not have; it has 'b', 'c'"),
        ({"x": "b"}, ["b"], "no entry defines the _id"),
        (None, ["b"], "no entry defines the _id"),
        (None, ["_id", "$b"], "'\\$b' cannot be the name of a field"),
    ],
)
def test_a_mapping_that_does_not_fit_the_columns_is_refused(mapping: Any, columns: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_mapping(mapping).check_columns(columns)


def test_columns_that_fit() -> None:
    parse_mapping({"_id": "a.b", "c": "x.y"}).check_columns(["a", "x.y", "$unused"])
    parse_mapping(None).check_columns(["_id", "b"])
    parse_mapping({"*": True, "p": "$price"}).check_columns(["_id", "$price"])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", "12", 12),
        ("int", 12.0, 12),
        ("int", Decimal("3.0"), 3),
        ("int", True, 1),
        ("float", "1.5", 1.5),
        ("float", 2, 2.0),
        ("decimal", "1.50", Decimal("1.50")),
        ("decimal", 0.1, Decimal("0.1")),
        ("bool", "TRUE", True),
        ("bool", 0, False),
        ("str", 7, "7"),
        ("str", {"a": 1}, '{"a":1}'),
        ("str", WHEN, "2026-05-01T00:00:00Z"),
        ("datetime", "2026-05-01T00:00:00+00:00", WHEN),
        ("datetime", WHEN, WHEN),
        ("uuid", UUID_TEXT, UUID(UUID_TEXT)),
        ("uuid", UUID(UUID_TEXT).bytes, UUID(UUID_TEXT)),
        ("bytes", "YQ==", b"a"),
        ("bytes", b"a", b"a"),
        ("json", '{"a": [1]}', {"a": [1]}),
        ("json", 7, 7),
        ("auto", "007", "007"),
        ("auto", "7", 7),
    ],
)
def test_casts(kind: str, value: Any, expected: Any) -> None:
    found = cast_of(kind)(value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "1.5"),
        ("int", ""),
        ("int", 1.5),
        ("int", float("inf")),
        ("int", WHEN),
        ("int", [1]),
        ("float", "x"),
        ("float", "nan"),
        ("float", 10**400),
        ("float", WHEN),
        ("decimal", "x"),
        ("decimal", b"1"),
        ("bool", "yes"),
        ("bool", 2),
        ("datetime", "yesterday"),
        ("datetime", 0),
        ("uuid", "x"),
        ("uuid", 7),
        ("uuid", b"short"),
        ("bytes", "not base64!"),
        ("bytes", 7),
        ("json", "{"),
    ],
)
def test_what_cannot_be_cast(kind: str, value: Any) -> None:
    with pytest.raises(CastFailed, match=f"is not of type {kind}"):
        cast_of(kind)(value)
