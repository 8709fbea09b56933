"""The syntax of filters, fields and sort orders on the command line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lowtide.cli.expressions import (
    columns_of_fields,
    fields_of,
    filter_of,
    object_of,
    objects_of,
    order_of,
    value_of,
)
from lowtide.errors import UsageError


def test_a_filter_is_extended_json_given_in_one_of_two_ways() -> None:
    assert filter_of(None, None) == {}
    assert filter_of('{"at": {"$lt": {"$date": 0}}}', None) == {"at": {"$lt": datetime(1970, 1, 1, tzinfo=UTC)}}
    assert filter_of(None, '{"a": 1}') == {"a": 1}
    with pytest.raises(UsageError, match="given twice"):
        filter_of("{}", "{}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "{age: 3}",
            r"the filter is not valid JSON: .* at character 2; write it as {\"age\": {\"\$gt\": 3}}, for",
        ),
        ("[1]", "the filter must be an object"),
        ("", "the filter is not valid JSON"),
        ('{"a": {"$date": "soon"}}', "the filter: field 'a': .* is not a date"),
        ("{" * 5000, "the filter is not valid JSON"),
        ('{"a": "\udcff"}', "the filter is not valid JSON"),
    ],
)
def test_a_filter_that_is_none_is_refused_with_an_example(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        object_of(text, "filter")


def test_a_pipeline_may_be_one_stage() -> None:
    assert objects_of('{"$count": "n"}', "pipeline") == [{"$count": "n"}]
    assert objects_of('[{"$count": "n"}, {"$limit": 1}]', "pipeline") == [{"$count": "n"}, {"$limit": 1}]
    for text in ("[1]", "3"):
        with pytest.raises(UsageError, match="must be an array of objects"):
            objects_of(text, "pipeline")


def test_a_value_without_an_example_is_refused_too() -> None:
    with pytest.raises(UsageError, match="the thing is not valid JSON"):
        value_of("x", "thing")


@pytest.mark.parametrize(
    ("text", "fields", "columns"),
    [
        (None, None, None),
        ("name,address.city", {"name": 1, "address.city": 1}, ["_id", "name", "address.city"]),
        ("name,-_id", {"name": 1, "_id": 0}, ["name"]),
        ("_id", {"_id": 1}, ["_id"]),
        ("-notes,-_id", {"notes": 0, "_id": 0}, None),
        ("-_id", {"_id": 0}, None),
        ('{"name": 1, "tags": {"$slice": 1}}', {"name": 1, "tags": {"$slice": 1}}, None),
        ('{"name": true}', {"name": True}, ["_id", "name"]),
    ],
)
def test_fields_are_names_or_a_projection(text: str | None, fields: Any, columns: list[str] | None) -> None:
    assert fields_of(text) == fields
    assert columns_of_fields(fields) == columns


def test_an_order_is_names_with_signs_or_an_object() -> None:
    assert order_of(None) is None
    assert order_of("city, -age,+name") == [("city", 1), ("age", -1), ("name", 1)]
    assert order_of('{"city": 1, "age": -1}') == [("city", 1), ("age", -1)]
    for text in ("", "city,,age", "-"):
        with pytest.raises(UsageError, match="names no field"):
            order_of(text)
