"""Comparisons, boolean operators and conditions of expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from lowtide.documents.aggregation.context import (
    Build,
    Context,
    Evaluate,
    Variables,
    nothing,
    place_of,
    truth,
)
from lowtide.values.paths import MISSING
from lowtide.values.values import Document

_ORDERED: Final = frozenset((str, int, float))
"""Types whose own order is the comparison order, between two values of the same type."""


def _comparison(compare: Callable[[Any, Any], Any]) -> Build:
    def build(operand: Any, context: Context) -> Evaluate:
        first, second = context.operands(operand, 2, 2)

        def evaluate(document: Document, variables: Variables) -> Any:
            left, right = first(document, variables), second(document, variables)
            kind = type(left)
            if kind is type(right) and kind in _ORDERED:
                return compare(left, right)
            return compare(place_of(left), place_of(right))

        return evaluate

    return build


def _order(first: Any, second: Any) -> int:
    return bool(first > second) - bool(first < second)


def _and(operand: Any, context: Context) -> Evaluate:
    inner = context.operands(operand, 0, None)
    return lambda document, variables: all(truth(each(document, variables)) for each in inner)


def _or(operand: Any, context: Context) -> Evaluate:
    inner = context.operands(operand, 0, None)
    return lambda document, variables: any(truth(each(document, variables)) for each in inner)


def _not(operand: Any, context: Context) -> Evaluate:
    (inner,) = context.operands(operand)
    return lambda document, variables: not truth(inner(document, variables))


def _cond(operand: Any, context: Context) -> Evaluate:
    if isinstance(operand, dict):
        given = context.named(operand, ("if", "then", "else"))
        operand = [given["if"], given["then"], given["else"]]
    condition, then, otherwise = context.operands(operand, 3, 3)

    def evaluate(document: Document, variables: Variables) -> Any:
        chosen = then if truth(condition(document, variables)) else otherwise
        return chosen(document, variables)

    return evaluate


def _if_null(operand: Any, context: Context) -> Evaluate:
    *inner, last = context.operands(operand, 2, None)

    def evaluate(document: Document, variables: Variables) -> Any:
        for each in inner:
            value = each(document, variables)
            if value is not None and value is not MISSING:
                return value
        return last(document, variables)

    return evaluate


def _switch(operand: Any, context: Context) -> Evaluate:
    given = context.named(operand, ("branches",), ("default",))
    if not isinstance(given["branches"], list) or not given["branches"]:
        context.fail("branches must be a non-empty array of {case, then}")
    branches = []
    for number, each in enumerate(given["branches"]):
        branch = context.at(f"branch {number}").named(each, ("case", "then"))
        branches.append((context.compile(branch["case"]), context.compile(branch["then"])))
    default = context.compile(given["default"]) if "default" in given else nothing
    has_default = "default" in given

    def evaluate(document: Document, variables: Variables) -> Any:
        for case, then in branches:
            if truth(case(document, variables)):
                return then(document, variables)
        if not has_default:
            context.fail("no branch matches, and there is no default")
        return default(document, variables)

    return evaluate


OPERATORS: Final[dict[str, Build]] = {
    "$and": _and,
    "$cmp": _comparison(_order),
    "$cond": _cond,
    "$eq": _comparison(operator.eq),
    "$gt": _comparison(operator.gt),
    "$gte": _comparison(operator.ge),
    "$ifNull": _if_null,
    "$lt": _comparison(operator.lt),
    "$lte": _comparison(operator.le),
    "$ne": _comparison(operator.ne),
    "$not": _not,
    "$or": _or,
    "$switch": _switch,
}
