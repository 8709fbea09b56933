"""Comparisons of top-level fields, the most common conditions.

Each is compiled to a single function, which saves a call compared with the general case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lowtide.documents.filters.operators import EQUATED, ORDERED
from lowtide.values.values import Document

Predicate = Callable[[Document], bool]
_Kinds = frozenset[type]


def compare_field(name: str, operator: str, operand: Any) -> Predicate | None:
    """Compile a comparison of a top-level field; None if Python compares such values differently from MongoDB."""
    kinds = (EQUATED if operator == "$eq" else ORDERED).get(type(operand))
    return None if kinds is None else _COMPARING[operator](name, operand, kinds)


def _equal(name: str, operand: Any, kinds: _Kinds) -> Predicate:
    def matches(document: Document) -> bool:
        value: Any = document.get(name)
        if type(value) in kinds:
            return value == operand  # type: ignore[no-any-return]
        return type(value) is list and any(type(each) in kinds and each == operand for each in value)

    return matches


def _greater(name: str, operand: Any, kinds: _Kinds) -> Predicate:
    def matches(document: Document) -> bool:
        value: Any = document.get(name)
        if type(value) in kinds:
            return value > operand  # type: ignore[no-any-return]
        return type(value) is list and any(type(each) in kinds and each > operand for each in value)

    return matches


def _at_least(name: str, operand: Any, kinds: _Kinds) -> Predicate:
    def matches(document: Document) -> bool:
        value: Any = document.get(name)
        if type(value) in kinds:
            return value >= operand  # type: ignore[no-any-return]
        return type(value) is list and any(type(each) in kinds and each >= operand for each in value)

    return matches


def _less(name: str, operand: Any, kinds: _Kinds) -> Predicate:
    def matches(document: Document) -> bool:
        value: Any = document.get(name)
        if type(value) in kinds:
            return value < operand  # type: ignore[no-any-return]
        return type(value) is list and any(type(each) in kinds and each < operand for each in value)

    return matches


def _at_most(name: str, operand: Any, kinds: _Kinds) -> Predicate:
    def matches(document: Document) -> bool:
        value: Any = document.get(name)
        if type(value) in kinds:
            return value <= operand  # type: ignore[no-any-return]
        return type(value) is list and any(type(each) in kinds and each <= operand for each in value)

    return matches


_COMPARING: Final[dict[str, Callable[[str, Any, _Kinds], Predicate]]] = {
    "$eq": _equal,
    "$gt": _greater,
    "$gte": _at_least,
    "$lt": _less,
    "$lte": _at_most,
}
