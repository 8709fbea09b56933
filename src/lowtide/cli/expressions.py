"""Parsing of filters, updates, pipelines, fields and sort orders from the command line: pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lowtide.documents.files.malformed import reason_and_byte
from lowtide.errors import UsageError
from lowtide.values.extended import NotExtended, loads

_DIRECTED = re.compile(
    r"(?P<name>.+?)(?:\s*:\s*|\s+)(?P<direction>asc|ascending|desc|descending|(?<=:)-?1)", re.IGNORECASE
)
"""A field and a direction: ``age:desc``, ``age desc``, ``age:-1``. A field with such a name must be given as JSON."""

EXAMPLES = {
    "filter": '{"age": {"$gt": 3}}',
    "update": '{"$set": {"age": 4}}',
    "document": '{"name": "Ada"}',
    "pipeline": '[{"$group": {"_id": "$city", "count": {"$sum": 1}}}]',
    "fields": '{"name": 1, "_id": 0}',
    "order": '{"city": 1, "age": -1}',
    "schema": '{"properties": {"age": {"type": "integer"}}}',
    "array filters": '[{"item.age": {"$gt": 3}}]',
}


def value_of(text: str, what: str) -> Any:
    """Parse Extended JSON; ``what`` names it in errors, such as a filter."""
    hint = f"; write it as {EXAMPLES[what]}, for a shell of the system in single quotes" if what in EXAMPLES else ""
    try:
        return loads(text.encode(errors="surrogateescape"))
    except NotExtended as error:
        raise UsageError(f"the {what}: {error}") from error
    except (ValueError, RecursionError) as error:
        reason, byte = reason_and_byte(error)
        at = f" at character {byte + 1}" if byte is not None else ""
        raise UsageError(f"the {what} is not valid JSON: {reason}{at}{hint}") from error


def object_of(text: str, what: str) -> dict[str, Any]:
    """The object that a user wrote."""
    found = value_of(text, what)
    if type(found) is not dict:
        raise UsageError(f"the {what} must be an object; write it as {EXAMPLES.get(what, '{...}')}")
    return found


def objects_of(text: str, what: str) -> list[dict[str, Any]]:
    """The array of objects that a user wrote; one object alone is an array of one."""
    found = value_of(text, what)
    if type(found) is dict:
        return [found]
    if type(found) is not list or not all(type(each) is dict for each in found):
        raise UsageError(f"the {what} must be an array of objects; write it as {EXAMPLES.get(what, '[{...}]')}")
    return found


def filter_of(*given: str | None) -> dict[str, Any]:
    """The filter, given as an argument, as an option, or not at all."""
    texts = [each for each in given if each is not None]
    if len(texts) > 1:
        raise UsageError("the filter was given twice: as an argument and as --filter")
    return object_of(texts[0], "filter") if texts else {}


def fields_of(text: str | None) -> dict[str, Any] | None:
    """Parse a projection: ``name,address.city``, exclusions ``-_id,-notes``, or an object.

    >>> fields_of("name,-_id")
    {'name': 1, '_id': 0}
    """
    if text is None:
        return None
    if text.lstrip().startswith("{"):
        return object_of(text, "fields")
    return {name: 1 if direction > 0 else 0 for name, direction in _signed(text, "fields")}


def columns_of_fields(fields: Mapping[str, Any] | None) -> list[str] | None:
    """The columns of a table with only these fields; None if they are not known beforehand."""
    if fields is None:
        return None
    wanted = [name for name, value in fields.items() if name != "_id" and value]
    if not wanted and not fields.get("_id"):
        return None
    if any(type(value) not in (int, bool) or (not value and name != "_id") for name, value in fields.items()):
        return None
    return [*(["_id"] if fields.get("_id", 1) else []), *wanted]


def order_of(text: str | None) -> list[tuple[str, int]] | None:
    """Parse a sort order, or the keys of an index: ``city,-age``, ``city,age:desc``, or an object.

    >>> order_of("city,-age")
    [('city', 1), ('age', -1)]
    >>> order_of("city:asc,age:desc")
    [('city', 1), ('age', -1)]
    """
    if text is None:
        return None
    if text.lstrip().startswith("{"):
        return list(object_of(text, "order").items())
    return [_directed(name, direction, text) for name, direction in _signed(text, "order")]


def _directed(part: str, direction: int, text: str) -> tuple[str, int]:
    """The field and direction of one part, which may end with a word for the direction, as in SQL."""
    named = _DIRECTED.fullmatch(part)
    if named is None:
        return part, direction
    if direction < 0:
        raise UsageError(f"the order {text!r} gives {named['name']!r} two directions; write -{named['name']}")
    return named["name"], -1 if named["direction"].lower() in ("desc", "descending", "-1") else 1


def _signed(text: str, what: str) -> list[tuple[str, int]]:
    found = []
    for part in (each.strip() for each in text.split(",")):
        name = part.removeprefix("-").removeprefix("+")
        if not name:
            raise UsageError(f"the {what} {text!r} names no field; write the names with commas, as in city,-age")
        found.append((name, -1 if part.startswith("-") else 1))
    return found
