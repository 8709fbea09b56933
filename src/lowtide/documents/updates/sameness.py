"""Identity of stored values, to detect writes that change nothing, and deep copies."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

_PLAIN: Final = frozenset((str, int, bool, bytes, type(None)))


def same(first: Any, second: Any) -> bool:
    """Whether two values have the same type and are stored identically.

    1 and 1.0 are not the same, nor are objects with a different field order, nor one instant in two time zones.
    """
    kind = type(first)
    if kind is not type(second) or first != second:
        return False
    if kind in _PLAIN:
        return True
    if kind is float:
        return math.copysign(1.0, first) == math.copysign(1.0, second)
    if kind is dict:
        return all(
            name == other and same(each, another)
            for (name, each), (other, another) in zip(first.items(), second.items(), strict=True)
        )
    if kind is list:
        return all(map(same, first, second))
    if kind is Decimal:
        return bool(first.as_tuple() == second.as_tuple())
    if kind is datetime:
        return bool(first.utcoffset() == second.utcoffset())
    return True


def copied(value: Any) -> Any:
    """Return a deep copy of ``value``."""
    kind = type(value)
    if kind is dict:
        return {name: copied(each) for name, each in value.items()}
    if kind is list:
        return [copied(each) for each in value]
    return value
