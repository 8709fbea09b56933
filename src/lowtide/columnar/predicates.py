"""Translates a ``pyarrow.compute.Expression`` to conditions on single columns, and those to a document filter.

``pyarrow`` offers no way to walk an expression, so its serialized form is parsed: a record batch of the literals, whose
metadata is the expression in prefix notation (``call equal``, ``field_ref a``, ``literal 0``, ``end equal``). Unknown
parts are ignored, so the conditions hold for every row that satisfies the expression, and possibly for more.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa

from lowtide.columnar.inference import is_json

_COMPARISONS: Final = {
    "equal": "$eq",
    "less": "$lt",
    "less_equal": "$lte",
    "greater": "$gt",
    "greater_equal": "$gte",
}
_TURNED: Final = {"$eq": "$eq", "$lt": "$gt", "$lte": "$gte", "$gt": "$lt", "$gte": "$lte"}
_RELATIVE, _ABSOLUTE = 1e-12, 1e-300
"""Upper bounds for the error of rounding a number to a double."""


class ColumnCondition(NamedTuple):
    """A condition on a column. ``operator`` is $eq, $lt, $lte, $gt, $gte or $in; IS NULL is ``$eq`` None."""

    column: str
    operator: str
    value: Any


class Call(NamedTuple):
    """A function call in an expression. Its arguments are calls, fields and literals."""

    name: str
    arguments: tuple[Any, ...]
    options: Any


class Field(NamedTuple):
    """A column that an expression refers to; several names lead into a struct."""

    names: tuple[str, ...]


class Literal(NamedTuple):
    """A constant."""

    value: Any


def parsed(expression: Any) -> Call | Field | Literal | None:
    """Parse the expression into a tree. Returns None if any part of it is unknown."""
    try:
        file = pa.ipc.open_file(expression.__reduce__()[1][0])
        literals = file.get_batch(0)
        return _read(iter(_metadata(file.schema)), literals)
    except (pa.ArrowException, AttributeError, LookupError, TypeError, ValueError, OverflowError, StopIteration):
        return None


def columns_of(tree: Call | Field | Literal | None) -> set[str] | None:
    """Return the top-level columns that a tree refers to. None if there is no tree."""
    match tree:
        case None:
            return None
        case Field(names):
            return {names[0]}
        case Call(_, arguments, _):
            found: set[str] = set()
            for each in arguments:
                found |= columns_of(each) or set()
            return found
    return set()


def conditions(tree: Call | Field | Literal | None) -> Iterator[ColumnCondition]:
    """Return conditions that hold for every row that satisfies the tree."""
    match tree:
        case Call("and_kleene" | "and", arguments):
            for each in arguments:
                yield from conditions(each)
        case Call(name, (Field((column,)), Literal(value))) if name in _COMPARISONS and value is not None:
            yield ColumnCondition(column, _COMPARISONS[name], value)
        case Call(name, (Literal(value), Field((column,)))) if name in _COMPARISONS and value is not None:
            yield ColumnCondition(column, _TURNED[_COMPARISONS[name]], value)
        case Call("is_null", (Field((column,)),), {"nan_is_null": False}):
            yield ColumnCondition(column, "$eq", None)
        case Call("is_in", (Field((column,)),), {"value_set": list(values)}):
            yield ColumnCondition(column, "$in", values)
        case Call(
            "if_else", (Call("is_valid", (Field(first),)), Call("is_in", (Field(second),)) as inner, Literal(None))
        ):
            if first == second:  # SQL's IN: null for null
                yield from conditions(inner)


def document_filter(found: Iterator[ColumnCondition], schema: pa.Schema) -> dict[str, Any]:
    """Return a filter that matches every document whose row, under this schema, meets the conditions.

    Conditions that cannot be expressed as a filter are dropped.
    """
    filter: dict[str, dict[str, Any]] = {}
    for column, operator, value in found:
        if column not in schema.names or "." in column or column.startswith("$"):
            continue
        for name, bound in _bounds(schema.field(column), operator, value).items():
            filter.setdefault(column, {}).setdefault(name, bound)
    return filter


def _bounds(field: pa.Field, operator: str, value: Any) -> Mapping[str, Any]:
    """Return the condition as a filter on the values that this column was built from."""
    types, found = pa.types, field.type
    if operator == "$eq" and value is None:
        return {"$eq": None}
    if is_json(field) or types.is_null(found):
        return {}
    kind = type(value[0]) if operator == "$in" and value else type(value)
    if types.is_float64(found) and kind is float and operator != "$in":
        return _around(operator, value)
    if types.is_string(found) and kind is str:  # strings, and UUIDs as text
        if operator in ("$eq", "$in"):
            return {"$in": [form for each in (value if operator == "$in" else [value]) for form in _forms(each)]}
        return {}
    if types.is_timestamp(found) and kind is datetime:
        if operator == "$in":
            return {"$in": [each.astimezone(UTC) for each in value if each is not None]}
        return {operator: value.astimezone(UTC)}
    exact = (types.is_int64(found), int), (types.is_decimal(found), Decimal), (types.is_boolean(found), bool)
    if (True, kind) in exact:
        return {operator: [each for each in value if each is not None] if operator == "$in" else value}
    return {}


def _around(operator: str, value: float) -> Mapping[str, Any]:
    """Widen the bounds for values that were rounded to a double: integers beyond 2**53 and Decimals."""
    if not isfinite(value):
        return {}
    slack = abs(value) * _RELATIVE + _ABSOLUTE
    low, high = {"$gte": value - slack}, {"$lte": value + slack}
    return {**low, **high} if operator == "$eq" else low if operator in ("$gt", "$gte") else high


def _forms(text: Any) -> list[Any]:
    """Return the values that have this text in a column of strings."""
    if text is None:
        return []
    try:
        return [text, found] if str(found := UUID(text)) == text else [text]
    except ValueError:
        return [text]


# The serialized form


def _read(pairs: Iterator[tuple[str, str]], literals: pa.RecordBatch) -> Call | Field | Literal:
    found = _part(*next(pairs), pairs, literals)
    assert found is not None
    return found


def _part(
    key: str, value: str, pairs: Iterator[tuple[str, str]], literals: pa.RecordBatch
) -> Call | Field | Literal | None:
    """Parse the node that begins with this pair. Returns None at the end of a call."""
    if key == "field_ref":
        return Field((value,))
    if key == "nested_field_ref":
        return Field(tuple(_name(*next(pairs)) for _ in range(int(value))))
    if key == "literal":
        return Literal(literals.column(int(value))[0].as_py())
    if key == "end":
        return None
    if key != "call":
        raise ValueError(f"unknown part {key!r} of an expression")
    arguments: list[Call | Field | Literal] = []
    options = None
    for name, each in pairs:
        if name == "options":
            options = literals.column(int(each))[0].as_py()
        elif (argument := _part(name, each, pairs, literals)) is None:
            return Call(value, tuple(arguments), options)
        else:
            arguments.append(argument)
    raise ValueError("an expression has no end")


def _name(key: str, value: str) -> str:
    if key != "field_ref":
        raise ValueError(f"{key!r} is not a field name")
    return value


class _Schema(ctypes.Structure):
    """The beginning of ``ArrowSchema`` in Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the metadata in order, with repeated keys. ``schema.metadata`` would return each key once."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = schema.__arrow_c_schema__()
    place: int = _Schema.from_address(pointer_of(capsule, b"arrow_schema")).metadata

    def number() -> int:
        nonlocal place
        place += 4
        return ctypes.c_int32.from_address(place - 4).value

    def text() -> str:
        nonlocal place
        length = number()
        place += length
        return ctypes.string_at(place - length, length).decode()

    return [(text(), text()) for _ in range(number())]
