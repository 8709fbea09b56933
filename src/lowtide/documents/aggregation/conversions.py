"""Type operators of expressions: $type, $convert and the conversions such as $toInt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, DecimalException
from typing import Any, Final
from uuid import UUID

from lowtide.documents.aggregation.context import (
    BadOperand,
    Build,
    Context,
    Evaluate,
    Variables,
    described,
    unary,
)
from lowtide.documents.aggregation.numerics import NUMBERS, decimal
from lowtide.errors import OperationFailure
from lowtide.values.paths import MISSING
from lowtide.values.values import Document, microseconds

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def type_name(value: object) -> str:
    """Return MongoDB's name for the type of a value. An int of more than 32 bits is a long."""
    if type(value) is int:
        return "int" if -0x80000000 <= value < 0x80000000 else "long"
    return _NAMES[type(value)]


_NAMES: Final[dict[type, str]] = {
    type(MISSING): "missing",
    type(None): "null",
    bool: "bool",
    float: "double",
    Decimal: "decimal",
    str: "string",
    bytes: "binData",
    UUID: "binData",
    datetime: "date",
    list: "array",
    dict: "object",
}


def _refused(value: object, target: str) -> BadOperand:
    return BadOperand(f"cannot convert {described(value)} to {target}")


def to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        utc = value if value.tzinfo is None else value.astimezone(UTC)
        return f"{utc.year:04}-{utc:%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03}Z"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    if isinstance(value, int | float | Decimal | UUID):
        try:
            return str(value)
        except ValueError:  # Python refuses to format an int of thousands of digits
            raise _refused(value, "a string") from None
    raise _refused(value, "a string")


def to_int(value: Any) -> int:
    try:
        if isinstance(value, str) and "_" not in value and value.strip() == value:
            return int(value)
        if isinstance(value, datetime):
            return microseconds(value) // 1000
        if isinstance(value, int | float | Decimal):
            return int(value)
    except (ValueError, OverflowError):
        pass
    raise _refused(value, "an int")


def to_double(value: Any) -> float:
    try:
        if isinstance(value, str) and "_" not in value and value.strip() == value:
            found = float(value)
            if found == found:
                return found
        if isinstance(value, datetime):
            return microseconds(value) / 1000
        if isinstance(value, int | float | Decimal):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise _refused(value, "a double")


def to_decimal(value: Any) -> Decimal:
    try:
        if isinstance(value, str) and "_" not in value and value.strip() == value:
            found = Decimal(value)
            if not found.is_nan():
                return found
        if isinstance(value, datetime):
            return Decimal(microseconds(value) // 1000)
        if isinstance(value, int | float | Decimal):
            return decimal(int(value) if isinstance(value, bool) else value)
    except DecimalException:
        pass
    raise _refused(value, "a decimal")


def to_bool(value: Any) -> bool:
    return value != 0 if isinstance(value, int | float | Decimal) else True


def to_date(value: Any) -> datetime:
    """Convert milliseconds since 1970 or an ISO 8601 string to a date. Without an offset, the string is UTC."""
    try:
        if isinstance(value, datetime):
            return value
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if type(value) in NUMBERS:
            return _EPOCH + timedelta(milliseconds=float(value))
    except (ValueError, OverflowError):
        pass
    raise _refused(value, "a date")


def _to_array(value: Any) -> Any:
    if isinstance(value, list):
        return value
    raise _refused(value, "an array")


def _to_object(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    raise _refused(value, "an object")


def _to_binary(value: Any) -> Any:
    if isinstance(value, bytes | UUID):
        return value
    raise _refused(value, "binary data")


_TARGETS: Final[dict[Any, Callable[[Any], Any]]] = {
    "double": to_double,
    1: to_double,
    "string": to_text,
    2: to_text,
    "object": _to_object,
    3: _to_object,
    "array": _to_array,
    4: _to_array,
    "binData": _to_binary,
    5: _to_binary,
    "bool": to_bool,
    8: to_bool,
    "date": to_date,
    9: to_date,
    "int": to_int,
    16: to_int,
    "long": to_int,
    18: to_int,
    "decimal": to_decimal,
    19: to_decimal,
}
"""Conversions by MongoDB's type name and type number."""


def _convert(operand: Any, context: Context) -> Evaluate:
    given = context.named(operand, ("input", "to"), ("onError", "onNull"))
    inner, to = context.compile(given["input"]), context.compile(given["to"])
    on_error = context.compile(given["onError"]) if "onError" in given else None
    on_null = context.compile(given["onNull"]) if "onNull" in given else _null

    def evaluate(document: Document, variables: Variables) -> Any:
        value, target = inner(document, variables), to(document, variables)
        if value is None or value is MISSING:
            return on_null(document, variables)
        if target is None or target is MISSING:
            return None
        convert = _TARGETS.get(target) if isinstance(target, str | int) and target is not True else None
        if convert is None:
            context.fail(f"unknown target type {described(target)}")
        try:
            return convert(value)
        except BadOperand as error:
            if on_error is None:
                raise OperationFailure(f"{context.where}: {error}; pass onError to handle such values") from error
            return on_error(document, variables)

    return evaluate


def _null(document: Document, variables: Variables) -> None:
    return None


def _is_number(value: object) -> bool:
    return type(value) in NUMBERS


OPERATORS: Final[dict[str, Build]] = {
    "$convert": _convert,
    "$isNumber": unary(_is_number, strict=False),
    "$toBool": unary(to_bool),
    "$toDate": unary(to_date),
    "$toDecimal": unary(to_decimal),
    "$toDouble": unary(to_double),
    "$toInt": unary(to_int),
    "$toLong": unary(to_int),
    "$toString": unary(to_text),
    "$type": unary(type_name, strict=False),
}
