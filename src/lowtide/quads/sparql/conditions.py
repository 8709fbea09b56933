"""Filters over tables: comparisons of ids where the ids say enough, and rdflib's own evaluation of the rest.

Truth is 1, 0, or -1 for an error, as the standard's three-valued logic wants it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rdflib.plugins.sparql.parserutils import Expr
from rdflib.term import Identifier, Literal, URIRef, Variable

from lowtide.quads import ids
from lowtide.quads.ids import IdKind
from lowtide.quads.sparql.exists import exists
from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.operands import EXISTS, conjuncts
from lowtide.quads.sparql.tables import Column, Mask, Solutions
from lowtide.quads.sparql.text import is_plain, text_test

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lowtide.quads.sparql.evaluation import Evaluation

    Truth = NDArray[np.int8]

COMPARE: Final[dict[str, Callable[[Column, Column], Mask]]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
ORDERED: Final = np.array([kind in (IdKind.INTEGER, IdKind.DATE, IdKind.DATETIME) for kind in range(16)])
"""Kinds whose ids are in the order of the values, and equal if the values are."""
NAMED: Final = np.array([kind in (IdKind.IRI, IdKind.BNODE) for kind in range(16)])
"""Kinds that are equal if, and only if, the ids are, and have no order."""
TESTS: Final[dict[str, Callable[[Column], Mask]]] = {
    "Builtin_isIRI": ids.is_iri,
    "Builtin_isURI": ids.is_iri,
    "Builtin_isBLANK": ids.is_bnode,
    "Builtin_isLITERAL": ids.is_literal,
}
LAST_KIND: Final = IdKind.SHORT_TEXT


class Conditions:
    """Decides which rows of a table a filter keeps."""

    def __init__(self, run: Evaluation) -> None:
        self._run = run

    def holding(self, expression: Any, table: Solutions, active: ActiveGraph) -> Solutions:
        """The rows for which an expression is true."""
        for each in conjuncts(expression):
            if not table.size:
                break
            self._run.deadline.check()
            table = table.where(self.truth(each, table, active) == 1)
        return table

    def truth(self, expression: Any, table: Solutions, active: ActiveGraph) -> Truth:
        """The truth of an expression for each row."""
        if isinstance(expression, Expr):
            name = expression.name
            if name in ("ConditionalAndExpression", "ConditionalOrExpression"):
                operands = [expression.expr, *(expression.other or ())]
                return self._connected(operands, name == "ConditionalOrExpression", table, active)
            if name == "UnaryNot":
                inner = self.truth(expression.expr, table, active)
                return np.where(inner < 0, inner, 1 - inner).astype(np.int8)
            if name in EXISTS:
                found = exists(self._run, expression.graph, table, active)
                return np.asarray(found == (name == "Builtin_EXISTS"), np.int8)
            if name == "TrueFilter":
                return np.ones(table.size, np.int8)
            if name == "Builtin_BOUND" and isinstance(expression.arg, Variable):
                return np.asarray(self._column(expression.arg, table) != 0, np.int8)
            if name in TESTS and isinstance(expression.arg, Variable):
                return self._tested(expression, table, active)
            if (test := text_test(expression)) is not None:
                return self._text(expression, test, table, active)
            if name == "RelationalExpression" and expression.op in COMPARE:
                return self._compared(expression, table, active)
        return self._run.expressions.truth(expression, table, active)

    def _connected(self, operands: list[Any], any_of: bool, table: Solutions, active: ActiveGraph) -> Truth:
        """AND, or OR: what one operand decides, the others need not."""
        decisive = 1 if any_of else 0
        result = np.full(table.size, 1 - decisive, np.int8)
        for each in operands:
            rows = np.flatnonzero(result != decisive)
            if not len(rows):
                break
            truth = self.truth(each, table if len(rows) == table.size else table.take(rows), active)
            decided = truth == decisive
            result[rows[decided]] = decisive
            result[rows[truth < 0]] = -1
        return result

    def _column(self, name: Identifier, table: Solutions) -> Column:
        return self._run.completed(table, frozenset((name,))).column(name)

    def _tested(self, expression: Expr, table: Solutions, active: ActiveGraph) -> Truth:
        column = self._column(expression.arg, table)
        result = TESTS[expression.name](column).astype(np.int8)
        result[column == 0] = -1
        return self._generic(expression, table, active, result, ids.kinds(column) > LAST_KIND)

    def _text(
        self, expression: Expr, test: tuple[Variable, Callable[[str], bool]], table: Solutions, active: ActiveGraph
    ) -> Truth:
        """A test of plain strings, each distinct one once."""
        column = self._column(test[0], table)
        distinct, inverse = np.unique(column, return_inverse=True)
        terms = self._run.terms.terms_of(distinct)
        self._run.deadline.check()
        truth = [int(test[1](str(term))) if is_plain(term) else -2 for term in terms]
        result = np.array(truth, np.int8)[inverse]
        return self._generic(expression, table, active, result, result == -2)

    def _generic(self, expression: Expr, table: Solutions, active: ActiveGraph, result: Truth, rest: Mask) -> Truth:
        """The truth of some rows by rdflib's evaluation, as their ids do not say enough."""
        if rest.any():
            rows = np.flatnonzero(rest)
            result[rows] = self._run.expressions.truth(expression, table.take(rows), active)
        return result

    def _compared(self, expression: Expr, table: Solutions, active: ActiveGraph) -> Truth:
        sides = [self._side(side, table) for side in (expression.expr, expression.other)]
        left, right = sides
        if left is None or right is None:
            return self._run.expressions.truth(expression, table, active)
        kinds, others = ids.kinds(left).astype(np.intp), ids.kinds(right).astype(np.intp)
        same = kinds == others
        decided = same & ORDERED[kinds]
        if expression.op in ("=", "!="):
            decided |= same & NAMED[kinds]
        result = COMPARE[expression.op](left, right).astype(np.int8)
        unbound = (left == 0) | (right == 0)
        result[unbound] = -1
        return self._generic(expression, table, active, result, ~(decided | unbound))

    def _side(self, side: Any, table: Solutions) -> Column | None:
        if isinstance(side, Variable):
            return self._column(side, table)
        if isinstance(side, Literal | URIRef):
            return np.full(table.size, self._run.terms.id_of(side), np.uint64)
        return None
