"""Converts values to JSON text, for columns whose values have no common type.

Integers and Decimals become numbers with all their digits, datetimes become ISO 8601 strings, UUIDs become strings of
36 characters, and bytes become base64. Infinities, which JSON lacks, become the strings "Infinity" and "-Infinity".
"""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode


def json_text(value: Any) -> str:
    """
    >>> json_text({"price": Decimal("9.90"), "big": 2**70, "raw": b"hi", "far": float("inf")})
    '{"price":9.90,"big":1180591620717411303424,"raw":"aGk=","far":"Infinity"}'
    """
    return _encode(_plain(value)).decode()


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {name: _plain(each) for name, each in value.items()}
    if kind is list:
        return [_plain(each) for each in value]
    if kind is int and not -0x8000000000000000 <= value < 0x8000000000000000:
        return msgspec.Raw(_digits(value))
    if kind is Decimal:
        return msgspec.Raw(str(value).encode()) if value.is_finite() else _infinity(value > 0)
    if kind is float and math.isinf(value):
        return _infinity(value > 0)
    return value.isoformat() if kind is datetime else value


def _digits(value: int) -> bytes:
    """Return all decimal digits. ``str`` refuses integers of thousands of digits."""
    return f"{Decimal(value):f}".encode()


def _infinity(positive: bool) -> str:
    return "Infinity" if positive else "-Infinity"
