"""The values that a document may hold, and their comparison order, which is MongoDB's.

null < numbers < strings < objects < arrays < bytes and UUIDs < booleans < datetimes

* Numbers compare by numeric value, whether int, float or Decimal.
* Strings compare by code point.
* Objects compare field by field, in field order: first by the kind of the value, then by name, then by value.
* Bytes compare by length first. A UUID is sixteen bytes of another subtype.
* Datetimes compare by instant. A naive datetime is taken as UTC.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

Document = dict[str, Any]

NULL, NUMBER, STRING, OBJECT, ARRAY, BINARY, BOOLEAN, DATE = 1, 2, 3, 4, 5, 6, 8, 9
"""The kinds of values, in comparison order."""

RANKS: Final[dict[type, int]] = {
    type(None): NULL,
    int: NUMBER,
    float: NUMBER,
    Decimal: NUMBER,
    str: STRING,
    dict: OBJECT,
    list: ARRAY,
    bytes: BINARY,
    UUID: BINARY,
    bool: BOOLEAN,
    datetime: DATE,
}

_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
PLAIN: Final = frozenset((str, int, float, bool))
"""Types whose ``==`` agrees with the comparison order for two values of the same type."""

Place = tuple[int, Any]


def rank(value: object) -> int:
    """Return the kind of ``value``: one of NULL to DATE."""
    return RANKS[type(value)]


def microseconds(moment: datetime) -> int:
    """Return the microseconds since 1970 in UTC, even if the UTC instant is outside the range of ``datetime``."""
    offset = moment.utcoffset()
    since = (moment.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    return since if offset is None else since - offset // _MICROSECOND


def place(value: object) -> Place:
    """Return a sort key for ``value``. Keys compare as the values do, and are equal if the values are.

    >>> sorted([True, "b", 2.5, None, [1], 10], key=place)
    [None, 2.5, 10, 'b', [1], True]
    >>> place(1) == place(1.0)
    True
    """
    kind = RANKS[type(value)]
    if kind == OBJECT:
        assert isinstance(value, dict)
        return OBJECT, tuple([(RANKS[type(each)], name, place(each)[1]) for name, each in value.items()])
    if kind == ARRAY:
        assert isinstance(value, list)
        return ARRAY, tuple(map(place, value))
    if kind == BINARY:
        if isinstance(value, UUID):
            return BINARY, (16, 4, value.bytes)
        assert isinstance(value, bytes)
        return BINARY, (len(value), 0, value)
    if kind == DATE:
        assert isinstance(value, datetime)
        return DATE, microseconds(value)
    return kind, 0 if value is None else value


def equal(first: object, second: object) -> bool:
    """Return whether two values are equal in comparison order: 1 and 1.0 are, 1 and true are not."""
    kind = type(first)
    if kind is type(second) and kind in PLAIN:
        return first == second
    return place(first) == place(second)
