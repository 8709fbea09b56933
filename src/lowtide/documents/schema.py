"""Validates documents by a collection's JSON Schema, with the library ``jsonschema`` (extra ``schema``).

Drafts 4 to 2020-12 are supported, by the schema's ``$schema``; the newest is the default. Documents have more types
than JSON:

========================  ====================================================================================
datetime, bytes, UUID     are "string"; ``minLength`` and ``maxLength`` count the bytes of bytes; neither these
                          nor ``pattern`` apply to a datetime or a UUID
Decimal                   is "number", and "integer" if it has no fraction, like 1.0
int of any size           is "integer" and "number"
========================  ====================================================================================

``format`` is an annotation and is not checked. ``pattern`` is a Python regular expression. ``multipleOf`` is
computed in decimal, so 0.3 is a multiple of 0.1. References must be inside the schema; nothing is ever fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from lowtide.documents.regex.backtracking import Explosive, Search, search_of
from lowtide.errors import DocumentRefused, OperationFailure
from lowtide.system.extras import require
from lowtide.values.codec import clean
from lowtide.values.paths import position
from lowtide.values.values import Document

_LONGEST: Final = 300
"""Maximum characters of a reason, which may quote the value."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of a schema: the path (empty for the document itself) and the reason."""

    path: str
    reason: str


class SchemaValidator:
    """A compiled schema. ``schema`` is the schema as plain values."""

    __slots__ = ("_checker", "schema")

    def __init__(self, schema: Document, checker: Any) -> None:
        self.schema = schema
        self._checker = checker

    def check(self, collection: str, document: Document) -> None:
        """Check a document. Raises DocumentRefused for the first violation in the document."""
        try:
            if self._checker.is_valid(document):
                return
        except RecursionError as error:
            raise _endless() from error
        except ValueError:  # as below
            pass
        first = self.violations(document)[0]
        raise DocumentRefused(collection, first.path, first.reason)

    def violations(self, document: Document) -> list[Violation]:
        """Return all violations of the schema, in the order of the document."""
        try:
            errors = list(self._checker.iter_errors(document))
        except RecursionError as error:
            raise _endless() from error
        except ValueError:  # the library formats the value, and Python refuses to format an int of thousands of digits
            reason = "it contains an int of thousands of digits, so the reason cannot be shown"
            return [Violation("", reason)]
        errors.sort(key=lambda error: position(document, error.absolute_path))
        return [Violation(".".join(map(str, error.absolute_path)), _shortened(error.message)) for error in errors]


def compile_schema(schema: Mapping[str, Any]) -> SchemaValidator:
    """Compile a schema. Raises OperationFailure, with the reason, if it is not a valid JSON Schema.

    >>> validator = compile_schema({"properties": {"age": {"type": "integer", "minimum": 0}}})
    >>> validator.violations({"_id": 1, "age": -4})
    [Violation(path='age', reason='-4 is less than the minimum of 0')]
    """
    library = _library()
    if not isinstance(schema, Mapping):
        raise OperationFailure(f"a JSON Schema must be a dict, got {type(schema).__name__} {schema!r}")
    plain: Document = clean(dict(schema))
    if "$jsonSchema" in plain:
        raise OperationFailure("pass the JSON Schema itself, without MongoDB's $jsonSchema around it")
    draft = library.validators.validator_for(plain, default=library.newest if "$schema" not in plain else None)
    if draft is None or draft is library.oldest:
        raise OperationFailure(
            f"the JSON Schema has the unknown $schema {plain['$schema']!r}; "
            f"use {library.newest.META_SCHEMA['$id']!r}, or leave it out"
        )
    try:
        draft.check_schema(plain)
    except library.exceptions.SchemaError as error:
        where = ".".join(map(str, error.absolute_path))
        exact = next((each for each in error.context if each.validator != "type"), error)
        raise OperationFailure(
            f"not a valid JSON Schema: {f'at {where!r}: ' if where else ''}{_shortened(exact.message)}"
        ) from error
    _check_references(plain, draft, library)
    return SchemaValidator(plain, _extended(draft)(plain, registry=library.registry))


@cache
def _library() -> SimpleNamespace:
    """Import the parts of ``jsonschema`` and its dependencies that are used here."""
    jsonschema = require("jsonschema", "schema", "validation by JSON Schema")
    return SimpleNamespace(
        validators=require("jsonschema.validators", "schema", "validation by JSON Schema"),
        exceptions=require("jsonschema.exceptions", "schema", "validation by JSON Schema"),
        referencing=require("referencing.jsonschema", "schema", "validation by JSON Schema"),
        registry=require("jsonschema_specifications", "schema", "validation by JSON Schema").REGISTRY,
        newest=jsonschema.Draft202012Validator,
        oldest=jsonschema.Draft3Validator,
    )


@cache
def _extended(draft: Any) -> Any:
    """Return the library's validator class for a draft, extended by the types of documents."""
    types = draft.TYPE_CHECKER
    checker = types.redefine_many(
        {
            "string": lambda _, value: isinstance(value, str | bytes | datetime | UUID),
            "number": lambda _, value: isinstance(value, Decimal) or types.is_type(value, "number"),
            "integer": lambda _, value: (
                value.is_finite() and value == value.to_integral_value()
                if isinstance(value, Decimal)
                else types.is_type(value, "integer")
            ),
        }
    )
    words = {
        "required": _required,
        "minLength": _min_length,
        "maxLength": _max_length,
        "pattern": _pattern,
        "multipleOf": _multiple_of,
    }
    return _library().validators.extend(draft, validators=words, type_checker=checker)


def _error(message: str, **where: Any) -> Any:
    return _library().exceptions.ValidationError(message, **where)


def _required(validator: Any, required: list[str], instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        for name in required:
            if name not in instance:
                yield _error("it is required, but missing", path=(name,))


def _min_length(validator: Any, least: int, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str | bytes) and len(instance) < least:
        yield _error(f"{instance!r} is shorter than {least}")


def _max_length(validator: Any, most: int, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str | bytes) and len(instance) > most:
        yield _error(f"{instance!r} is longer than {most}")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not _search_of(pattern)(instance):
        yield _error(f"{instance!r} does not match {pattern!r}")


def _search_of(pattern: str) -> Search:
    try:
        return search_of(re.compile(pattern))
    except Explosive as error:
        raise OperationFailure(f"the schema's pattern {pattern!r}: {error}; rewrite the expression") from error


def _multiple_of(validator: Any, divisor: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "number") and not _divides(divisor, instance):
        yield _error(f"{instance!r} is not a multiple of {divisor}")


def _divides(divisor: Any, value: Any) -> bool:
    """Whether ``value`` is an exact multiple of ``divisor``. Never expands a large exponent."""
    (digits, exponent), (by, by_exponent) = _scaled(value), _scaled(divisor)
    if digits is None or by is None:
        return False
    shift = exponent - by_exponent
    if shift >= 0:
        return digits * pow(10, shift, by) % by == 0
    return digits == 0 or (-shift <= digits.bit_length() and digits % (by * 10**-shift) == 0)


def _scaled(value: Any) -> tuple[int | None, int]:
    """Return a number as an integer and a power of ten. The integer is None for an infinite number."""
    if isinstance(value, int):
        return value, 0
    number = value if isinstance(value, Decimal) else Decimal(repr(value))
    if not number.is_finite():
        return None, 0
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    return int(Decimal((sign, digits, 0))), exponent


def _check_references(schema: Document, draft: Any, library: SimpleNamespace) -> None:
    """Raise OperationFailure for an unresolvable reference, and for MongoDB keywords that would be ignored."""
    specification = library.referencing.specification_with(draft.META_SCHEMA.get("$schema", ""))
    resource = specification.create_resource(schema)
    base = resource.id() or ""
    resolver = library.registry.with_resource(base, resource).crawl().resolver(base)
    pending = [(resource, resolver)]
    while pending:
        inner, resolver = pending.pop()
        if isinstance(inner.contents, dict):
            if "bsonType" in inner.contents:
                raise OperationFailure(
                    f"bsonType {inner.contents['bsonType']!r} is not part of JSON Schema; use type, "
                    "one of null, boolean, integer, number, string, object and array"
                )
            for word in ("$ref", "$dynamicRef"):
                if isinstance(reference := inner.contents.get(word), str):
                    _look_up(reference, resolver)
        pending += [(each, resolver.in_subresource(each)) for each in inner.subresources()]


def _look_up(reference: str, resolver: Any) -> None:
    try:
        resolver.lookup(reference)
    except Exception as error:  # the library raises several types of errors, and some built-in ones
        raise OperationFailure(
            f"not a valid JSON Schema: the reference {reference!r} cannot be resolved; it must be inside the schema"
        ) from error


def _shortened(reason: str) -> str:
    """Shorten a long reason. The start shows the value and the end the violation, so both are kept."""
    if len(reason) <= _LONGEST:
        return reason
    return f"{reason[: _LONGEST // 2]} ... {reason[-_LONGEST // 2 :]}"


def _endless() -> OperationFailure:
    return OperationFailure("the JSON Schema refers to itself endlessly, or the document is nested too deeply")
