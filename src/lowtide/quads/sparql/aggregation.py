"""GROUP BY and aggregates. Counts, extremes, and sums of inlined integers are computed over ids."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rdflib.namespace import XSD
from rdflib.plugins.sparql.aggregates import type_safe_numbers
from rdflib.plugins.sparql.datatypes import type_promotion
from rdflib.plugins.sparql.operators import numeric
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.sparql import SPARQLError
from rdflib.term import Identifier, Literal

from lowtide.errors import UsageError
from lowtide.quads import ids
from lowtide.quads.sparql.demand import PLAIN
from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.ordering import ranks
from lowtide.quads.sparql.tables import Column, Index, Solutions, groups, unit

if TYPE_CHECKING:
    from lowtide.quads.sparql.evaluation import Evaluation

BETWEEN_CHECKS = 256
"""Groups between two checks of the clock, where each is computed by itself."""
SAFE_SUM = 1 << 62
"""Sums of int64 below this cannot have overflowed on the way."""


def aggregated(run: Evaluation, part: CompValue, active: ActiveGraph) -> Solutions:
    """The solutions of an AggregateJoin: one for each group, with the values of the aggregates."""
    table = run.whole(part.p.p, active, PLAIN)
    keys = part.p.expr
    if keys is None:
        numbers, count = np.zeros(table.size, np.intp), 1
    else:
        columns = [run.expressions.column(key, table, active) for key in keys]
        first, numbers = groups(columns, table.size)
        count = len(first)
        if not count:
            return unit()
    aggregates = Aggregates(run, table, active, numbers, count)
    return Solutions({each.res: aggregates.column(each) for each in part.A}, count)


class Aggregates:
    """The aggregates of one grouped table. ``numbers`` says which group each row belongs to."""

    def __init__(self, run: Evaluation, table: Solutions, active: ActiveGraph, numbers: Index, count: int) -> None:
        self._run = run
        self._table = table
        self._active = active
        self._numbers = numbers
        self._count = count

    def column(self, aggregate: CompValue) -> Column:
        """The value of an aggregate for each group."""
        self._run.deadline.check()
        if aggregate.name == "Aggregate_Count" and aggregate.vars == "*":
            return self._counted(list(self._table.columns.values()), self._numbers, bool(aggregate.distinct))
        values = self._run.expressions.column(aggregate.vars, self._table, self._active)
        rows = np.flatnonzero(values)
        values, numbers = values[rows], self._numbers[rows]
        if aggregate.name == "Aggregate_Count":
            return self._counted([values], numbers, bool(aggregate.distinct))
        if aggregate.name == "Aggregate_Sample":
            return self._first(values, numbers)
        if aggregate.name in ("Aggregate_Min", "Aggregate_Max"):
            return self._extreme(values, numbers, aggregate.name == "Aggregate_Max")
        if aggregate.distinct:
            first, _ = groups([numbers.astype(np.uint64), values], len(values))
            values, numbers = values[first], numbers[first]
        if aggregate.name == "Aggregate_GroupConcat":
            separator = " " if aggregate.separator is None else str(aggregate.separator)
            return self._by_group(values, numbers, lambda terms: Literal(separator.join(str(term) for term in terms)))
        if aggregate.name not in ("Aggregate_Sum", "Aggregate_Avg"):
            raise UsageError(f"the aggregate {aggregate.name!r} is not known; use one of SPARQL 1.1")
        average = aggregate.name == "Aggregate_Avg"
        summed = self._integers(values, numbers, average)
        return self._by_group(values, numbers, _average if average else _sum) if summed is None else summed

    def _literals(self, values: list[Any]) -> Column:
        return self._run.terms.column_of([None if value is None else Literal(value) for value in values])

    def _whole(self, values: NDArray[np.int64]) -> Column:
        found = ids.integer_ids(values)
        return self._literals(values.tolist()) if found is None else found

    def _counted(self, columns: list[Column], numbers: Index, distinct: bool) -> Column:
        if distinct:
            first, _ = groups([numbers.astype(np.uint64), *columns], len(numbers))
            numbers = numbers[first]
        return self._whole(np.bincount(numbers, minlength=self._count))

    def _first(self, values: Column, numbers: Index) -> Column:
        result = np.zeros(self._count, np.uint64)
        result[numbers[::-1]] = values[::-1]  # the last assignment to a place is the one that stays
        return result

    def _extreme(self, values: Column, numbers: Index, largest: bool) -> Column:
        order = np.lexsort((ranks(values, self._run.terms, self._run.deadline), numbers))
        if largest:
            order = order[::-1]
        return self._first(values[order], numbers[order])

    def _integers(self, values: Column, numbers: Index, average: bool) -> Column | None:
        """Sums or averages of groups that have inlined integers alone; None if one has another value."""
        if not ids.is_integer(values).all():
            return None
        integers = ids.integers(values)
        if len(integers) and float(np.abs(integers.astype(np.float64)).sum()) >= SAFE_SUM:
            return None
        sums = np.zeros(self._count, np.int64)
        np.add.at(sums, numbers, integers)
        if not average:
            return self._whole(sums)
        counts = np.bincount(numbers, minlength=self._count).tolist()
        pairs = zip(sums.tolist(), counts, strict=True)
        return self._literals([Decimal(total) / Decimal(count) if count else 0 for total, count in pairs])

    def _by_group(self, values: Column, numbers: Index, function: Any) -> Column:
        """Apply a function to the terms of each group, in the order of the rows."""
        order = np.argsort(numbers, kind="stable")
        terms = self._run.terms.terms_of(values[order])
        ends = np.searchsorted(numbers[order], np.arange(self._count), "right").tolist()
        results: list[Identifier | None] = []
        start = 0
        for number, end in enumerate(ends):
            if number % BETWEEN_CHECKS == 0:
                self._run.deadline.check()
            results.append(function(terms[start:end]))
            start = end
        return self._run.terms.column_of(results)


def _numbers(terms: list[Identifier]) -> Iterator[tuple[Any, Any]]:
    for term in terms:
        if not isinstance(term, Literal):
            raise SPARQLError(f"{term!r} is not a number")
        yield numeric(term), term.datatype


def _sum(terms: list[Identifier]) -> Literal | None:
    """The sum of a group; None if a value is not a number."""
    total, datatype = 0, None
    try:
        for number, kind in _numbers(terms):
            datatype = kind if datatype is None else type_promotion(datatype, kind)
            total = sum(type_safe_numbers(total, number))
    except SPARQLError:
        return None
    return Literal(total, datatype=datatype)


def _average(terms: list[Identifier]) -> Literal | None:
    """The average of a group; None if a value is not a number."""
    total = _sum(terms)
    if total is None or not terms:
        return None if total is None else Literal(0)
    value = numeric(total)
    if total.datatype in (XSD.float, XSD.double):
        return Literal(value / len(terms))
    return Literal(Decimal(value) / Decimal(len(terms)))
