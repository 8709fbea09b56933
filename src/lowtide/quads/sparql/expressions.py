"""Expressions over tables: rdflib's own evaluation, once for each distinct combination of the variables they use."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from rdflib.plugins.sparql.evalutils import _eval
from rdflib.plugins.sparql.operators import EBV
from rdflib.plugins.sparql.sparql import FrozenBindings, SPARQLError
from rdflib.term import BNode, Identifier, Literal, URIRef, Variable

from lowtide.quads.sparql.exists import with_exists
from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.operands import VOLATILE, contains, copied
from lowtide.quads.sparql.tables import Column, Index, Solutions, groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lowtide.quads.sparql.evaluation import Evaluation

BETWEEN_CHECKS = 256
"""Evaluations between two checks of the clock."""


class Expressions:
    """Evaluates the expressions of one evaluation. Keeps copies of them, which no other evaluation uses."""

    def __init__(self, run: Evaluation) -> None:
        self._run = run
        self._copies: dict[int, tuple[Any, Any]] = {}

    def column(self, expression: Any, table: Solutions, active: ActiveGraph) -> Column:
        """The ids of an expression's values; not bound where it is an error."""
        if isinstance(expression, Variable | BNode):
            return self._run.completed(table, frozenset((expression,))).column(expression)
        if isinstance(expression, Literal | URIRef):
            return np.full(table.size, self._run.terms.id_of(expression), np.uint64)
        outcomes, inverse = self._outcomes(expression, table, active)
        return self._run.terms.column_of(outcomes)[inverse]

    def truth(self, expression: Any, table: Solutions, active: ActiveGraph) -> NDArray[np.int8]:
        """The effective boolean value of an expression: 1, 0, or -1 for an error."""
        outcomes, inverse = self._outcomes(expression, table, active)
        return np.array([_truth(each) for each in outcomes], np.int8)[inverse]

    def _outcomes(
        self, expression: Any, table: Solutions, active: ActiveGraph
    ) -> tuple[list[Identifier | None], Index]:
        """The distinct outcomes (None for an error), and for each row which of them is its own."""
        if contains(expression, VOLATILE) and table.blank is None:
            table.blank = [defaultdict(BNode) for _ in range(table.size)]
        blank = table.blank if contains(expression, VOLATILE) else None
        expression, table = with_exists(self._run, expression, table, active)
        mentioned = self._run.scopes.mentioned(expression)
        table = self._run.completed(table, mentioned)
        names = [name for name in table.columns if name in mentioned]
        if blank is not None:
            first = inverse = np.arange(table.size)
        else:
            first, inverse = groups([table.columns[name] for name in names], table.size)
        columns = [self._run.terms.terms_of(table.columns[name][first]) for name in names]
        copy = self._copy(expression)
        context = self._run.context
        outcomes: list[Identifier | None] = []
        for number in range(len(first)):
            if number % BETWEEN_CHECKS == 0:
                self._run.deadline.check()
            bound = zip(names, (column[number] for column in columns), strict=True)
            solution = FrozenBindings(context, [pair for pair in bound if pair[1] is not None])
            if blank is not None:
                context.bnodes = blank[number]
            outcomes.append(evaluated(copy, solution))
        return outcomes, inverse

    def _copy(self, expression: Any) -> Any:
        found = self._copies.get(id(expression))
        if found is None:
            # The original is kept, too, so that no other expression gets its identity.
            found = self._copies[id(expression)] = (copied(expression), expression)
        return found[0]


def evaluated(expression: Any, solution: FrozenBindings) -> Identifier | None:
    """The value of an expression for one solution; None for an error."""
    try:
        value = _eval(expression, solution)
    except SPARQLError:
        return None
    return value if isinstance(value, Identifier) and not isinstance(value, Variable) else None


def _truth(value: Identifier | None) -> int:
    if value is None:
        return -1
    try:
        return int(bool(EBV(value)))
    except SPARQLError:
        return -1
