"""Reads and writes values as JSON, with MongoDB's relaxed Extended JSON for the types that JSON lacks.

==========  ====================================================================================================
datetime    ``{"$date": "2026-05-01T12:00:00Z"}``, or with another offset, or with none
bytes       ``{"$binary": {"base64": "AP8=", "subType": "00"}}``
UUID        ``{"$uuid": "018f..."}``
Decimal     ``{"$numberDecimal": "9.90"}``
infinity    ``{"$numberDouble": "Infinity"}``
==========  ====================================================================================================

Numbers are JSON numbers of any length, except integers of thousands of digits, which few programs can read: those are
``{"$numberLong": "0x..."}``. ``loads(dumps(value))`` equals ``value``. Other forms that MongoDB's tools write are read
too: ``$numberInt``, ``$numberLong``, ``$numberDouble``, dates as milliseconds, and ``$oid``, which becomes its text.
Stored field names never begin with ``$``, so none of these forms can be mistaken for a document's own fields.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

import msgspec

_SIMPLE: Final = frozenset((str, bool, type(None)))
_LONGEST: Final = 10**4000
"""Python refuses to format integers from this size on in decimal."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_MARKS: Final = (b'"$', b"\\u0024")


class NotExtended(ValueError):
    """Raised for a value that does not match its type marker. ``path`` is its location."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"field {path!r}: {reason}" if path else reason)


def dumps(value: object) -> bytes:
    """Return ``value`` as one line of JSON.

    >>> dumps({"_id": 1, "price": Decimal("9.90")})
    b'{"_id":1,"price":{"$numberDecimal":"9.90"}}'
    """
    return _encode(to_extended(value))


def loads(text: bytes | str) -> Any:
    """Parse a line of JSON. Raises NotExtended, or msgspec's DecodeError for text that is not JSON.

    >>> loads('{"at": {"$date": "2026-05-01T12:00:00Z"}}')
    {'at': datetime.datetime(2026, 5, 1, 12, 0, tzinfo=datetime.timezone.utc)}
    """
    encoded = text.encode() if isinstance(text, str) else text
    found = _decode(encoded)
    return from_extended(found) if is_marked(encoded) else found


def is_marked(text: bytes) -> bool:
    """Return whether a name in this JSON may begin with ``$``."""
    # A single byte is found many times as fast as two or more, and most texts have neither.
    return (b"$" in text and _MARKS[0] in text) or (b"\\" in text and _MARKS[1] in text)


def to_extended(value: Any) -> Any:
    """Convert ``value`` to JSON types. A value that already consists of them is returned unchanged."""
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if kind is int:
        return value if -_LONGEST < value < _LONGEST else {"$numberLong": hex(value)}
    if kind is float:
        if math.isfinite(value):
            return value
        return {"$numberDouble": "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, list | tuple):
        return [to_extended(each) for each in value]
    if kind is datetime:
        return {"$date": written(value)}
    if kind is Decimal:
        return {"$numberDecimal": str(value)}
    if kind is UUID:
        return {"$uuid": str(value)}
    if isinstance(value, bytes | bytearray):
        return {"$binary": {"base64": base64.b64encode(value).decode(), "subType": "00"}}
    raise TypeError(f"{kind.__name__} has no form in JSON")


def _object(value: Mapping[str, Any]) -> Mapping[str, Any]:
    changed: dict[str, Any] = {}
    for name, each in value.items():
        if type(each) in _SIMPLE:
            continue
        new = to_extended(each)
        if new is not each:
            changed[name] = new
    return {**value, **changed} if changed else value


def written(moment: datetime) -> str:
    """Format a datetime as ISO 8601, with Z for UTC and without an offset if it is naive."""
    text = moment.isoformat()
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def from_extended(value: Any, path: str = "") -> Any:
    """Convert ``value`` back from JSON types. Objects and arrays are changed in place."""
    if type(value) is dict:
        first = next(iter(value), "")
        if first[:1] == "$" and (reader := _READERS.get(first)) is not None:
            return _marked(value, first, reader, path)
        for name, each in value.items():
            if type(each) is dict or type(each) is list:
                value[name] = from_extended(each, f"{path}.{name}" if path else name)
    elif type(value) is list:
        for index, each in enumerate(value):
            if type(each) is dict or type(each) is list:
                value[index] = from_extended(each, f"{path}.{index}" if path else str(index))
    return value


def _marked(value: dict[str, Any], mark: str, reader: Callable[[Any], Any], path: str) -> Any:
    others = set(value) - {mark, "$type"} if mark == "$binary" else set(value) - {mark}
    if others:
        raise NotExtended(path, f"{mark} stands beside {', '.join(sorted(others))}; it must be alone")
    try:
        return reader(value[mark])
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        shown = _encode(value).decode(errors="backslashreplace")
        raise NotExtended(
            path, f"{shown if len(shown) <= 80 else shown[:77] + '...'} is not {_MEANINGS[mark]}"
        ) from error


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError
    return value


_TINY_OFFSET = re.compile(r"([+-])00:00:00\.(\d{1,6})$")


def _date(value: Any) -> datetime:
    if type(value) is str:
        moment = datetime.fromisoformat(value)
        if tiny := _TINY_OFFSET.search(value):  # fromisoformat takes an offset below a second for none
            microseconds = int(f"{tiny[1]}{tiny[2]:0<6}")
            moment = moment.replace(tzinfo=timezone(timedelta(microseconds=microseconds)))
        return moment
    milliseconds = value if type(value) is int else _integer(value["$numberLong"])
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _binary(value: Any) -> bytes | UUID:
    if type(value) is str:  # an older form, with the kind beside it
        return base64.b64decode(value, validate=True)
    data = base64.b64decode(_text(value["base64"]), validate=True)
    return UUID(bytes=data) if int(value.get("subType", "00"), 16) == 4 else data


def _integer(value: Any) -> int:
    return int(value, 16) if _text(value).lstrip("-").startswith("0x") else int(value)


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(_text(value))
    except InvalidOperation as error:
        raise ValueError from error


def _pattern(value: Any) -> dict[str, str]:
    return {"$regex": _text(value["pattern"]), "$options": _text(value.get("options", ""))}


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "$date": _date,
    "$binary": _binary,
    "$uuid": lambda value: UUID(_text(value)),
    "$numberDecimal": _decimal,
    "$numberDouble": lambda value: float(_text(value)),
    "$numberLong": _integer,
    "$numberInt": _integer,
    "$oid": _text,
    "$regularExpression": _pattern,
}
_MEANINGS: Final = {
    "$date": "a date, such as 2026-05-01T12:00:00Z",
    "$binary": 'binary data, {"base64": "...", "subType": "00"}',
    "$uuid": "a UUID",
    "$numberDecimal": "a decimal number, as text",
    "$numberDouble": "a floating-point number, as text",
    "$numberLong": "an integer, as text",
    "$numberInt": "an integer, as text",
    "$oid": "the text of an object id",
    "$regularExpression": 'a pattern, {"pattern": "...", "options": ""}',
}
