"""Arithmetic operators of expressions.

A null or missing operand gives null. As in MongoDB, ``$add`` and ``$subtract`` accept dates, and
numbers combined with a date count milliseconds.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from lowtide.documents.aggregation import numerics
from lowtide.documents.aggregation.context import (
    FAILURES,
    BadOperand,
    Build,
    Context,
    Evaluate,
    Variables,
    described,
    reason,
    several,
    unary,
    whole_number,
)
from lowtide.documents.aggregation.numerics import Number, number
from lowtide.errors import OperationFailure
from lowtide.values.paths import MISSING
from lowtide.values.values import Document, microseconds


def shifted(moment: datetime, milliseconds: Any) -> datetime:
    """Return ``moment`` plus a number of milliseconds."""
    try:
        return moment + timedelta(microseconds=round(milliseconds * 1000))
    except (OverflowError, ValueError) as error:
        raise BadOperand(f"{moment} plus {milliseconds} milliseconds is out of range for a date") from error


def _add(*values: Any) -> Any:
    moment: datetime | None = None
    total: Any = 0
    for value in values:
        if isinstance(value, datetime):
            if moment is not None:
                raise BadOperand("expected at most one date")
            moment = value
        else:
            total = numerics.add(total, number(value))
    return total if moment is None else shifted(moment, total)


def _subtract(first: Any, second: Any) -> Any:
    if isinstance(first, datetime):
        if isinstance(second, datetime):
            between = microseconds(first) - microseconds(second)
            return abs(between) // 1000 * (1 if between > 0 else -1)
        return shifted(first, -number(second))
    return numerics.subtract(number(first), number(second))


def _multiply(*values: Any) -> Number:
    product: Number = 1
    for value in values:
        product = numerics.multiply(product, number(value))
    return product


def _rounding(*, truncate: bool) -> Callable[..., Number]:
    def function(value: Any, places: Any = 0) -> Number:
        whole = whole_number(places)
        if whole is None or not -20 <= whole <= 100:
            raise BadOperand(f"the place must be an integer from -20 to 100, got {described(places)}")
        return numerics.rounded(number(value), whole, truncate=truncate)

    return function


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*values: Any) -> Any:
        return function(*map(number, values))

    return checked


def _of_two(quick: Callable[[Any, Any], Any], function: Callable[..., Any], least: int, most: int | None) -> Build:
    """Build an operator that calls ``quick`` for two ints or floats, the common case, else ``function``."""
    general = several(function, least, most)

    def build(operand: Any, context: Context) -> Evaluate:
        if not isinstance(operand, list) or len(operand) != 2:
            return general(operand, context)
        first, second = context.operands(operand, 2, 2)

        def evaluate(document: Document, variables: Variables) -> Any:
            left, right = first(document, variables), second(document, variables)
            if type(left) in _QUICK and type(right) in _QUICK:
                try:
                    result = quick(left, right)
                except OverflowError:
                    result = math.nan
                if result == result:
                    return result
            if left is None or left is MISSING or right is None or right is MISSING:
                return None
            try:
                return function(left, right)
            except FAILURES as error:
                raise OperationFailure(f"{context.where}: {reason(error)}") from error

        return evaluate

    return build


_QUICK: Final = frozenset((int, float))

OPERATORS: Final[dict[str, Build]] = {
    "$abs": unary(_of_numbers(abs)),
    "$add": _of_two(operator.add, _add, 0, None),
    "$ceil": unary(_of_numbers(numerics.ceiled)),
    "$divide": several(_of_numbers(numerics.divide), 2, 2),
    "$exp": unary(_of_numbers(numerics.exponential)),
    "$floor": unary(_of_numbers(numerics.floored)),
    "$ln": unary(_of_numbers(numerics.logarithm)),
    "$log": several(_of_numbers(numerics.logarithm), 2, 2),
    "$log10": unary(_of_numbers(numerics.decimal_logarithm)),
    "$mod": several(_of_numbers(numerics.remainder), 2, 2),
    "$multiply": _of_two(operator.mul, _multiply, 0, None),
    "$pow": several(_of_numbers(numerics.power), 2, 2),
    "$round": several(_rounding(truncate=False), 1, 2),
    "$sqrt": unary(_of_numbers(numerics.root)),
    "$subtract": _of_two(operator.sub, _subtract, 2, 2),
    "$trunc": several(_rounding(truncate=True), 1, 2),
}
