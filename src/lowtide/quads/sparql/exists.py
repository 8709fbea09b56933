"""EXISTS and NOT EXISTS: a pattern evaluated for each solution, with the solution's bindings substituted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import Literal, Variable

from lowtide.quads.sparql.demand import Demand
from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.scopes import is_variable
from lowtide.quads.sparql.tables import Mask, Solutions, concatenated, groups, joined

if TYPE_CHECKING:
    from lowtide.quads.sparql.evaluation import Evaluation

ROW = Variable("-row")
"""The number of the solution that a pattern is asked for. No query can name it."""
TOGETHER = frozenset(("BGP", "Filter", "Join", "Union", "Graph"))
"""Parts for which putting bindings in is the same as joining with them."""


def exists(run: Evaluation, part: CompValue, table: Solutions, active: ActiveGraph) -> Mask:
    """For which rows of a table a pattern has a solution."""
    names = [name for name in table.columns if name in run.scopes.mentioned(part)]
    first, inverse = groups([table.columns[name] for name in names], table.size)
    keys = table.only(names).take(first)
    if not names:
        return np.full(table.size, run.any_solution(part, active), np.bool_)
    if _together(run, part):
        numbered = keys.plus(ROW, np.arange(1, keys.size + 1, dtype=np.uint64))
        found = np.zeros(keys.size, np.bool_)
        found[_injected(run, part, numbered, active).columns[ROW].astype(np.intp) - 1] = True
    else:
        rows = [keys.part(row, row + 1) for row in range(keys.size)]
        found = np.array([run.bound_to(_bound(row)).any_solution(part, active) for row in rows], np.bool_)
    return found[inverse]


def _bound(row: Solutions) -> Solutions:
    return row.only(name for name in row.columns if name not in row.partial)


def _together(run: Evaluation, part: CompValue) -> bool:
    if part.name not in TOGETHER:
        return False
    if part.name == "Graph" and is_variable(part.term):
        return False
    return all(_together(run, each) for each in (part.p, part.p1, part.p2) if isinstance(each, CompValue))


def _injected(run: Evaluation, part: CompValue, keys: Solutions, active: ActiveGraph) -> Solutions:
    """The solutions of a part for all keys at once; each has the number of its key."""
    if not keys.size:
        return keys
    if part.name == "Filter":
        return run.conditions.holding(part.expr, _injected(run, part.p, keys, active), active)
    if part.name == "Join":
        left = _injected(run, part.p1, keys, active)
        return joined(left, _injected(run, part.p2, keys, active))
    if part.name == "Union":
        return concatenated([_injected(run, part.p1, keys, active), _injected(run, part.p2, keys, active)])
    if part.name == "Graph":
        return _injected(run, part.p, keys, run.dataset.graph(run.terms.id_of(part.term)))
    hint = Demand(hint=keys).hinted(run.scopes.certain(part))
    return joined(keys, run.whole(part, active, hint))


def with_exists(run: Evaluation, expression: Any, table: Solutions, active: ActiveGraph) -> tuple[Any, Solutions]:
    """An expression with a variable in the place of each EXISTS, and the table with those variables."""
    lifted, asked = run.scopes.lifted(expression)
    for name, node in asked:
        truth = exists(run, node.graph, table, active) == (node.name == "Builtin_EXISTS")
        numbers = [run.terms.id_of(Literal(value)) for value in (False, True)]
        table = table.plus(name, np.array(numbers, np.uint64)[truth.astype(np.intp)])
    return lifted, table
