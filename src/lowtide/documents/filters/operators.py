"""The comparison operators: each function compiles an operand to a test of a value or MISSING."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from re import Pattern
from typing import Any, Final
from uuid import UUID

from lowtide.documents.regex.backtracking import search_of
from lowtide.values.paths import MISSING
from lowtide.values.values import RANKS, place

Test = Callable[[Any], bool]

NUMBERS: Final = frozenset((int, float, Decimal))
_STRINGS: Final = frozenset((str,))
_BOOLEANS: Final = frozenset((bool,))
ORDERED: Final[dict[type, frozenset[type]]] = {
    int: NUMBERS,
    float: NUMBERS,
    Decimal: NUMBERS,
    str: _STRINGS,
    bool: _BOOLEANS,
}
"""By operand type, the comparable types, if Python compares all of them as MongoDB does."""
EQUATED: Final[dict[type, frozenset[type]]] = {**ORDERED, bytes: frozenset((bytes,)), UUID: frozenset((UUID,))}
_HASHED: Final = NUMBERS | _STRINGS


def never(_: Any) -> bool:
    return False


def is_null(value: Any) -> bool:
    return value is None or value is MISSING


def exists(value: Any) -> bool:
    return value is not MISSING


def equal_to(operand: Any) -> Test:
    if operand is None:
        return is_null
    kinds = EQUATED.get(type(operand))
    if kinds is not None:
        return lambda value: type(value) in kinds and value == operand
    goal = place(operand)
    kind = goal[0]
    return lambda value: RANKS.get(type(value)) == kind and place(value) == goal


def greater_than(operand: Any) -> Test:
    if operand is None:
        return never
    kinds = ORDERED.get(type(operand))
    if kinds is not None:
        return lambda value: type(value) in kinds and value > operand
    goal = place(operand)
    kind = goal[0]
    return lambda value: RANKS.get(type(value)) == kind and place(value) > goal


def at_least(operand: Any) -> Test:
    if operand is None:
        return is_null
    kinds = ORDERED.get(type(operand))
    if kinds is not None:
        return lambda value: type(value) in kinds and value >= operand
    goal = place(operand)
    kind = goal[0]
    return lambda value: RANKS.get(type(value)) == kind and place(value) >= goal


def less_than(operand: Any) -> Test:
    if operand is None:
        return never
    kinds = ORDERED.get(type(operand))
    if kinds is not None:
        return lambda value: type(value) in kinds and value < operand
    goal = place(operand)
    kind = goal[0]
    return lambda value: RANKS.get(type(value)) == kind and place(value) < goal


def at_most(operand: Any) -> Test:
    if operand is None:
        return is_null
    kinds = ORDERED.get(type(operand))
    if kinds is not None:
        return lambda value: type(value) in kinds and value <= operand
    goal = place(operand)
    kind = goal[0]
    return lambda value: RANKS.get(type(value)) == kind and place(value) <= goal


COMPARISONS: Final[dict[str, Callable[[Any], Test]]] = {
    "$eq": equal_to,
    "$gt": greater_than,
    "$gte": at_least,
    "$lt": less_than,
    "$lte": at_most,
}


def one_of(operands: Sequence[Any], patterns: Sequence[Pattern[str]]) -> Test:
    """Compile ``$in``: the value equals an operand, or is a string that one of the patterns matches."""
    hashed = frozenset([each for each in operands if type(each) in _HASHED])
    places = frozenset([place(each) for each in operands if type(each) not in _HASHED])
    null = None in operands
    searches = [search_of(pattern) for pattern in patterns]

    def test(value: Any) -> bool:
        kind = type(value)
        if kind in _HASHED:
            if value in hashed:
                return True
            return bool(searches) and kind is str and any(search(value) for search in searches)
        if value is MISSING:
            return null
        return bool(places) and place(value) in places

    return test


def found_by(pattern: Pattern[str]) -> Test:
    search = search_of(pattern)
    return lambda value: type(value) is str and bool(search(value))


def remainder(divisor: int, rest: int) -> Test:
    """Compile ``$mod``. Numbers are truncated to integers, and the remainder has the sign of the number."""
    size = abs(divisor)

    def test(value: Any) -> bool:
        if type(value) not in NUMBERS or not math.isfinite(value):
            return False
        whole = int(value)
        left = abs(whole) % size
        return (-left if whole < 0 else left) == rest

    return test


def of_size(size: int) -> Test:
    return lambda value: type(value) is list and len(value) == size
