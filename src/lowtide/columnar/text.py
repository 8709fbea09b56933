"""Values as JSON text, for columns whose values have no type in common.

An integer and a Decimal are numbers with all their digits, a datetime is a string of ISO 8601, a UUID its 36
characters, bytes are base64, and what JSON has no number for is the string "Infinity" or "-Infinity".
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
    """All of them: ``str`` refuses integers of more than some thousand digits."""
    return f"{Decimal(value):f}".encode()


def _infinity(positive: bool) -> str:
    return "Infinity" if positive else "-Infinity"
