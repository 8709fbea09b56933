"""The types of ``$type``, by name and by number."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from lowtide.documents.filters.operators import Test
from lowtide.errors import OperationFailure

CODES: Final[dict[str, int]] = {
    "double": 1,
    "string": 2,
    "object": 3,
    "array": 4,
    "binData": 5,
    "undefined": 6,
    "objectId": 7,
    "bool": 8,
    "date": 9,
    "null": 10,
    "regex": 11,
    "dbPointer": 12,
    "javascript": 13,
    "symbol": 14,
    "javascriptWithScope": 15,
    "int": 16,
    "timestamp": 17,
    "long": 18,
    "decimal": 19,
    "minKey": -1,
    "maxKey": 127,
}
"""All of MongoDB's type names. Types that Lowtide does not store match nothing."""
_INT, _LONG = CODES["int"], CODES["long"]
_NUMBERS: Final = frozenset((1, 16, 18, 19))
_KNOWN: Final = frozenset(CODES.values())
_OF_TYPES: Final[dict[type, int]] = {
    float: 1,
    str: 2,
    dict: 3,
    list: 4,
    bytes: 5,
    UUID: 5,
    bool: 8,
    datetime: 9,
    type(None): 10,
    Decimal: 19,
}


def code_of(value: Any) -> int:
    """Return the type number of a value; 0 for MISSING. An integer of more than 32 bits is a long, of any size."""
    if type(value) is int:
        return _INT if -0x80000000 <= value < 0x80000000 else _LONG
    return _OF_TYPES.get(type(value), 0)


def codes_of(operand: Any, path: str) -> frozenset[int]:
    """Return the type numbers that an operand of ``$type`` names."""
    named = operand if isinstance(operand, list | tuple) else [operand]
    if not named:
        raise OperationFailure(f"$type at {path!r}: expected a type name, a number or a non-empty list of them")
    codes: set[int] = set()
    for each in named:
        if each == "number" and isinstance(each, str):
            codes |= _NUMBERS
        elif isinstance(each, str) and each in CODES:
            codes.add(CODES[each])
        elif isinstance(each, int | float) and not isinstance(each, bool) and each in _KNOWN:
            codes.add(int(each))
        else:
            raise OperationFailure(
                f"$type at {path!r}: unknown type {each!r}; the names are number, {', '.join(CODES)}"
            )
    return frozenset(codes)


def of_types(codes: Collection[int]) -> Test:
    return lambda value: code_of(value) in codes
