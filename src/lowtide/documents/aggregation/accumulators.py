"""The accumulators of $group and $bucket.

The state of a group is a row: a list with one slot per accumulator. One call folds a chunk of
documents into the rows of their groups. The loop is therefore inside the accumulator, and common
cases make no further calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from lowtide.documents.aggregation.arrays import merged
from lowtide.documents.aggregation.context import (
    FAILURES,
    Context,
    Variables,
    described,
    hashable,
    place_of,
    reason,
)
from lowtide.documents.aggregation.expressions import flat_field, is_constant
from lowtide.documents.aggregation.folding import Spread
from lowtide.documents.aggregation.numerics import NUMBERS, add, checked, divide
from lowtide.errors import OperationFailure
from lowtide.values.paths import MISSING
from lowtide.values.values import Document

Row = list[Any]
Fold = Callable[[Sequence[Row], int, Sequence[Document], Variables], None]
"""Folds documents into one slot of the rows of their groups."""

_ORDERED: Final = frozenset((str, int, float))
"""Types whose own order is the comparison order, between two values of the same type."""


@dataclass(frozen=True)
class Accumulator:
    begin: Callable[[], Any]
    fold: Fold
    finish: Callable[[Any], Any] | None = None
    """Converts the state to the result; None if the state is the result."""


BuildAccumulator = Callable[[Any, Context], Accumulator]


def compile_accumulator(specification: Any, context: Context) -> Accumulator:
    """Compile an accumulator such as ``{"$sum": expression}``."""
    if not isinstance(specification, dict) or len(specification) != 1:
        context.fail(f"expected an object with one accumulator, such as {{'$sum': 1}}, got {described(specification)}")
    ((name, operand),) = specification.items()
    if name not in ACCUMULATORS:
        context.fail(f"unknown accumulator {name}")
    inner = context.at(name)
    made = ACCUMULATORS[name](operand, inner)
    return Accumulator(made.begin, _naming(made.fold, inner), made.finish and _naming(made.finish, inner))


def _naming(function: Callable[..., Any], context: Context) -> Callable[..., Any]:
    """Wrap ``function`` so that its errors name the accumulator."""

    def named(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except FAILURES as error:
            raise OperationFailure(f"{context.where}: {reason(error)}") from error

    return named


def values_of(operand: Any, context: Context) -> Callable[[Sequence[Document], Variables], list[Any]]:
    """Return a function that evaluates an expression for each document of a chunk."""
    evaluate = context.compile(operand)
    name = flat_field(operand)
    if name is not None:
        return lambda documents, variables: [document.get(name, MISSING) for document in documents]
    return lambda documents, variables: [evaluate(document, variables) for document in documents]


def _sum(operand: Any, context: Context) -> Accumulator:
    if is_constant(operand):
        return _count(operand if type(operand) in NUMBERS else 0)
    values = values_of(operand, context)

    def fold(rows: Sequence[Row], at: int, documents: Sequence[Document], variables: Variables) -> None:
        for row, value in zip(rows, values(documents, variables), strict=True):
            kind = type(value)
            if (kind is int or kind is float) and type(row[at]) is not Decimal:
                row[at] += value
            elif kind in NUMBERS:
                row[at] = add(row[at], value)

    return Accumulator(lambda: 0, fold, checked)


def _count(step: Any) -> Accumulator:
    if type(step) is Decimal:
        zero = Decimal(0)
        return Accumulator(lambda: zero, _adding(step))

    def fold(rows: Sequence[Row], at: int, documents: Sequence[Document], variables: Variables) -> None:
        for row in rows:
            row[at] += step

    return Accumulator(lambda: 0, fold)


def _adding(step: Any) -> Fold:
    def fold(rows: Sequence[Row], at: int, documents: Sequence[Document], variables: Variables) -> None:
        for row in rows:
            row[at] = add(row[at], step)

    return fold


def _counting(operand: Any, context: Context) -> Accumulator:
    if operand != {}:
        context.fail(f"expected {{}}, got {described(operand)}")
    return _count(1)


def _avg(operand: Any, context: Context) -> Accumulator:
    values = values_of(operand, context)

    def fold(rows: Sequence[Row], at: int, documents: Sequence[Document], variables: Variables) -> None:
        for row, value in zip(rows, values(documents, variables), strict=True):
            if type(value) in NUMBERS:
                state = row[at]
                state[0] += 1
                state[1] = add(state[1], value)

    return Accumulator(lambda: [0, 0], fold, lambda state: divide(state[1], state[0]) if state[0] else None)


def _extreme(*, largest: bool) -> BuildAccumulator:
    def build(operand: Any, context: Context) -> Accumulator:
        values = values_of(operand, context)

        def fold(rows: Sequence[Row], at: int, documents: Sequence[Document], variables: Variables) -> None:
            for row, value in zip(rows, values(documents, variables), strict=True):
                if value is None or value is MISSING:
                    continue
                best = row[at]
                kind = type(value)
                if kind is type(best) and kind in _ORDERED:
                    if (value > best) if largest else (value < best):
                        row[at] = value
                elif best is None:
                    row[at] = value
                else:
                    new, old = place_of(value), place_of(best)
                    if (new > old) if largest else (new < old):
                        row[at] = value

        return Accumulator(lambda: None, fold)

    return build


_UNSEEN: Final = object()
"""The state of $first before the first document."""


def _first(operand: Any, context: Context) -> Accumulator:
    evaluate = context.compile(operand)

    def fold(rows: Sequence[Row], at: int, documents: Sequence[Document], variables: Variables) -> None:
        for row, document in zip(rows, documents, strict=True):
            if row[at] is _UNSEEN:
                row[at] = evaluate(document, variables)

    return Accumulator(lambda: _UNSEEN, fold, _present)


def _last(operand: Any, context: Context) -> Accumulator:
    values = values_of(operand, context)

    def fold(rows: Sequence[Row], at: int, documents: Sequence[Document], variables: Variables) -> None:
        for row, value in zip(rows, values(documents, variables), strict=True):
            row[at] = value

    return Accumulator(lambda: None, fold, _present)


def _present(value: Any) -> Any:
    return None if value is MISSING else value


def _each(
    begin: Callable[[], Any], meet: Callable[[Any, Any], Any], finish: Callable[[Any], Any] | None = None
) -> BuildAccumulator:
    """Build an accumulator that updates its state in place with each value that is not missing."""

    def build(operand: Any, context: Context) -> Accumulator:
        values = values_of(operand, context)

        def fold(rows: Sequence[Row], at: int, documents: Sequence[Document], variables: Variables) -> None:
            for row, value in zip(rows, values(documents, variables), strict=True):
                if value is not MISSING:
                    meet(row[at], value)

        return Accumulator(begin, fold, finish)

    return build


def _merge(state: Document, value: Any) -> None:
    state.update(merged(value))


def _constant_n(given: Any, context: Context) -> int:
    if type(given) is not int or given < 1:
        context.fail(f"n must be a positive integer, got {described(given)}")
    return given


class _Best:
    """Keeps the first ``n`` values in key order. Among equal keys, those added first win."""

    __slots__ = ("held", "n", "reverse")

    def __init__(self, n: int, *, reverse: bool) -> None:
        self.n, self.reverse = n, reverse
        self.held: list[tuple[Any, Any]] = []

    def meet(self, key: Any, value: Any) -> None:
        self.held.append((key, value))
        if len(self.held) > 2 * self.n + 16:
            self.cut()

    def cut(self) -> None:
        self.held.sort(key=_key, reverse=self.reverse)
        del self.held[self.n :]

    def values(self) -> list[Any]:
        self.cut()
        return [_present(value) for _, value in self.held]


def _key(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _n_values(*, last: bool) -> BuildAccumulator:
    """Build $firstN or $lastN. A missing value counts as null."""

    def build(operand: Any, context: Context) -> Accumulator:
        given = context.named(operand, ("n", "input"))
        n, values = _constant_n(given["n"], context), values_of(given["input"], context)

        def fold(rows: Sequence[Row], at: int, documents: Sequence[Document], variables: Variables) -> None:
            for row, value in zip(rows, values(documents, variables), strict=True):
                state = row[at]
                if last or len(state) < n:
                    state.append(_present(value))
                if len(state) > n:
                    del state[0]

        return Accumulator(list, fold)

    return build


def _n_extremes(*, largest: bool) -> BuildAccumulator:
    def build(operand: Any, context: Context) -> Accumulator:
        given = context.named(operand, ("n", "input"))
        n = _constant_n(given["n"], context)

        def meet(state: _Best, value: Any) -> None:
            if value is not None:
                state.meet(place_of(value), value)

        return _each(lambda: _Best(n, reverse=largest), meet, _Best.values)(given["input"], context)

    return build


def _ranked(*, bottom: bool, several: bool) -> BuildAccumulator:
    """Build $top, $topN, $bottom or $bottomN: the output for the first or last documents in a sort order."""

    def build(operand: Any, context: Context) -> Accumulator:
        given = context.named(operand, ("n", "sortBy", "output") if several else ("sortBy", "output"))
        n = _constant_n(given["n"], context) if several else 1
        sort = context.at("sortBy").sort(given["sortBy"])
        values = values_of(given["output"], context)

        def fold(rows: Sequence[Row], at: int, documents: Sequence[Document], variables: Variables) -> None:
            for row, document, value in zip(rows, documents, values(documents, variables), strict=True):
                row[at].meet(sort.key(document), value)

        def finish(state: _Best) -> Any:
            found = state.values()[::-1] if bottom else state.values()
            return found if several else found[0]

        return Accumulator(lambda: _Best(n, reverse=bottom), fold, finish)

    return build


ACCUMULATORS: Final[dict[str, BuildAccumulator]] = {
    "$addToSet": _each(
        dict, lambda state, value: state.setdefault(hashable(value), value), lambda state: list(state.values())
    ),
    "$avg": _avg,
    "$bottom": _ranked(bottom=True, several=False),
    "$bottomN": _ranked(bottom=True, several=True),
    "$count": _counting,
    "$first": _first,
    "$firstN": _n_values(last=False),
    "$last": _last,
    "$lastN": _n_values(last=True),
    "$max": _extreme(largest=True),
    "$maxN": _n_extremes(largest=True),
    "$mergeObjects": _each(dict, _merge),
    "$min": _extreme(largest=False),
    "$minN": _n_extremes(largest=False),
    "$push": _each(list, list.append),
    "$stdDevPop": _each(Spread, Spread.meet, lambda state: state.deviation(sample=False)),
    "$stdDevSamp": _each(Spread, Spread.meet, lambda state: state.deviation(sample=True)),
    "$sum": _sum,
    "$top": _ranked(bottom=False, several=False),
    "$topN": _ranked(bottom=False, several=True),
}
