"""Values that JSON cannot represent are written as Extended JSON, and read back unchanged."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given

from lowtide.values.extended import NotExtended, dumps, loads
from lowtide.values.values import Document
from tests.unit.documents.files.values import documents, typed

UUID_TEXT = "018f2f5e-6d1c-7000-8000-0123456789ab"

WRITTEN: list[tuple[Any, str]] = [
    (None, "null"),
    (2**70, "1180591620717411303424"),
    (-0.0, "-0.0"),
    (float("inf"), '{"$numberDouble":"Infinity"}'),
    (float("-inf"), '{"$numberDouble":"-Infinity"}'),
    (Decimal("9.90"), '{"$numberDecimal":"9.90"}'),
    (Decimal("-Infinity"), '{"$numberDecimal":"-Infinity"}'),
    (UUID(UUID_TEXT), f'{{"$uuid":"{UUID_TEXT}"}}'),
    (b"\x00\xff", '{"$binary":{"base64":"AP8=","subType":"00"}}'),
    (datetime(2026, 5, 1, 12, tzinfo=UTC), '{"$date":"2026-05-01T12:00:00Z"}'),
    (datetime(2026, 5, 1, 12, 0, 0, 5), '{"$date":"2026-05-01T12:00:00.000005"}'),
    (
        datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        '{"$date":"2026-05-01T12:00:00+05:30"}',
    ),
    ({"a": [{"b": b""}, 1]}, '{"a":[{"b":{"$binary":{"base64":"","subType":"00"}}},1]}'),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN, ids=str)
def test_a_value_is_written_so_and_read_back(value: Any, text: str) -> None:
    assert dumps(value) == text.encode()
    assert typed(loads(text)) == typed(value)


READ: list[tuple[str, Any]] = [
    ('{"$oid": "507f1f77bcf86cd799439011"}', "507f1f77bcf86cd799439011"),
    ('{"$numberInt": "-3"}', -3),
    ('{"$numberLong": "9007199254740993"}', 9007199254740993),
    ('{"$numberDouble": "2.5"}', 2.5),
    ('{"$date": 1000}', datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ('{"$date": {"$numberLong": "-1"}}', datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
    ('{"$date": "2026-05-01T12:00:00.5+0200"}', datetime(2026, 5, 1, 10, 0, 0, 500000, tzinfo=UTC)),
    ('{"$binary": {"base64": "AY8vXm0ccACAAAEjRWeJqw==", "subType": "04"}}', UUID(UUID_TEXT)),
    ('{"$binary": "AP8=", "$type": "00"}', b"\x00\xff"),
    (f'{{"\\u0024uuid": "{UUID_TEXT}"}}', UUID(UUID_TEXT)),
    ('{"$regularExpression": {"pattern": "^a", "options": "i"}}', {"$regex": "^a", "$options": "i"}),
    (
        '{"age": {"$gt": 3}, "at": {"$lt": {"$date": 0}}}',
        {"age": {"$gt": 3}, "at": {"$lt": datetime(1970, 1, 1, tzinfo=UTC)}},
    ),
    ('{"price": "$9"}', {"price": "$9"}),
]


@pytest.mark.parametrize(("text", "value"), READ, ids=str)
def test_what_others_write_is_read_too(text: str, value: Any) -> None:
    assert loads(text) == value


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ('{"a": {"b": [{"$date": "soon"}]}}', "a.b.0", "a date, such as"),
        ('{"a": {"$date": true}}', "a", "a date"),
        ('{"a": {"$date": {"$numberLong": 5}}}', "a", "a date"),
        ('{"a": {"$date": 99999999999999999}}', "a", "a date"),
        ('{"a": {"$uuid": "12"}}', "a", "a UUID"),
        ('{"a": {"$uuid": 12}}', "a", "a UUID"),
        ('{"a": {"$binary": {"subType": "00"}}}', "a", "binary data"),
        ('{"a": {"$binary": {"base64": "AP8", "subType": "00"}}}', "a", "binary data"),
        ('{"a": {"$numberDecimal": "many"}}', "a", "a decimal number"),
        ('{"a": {"$numberLong": "1.5"}}', "a", "an integer"),
        ('{"a": {"$date": "2026-05-01T12:00:00Z", "b": 1}}', "a", "must be alone"),
        ('{"$oid": 5}', "", "object id"),
    ],
)
def test_a_value_that_is_not_what_it_says_is_refused_with_its_path(text: str, path: str, words: str) -> None:
    with pytest.raises(NotExtended, match=words) as raised:
        loads(text)
    assert raised.value.path == path


@example({"at": datetime(2000, 1, 1, tzinfo=timezone(timedelta(microseconds=1)))})
@example({"at": datetime(2000, 1, 1, tzinfo=timezone(timedelta(microseconds=-120)))})
@given(documents)
def test_every_document_comes_back_as_it_was(document: Document) -> None:
    line = dumps(document)
    assert b"\n" not in line
    assert typed(loads(line)) == typed(document)
    json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@given(documents)
def test_writing_leaves_the_document_alone(document: Document) -> None:
    before = typed(document)
    dumps(document)
    assert typed(document) == before


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="set has no form"):
        dumps({"a": {1, 2}})


@pytest.mark.parametrize(
    "value", [10**5000, -(10**5000), 10**4000, 10**4000 - 1], ids=["long", "negative", "first", "last"]
)
def test_integers_of_thousands_of_digits_come_back(value: int) -> None:
    assert loads(dumps({"n": value})) == {"n": value}
