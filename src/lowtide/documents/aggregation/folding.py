"""Sums, averages, minima, maxima and deviations, for groups and for the operands of an expression.

Sums, averages and deviations ignore values that are not numbers. Minima and maxima ignore null and
missing values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from lowtide.documents.aggregation.context import (
    FAILURES,
    Build,
    Context,
    Evaluate,
    Variables,
    place_of,
    reason,
)
from lowtide.documents.aggregation.numerics import NUMBERS, add, checked, divide
from lowtide.errors import OperationFailure
from lowtide.values.paths import MISSING
from lowtide.values.values import Document


def total(values: Iterable[Any]) -> Any:
    found: Any = 0
    for value in values:
        if type(value) in NUMBERS:
            found = add(found, value)
    return found


def average(values: Iterable[Any]) -> Any:
    numbers = [value for value in values if type(value) in NUMBERS]
    return divide(total(numbers), len(numbers)) if numbers else None


def least(values: Iterable[Any]) -> Any:
    return min((value for value in values if value is not None and value is not MISSING), key=place_of, default=None)


def greatest(values: Iterable[Any]) -> Any:
    return max((value for value in values if value is not None and value is not MISSING), key=place_of, default=None)


class Spread:
    """Running mean and sum of squared deviations, by Welford's method."""

    __slots__ = ("count", "deviations", "mean")

    def __init__(self) -> None:
        self.count, self.mean, self.deviations = 0, 0.0, 0.0

    def meet(self, value: Any) -> None:
        if type(value) in NUMBERS:
            self.count += 1
            delta = float(value) - self.mean
            self.mean += delta / self.count
            self.deviations += delta * (float(value) - self.mean)

    def deviation(self, *, sample: bool) -> float | None:
        """Return the standard deviation; None without numbers, or for a sample of fewer than two."""
        freedom = self.count - 1 if sample else self.count
        return math.sqrt(checked(self.deviations / freedom)) if freedom > 0 else None


def _deviation(values: Iterable[Any], *, sample: bool) -> float | None:
    spread = Spread()
    for value in values:
        spread.meet(value)
    return spread.deviation(sample=sample)


def _folding(function: Callable[[Iterable[Any]], Any]) -> Build:
    """Build an operator that folds its operands, or the elements of a single array operand."""

    def build(operand: Any, context: Context) -> Evaluate:
        inner = context.operands(operand, 0, None)

        def evaluate(document: Document, variables: Variables) -> Any:
            values = [each(document, variables) for each in inner]
            try:
                return function(values[0] if len(values) == 1 and isinstance(values[0], list) else values)
            except FAILURES as error:
                raise OperationFailure(f"{context.where}: {reason(error)}") from error

        return evaluate

    return build


OPERATORS: Final[dict[str, Build]] = {
    "$avg": _folding(average),
    "$max": _folding(greatest),
    "$min": _folding(least),
    "$stdDevPop": _folding(lambda values: _deviation(values, sample=False)),
    "$stdDevSamp": _folding(lambda values: _deviation(values, sample=True)),
    "$sum": _folding(total),
}
