"""Encodes values to keys whose byte order is the comparison order of the values.

Values that compare equal have the same encoding, whatever their type. No encoding is a prefix of another, so encodings
can be concatenated, and each can be inverted separately for a descending part.

=========  =============================================================================================
null       10
number     20, the largest double that is not above it, and if that is not exact, its decimal digits;
           all inverted below zero
string     30, UTF-8 with 00 as 00 FF, 00 01
object     40, for each field its value's kind, its name as in a string, its value; 01
array      50, the values, 01
binary     60, length in four bytes, 00 or, of a UUID, 04, the bytes
boolean    80 or 81
datetime   90, microseconds since 1970 plus 2**63, in eight bytes
=========  =============================================================================================
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from lowtide.values.values import RANKS, microseconds

BEFORE_ALL: Final = b"\x02"
AFTER_ALL: Final = b"\xfe"
"""Bounds of all encodings, inverted or not. Whatever follows an encoding in a key sorts below AFTER_ALL."""

_APART: Final = b"\xff"
"""Not part of any text in UTF-8."""
INVERSE: Final = bytes(range(255, -1, -1))
"""Translates an encoding to that of a descending part."""
_EXACT: Final = 2**53
_double: Final = struct.Struct(">d").pack
_number: Final = struct.Struct(">sds").pack
_KNOWN: Final = 1024
_SMALL: Final = [_number(b"\x20", -value, b"\x01") for value in range(_KNOWN)]
"""The keys of small numbers, which are common. The first one is not used."""
_word: Final = struct.Struct(">Q").pack
_length: Final = struct.Struct(">I").pack
_TOP: Final = 1 << 63


def encode(value: object) -> bytes:
    """Return the key of ``value``.

    >>> encode(2) < encode(2.5) < encode(10) < encode("10")
    True
    >>> encode(1) == encode(1.0)
    True
    """
    return ENCODERS[type(value)](value)


def inverted(encoded: bytes) -> bytes:
    """Invert the encoding for a descending part. Inverting twice restores it."""
    return encoded.translate(INVERSE)


def kind_bounds(kind: int) -> tuple[bytes, bytes]:
    """Return the key range of a kind of values: inclusive start, exclusive end."""
    return bytes((kind << 4,)), bytes(((kind << 4) + 0x10,))


def encode_column(kind: type, values: Sequence[Any]) -> list[bytes]:
    """Return the keys of many values of one type.

    >>> encode_column(int, [3, 4]) == [encode(3), encode(4)]
    True
    """
    if kind is int and min(values) > 0 and max(values) <= _EXACT:
        return [_number(b"\x20", -each, b"\x01") for each in values]
    if kind is str:
        return encode_texts(values)
    return list(map(ENCODERS[kind], values))


def encode_texts(values: Sequence[str], prefix: bytes = b"") -> list[bytes]:
    """Return the keys of many strings, each after a prefix.

    >>> encode_texts(["a", "b"], b"-") == [b"-" + encode("a"), b"-" + encode("b")]
    True
    """
    if not values or _APART in prefix or "\x00" in "".join(values):
        return [prefix + _string(each) for each in values]
    joined = "\x00\x01\x00\x000".join(values)  # so that no string is encoded on its own; 0 is 0x30
    return (prefix + f"0{joined}\x00\x01".encode().replace(b"\x00\x00", _APART + prefix)).split(_APART)


def _text(text: str) -> bytes:
    encoded = text.encode()
    if b"\x00" in encoded:
        encoded = encoded.replace(b"\x00", b"\x00\xff")
    return encoded + b"\x00\x01"


def _string(value: str) -> bytes:
    if "\x00" in value:
        return b"\x30" + _text(value)
    try:
        return f"0{value}\x00\x01".encode()  # faster than bytes put together; 0 is 0x30
    except UnicodeEncodeError:
        return value.encode()  # raises it with positions in the value


def _integer(value: int) -> bytes:
    if 0 < value < _KNOWN:
        return _SMALL[value]
    if 0 < value <= _EXACT:
        return _number(b"\x20", -value, b"\x01")
    return _float(float(value)) if -_EXACT <= value <= 0 else _decimal(Decimal(value))


def _float(value: float) -> bytes:
    if value >= 0:  # also minus zero, which equals zero. The sign only sets the highest bit.
        return b"\x20" + _double(-(value + 0.0)) + b"\x01"
    return b"\x20" + _double(value).translate(INVERSE) + b"\xfe"


def _decimal(value: Decimal) -> bytes:
    size = value.copy_abs()  # abs() would round it
    below = float(size)
    if below > size:
        below = math.nextafter(below, 0.0)
    encoded = _float(below)
    if below != size:
        _, digits, exponent = size.as_tuple()
        assert isinstance(exponent, int)
        encoded = encoded[:-1] + b"\x02" + _word(_TOP + exponent + len(digits))
        encoded += "".join(map(str, digits)).rstrip("0").encode() + b"\x00"
    return b"\x20" + inverted(encoded[1:]) if value < 0 else encoded


def _object(value: dict[str, Any]) -> bytes:
    parts = [b"\x40"]
    for name, each in value.items():
        parts += (bytes((RANKS[type(each)] << 4,)), _text(name), encode(each))
    return b"".join(parts) + b"\x01"


def _array(value: list[Any]) -> bytes:
    return b"\x50" + b"".join(map(encode, value)) + b"\x01"


def _bytes(value: bytes) -> bytes:
    return b"\x60" + _length(len(value)) + b"\x00" + value


def _uuid(value: UUID) -> bytes:
    return b"\x60\x00\x00\x00\x10\x04" + value.bytes


def _boolean(value: bool) -> bytes:
    return b"\x81" if value else b"\x80"


def _datetime(value: datetime) -> bytes:
    return b"\x90" + _word(microseconds(value) + _TOP)


ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _: b"\x10",
    int: _integer,
    float: _float,
    Decimal: _decimal,
    str: _string,
    dict: _object,
    list: _array,
    bytes: _bytes,
    UUID: _uuid,
    bool: _boolean,
    datetime: _datetime,
}
"""The functions that ``encode`` calls, by type."""
