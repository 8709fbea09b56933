"""Converts values for MessagePack: to the value itself, or to an extension for a type that MessagePack lacks.

A value that no document may contain is refused, with its path.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec

from lowtide.errors import InvalidDocument, shown

MAX_DEPTH: Final = 100
"""Maximum nesting depth of objects and arrays."""

BIG, DECIMAL, UUID_CODE, NAIVE, OFFSET = 1, 2, 3, 4, 5
"""The extensions; see codec."""
SIMPLE: Final = frozenset((str, bool, type(None), bytes))
EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
eight: Final = struct.Struct(">q")
sixteen: Final = struct.Struct(">qq")
_Ext = msgspec.msgpack.Ext


def clean_object(document: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
    """Return the dict that MessagePack encodes in place of ``document``, which is not changed."""
    if depth > MAX_DEPTH:
        raise InvalidDocument(path, f"it nests deeper than {MAX_DEPTH} levels; does it contain itself?")
    cleaned = document
    for name, value in document.items():
        if type(name) is not str:
            return _clean_names(document, path, depth)
        kind = type(value)
        if (
            kind in SIMPLE
            or (kind is int and -0x8000000000000000 <= value < 0x10000000000000000)
            or (kind is float and value == value)
        ):
            continue
        new = clean_value(value, f"{path}.{name}" if path else name, depth)
        if new is not value:
            if cleaned is document:
                cleaned = dict(document)
            cleaned[name] = new
    return cleaned


def _clean_names(document: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
    """Convert field names that are instances of a subclass of ``str``. Other types are refused."""
    named = {}
    for name, value in document.items():
        if not isinstance(name, str):
            raise InvalidDocument(path, f"names of fields are strings, not {described(name)}")
        named[str.__str__(name)] = value
    return clean_object(named, path, depth)


def clean_value(value: Any, path: str, depth: int) -> Any:
    """Return the value that MessagePack encodes in place of ``value``: the value itself or an extension."""
    kind = type(value)
    if kind in SIMPLE:
        return value
    if kind is dict:
        return clean_object(value, path, depth + 1)
    if kind is list or kind is tuple:
        return _clean_array(value, path, depth + 1)
    if kind is int:
        if -0x8000000000000000 <= value < 0x10000000000000000:
            return value
        return _Ext(BIG, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if kind is float:
        if value == value:
            return value
        raise InvalidDocument(path, "NaN cannot be stored, since it equals nothing; store None, or leave it out")
    if kind is Decimal:
        if value.is_nan():
            raise InvalidDocument(path, "NaN cannot be stored, since it equals nothing; store None, or leave it out")
        return _Ext(DECIMAL, str(value).encode())
    if kind is UUID:
        return _Ext(UUID_CODE, value.bytes)
    if kind is datetime:
        return _clean_datetime(value)
    return _clean_subclass(value, path, depth)


def _clean_array(value: list[Any] | tuple[Any, ...], path: str, depth: int) -> list[Any] | tuple[Any, ...]:
    if depth > MAX_DEPTH:
        raise InvalidDocument(path, f"it nests deeper than {MAX_DEPTH} levels; does it contain itself?")
    if SIMPLE.issuperset(map(type, value)):
        return value
    cleaned = [clean_value(each, f"{path}.{index}", depth) for index, each in enumerate(value)]
    return cleaned if any(map(_differs, cleaned, value)) else value


def _differs(first: object, second: object) -> bool:
    return first is not second


def _clean_datetime(value: datetime) -> Any:
    offset = value.utcoffset()
    if offset is None:
        return _Ext(NAIVE, eight.pack((value - EPOCH) // _MICROSECOND))
    if not offset:
        return value
    local = (value.replace(tzinfo=None) - EPOCH) // _MICROSECOND
    return _Ext(OFFSET, sixteen.pack(local, offset // _MICROSECOND))


def _clean_subclass(value: Any, path: str, depth: int) -> Any:
    """Convert an instance of a subclass to its base type. Other types cannot be stored."""
    if isinstance(value, Mapping):
        return clean_value(dict(value), path, depth)
    if isinstance(value, list | tuple):
        return clean_value(list(value), path, depth)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return clean_value(int(value), path, depth)
    if isinstance(value, float):
        return clean_value(float(value), path, depth)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Decimal):
        return clean_value(Decimal(value), path, depth)
    if isinstance(value, UUID):
        return clean_value(UUID(int=value.int), path, depth)
    if isinstance(value, datetime):
        moment = datetime.combine(value.date(), value.timetz())
        return clean_value(moment, path, depth)
    raise InvalidDocument(
        path,
        f"{described(value)} cannot be stored; "
        "use dict, list, str, int, float, bool, None, bytes, datetime, Decimal or UUID",
    )


def described(value: object) -> str:
    return f"{type(value).__name__} {shown(value)}"


def find_surrogate(value: Any, path: str) -> None:
    """Raise for the string that cannot be encoded as UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidDocument(
                path.encode(errors="backslashreplace").decode(), f"no Unicode text: {error}"
            ) from error
    elif isinstance(value, dict):
        for name, each in value.items():
            find_surrogate(name, path)
            find_surrogate(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            find_surrogate(each, f"{path}.{index}")


def check_names(value: Any, path: str) -> None:
    """Refuse field names that begin with ``$``."""
    if isinstance(value, dict):
        for name, each in value.items():
            inner = f"{path}.{name}" if path else name
            if name.startswith("$"):
                raise InvalidDocument(inner, "the name of a field may not begin with $, which marks operators")
            check_names(each, inner)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            check_names(each, f"{path}.{index}")
