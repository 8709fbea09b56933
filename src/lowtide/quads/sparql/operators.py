"""The operators of the algebra over tables. Each gives the solutions of one part, in blocks.

What an operator may use of the demand (see ``Demand``) follows from bottom-up semantics. A hint is passed to a part for
the variables that the part binds in every solution. A filter is passed down if the part below binds the same of its
variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rdflib.plugins.sparql.parserutils import CompValue

from lowtide.quads.sparql.aggregation import aggregated
from lowtide.quads.sparql.bgp import Solver
from lowtide.quads.sparql.demand import PLAIN, Demand
from lowtide.quads.sparql.fallback import by_rdflib
from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.operands import EXISTS, UNDEFINED, conjuncts, contains, field
from lowtide.quads.sparql.ordering import ranks
from lowtide.quads.sparql.scopes import Names, is_variable
from lowtide.quads.sparql.tables import (
    Solutions,
    compatible,
    concatenated,
    distinct,
    groups,
    joined,
    merged,
    without,
)

if TYPE_CHECKING:
    from lowtide.quads.sparql.evaluation import Evaluation

    Operator = Callable[[Evaluation, CompValue, ActiveGraph, Demand], Iterator[Solutions]]

BLOCK: Final = 64
"""Where few solutions are wanted, at least this many are asked for at a time."""
PER_GRAPH: Final = frozenset(("BGP", "Join", "Filter", "Union", "LeftJoin"))
"""What can be evaluated for all named graphs at once, with the graph as one more variable."""


def blocks_of(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    """The solutions of a part, in blocks."""
    return OPERATORS.get(part.name, _fallback)(run, part, active, demand)


def _apply(run: Evaluation, filters: Sequence[Any], table: Solutions, active: ActiveGraph) -> Solutions:
    for each in filters:
        table = run.conditions.holding(each, table, active)
    return table


def _split(run: Evaluation, filters: Sequence[Any], names: Names) -> tuple[list[Any], list[Any]]:
    """The filters that a part can apply which binds ``names`` in every solution, and the others."""
    down: list[Any] = []
    rest: list[Any] = []
    for each in filters:
        wanted = run.scopes.mentioned(each)
        fits = wanted and wanted <= names and not contains(each, EXISTS)
        (down if fits else rest).append(each)
    return down, rest


def _bgp(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    triples = field(part, "triples")
    down: list[Any] = []
    rest: list[Any] = []
    if demand.filters:
        down, rest = _split(run, demand.filters, run.scopes.certain(part))
    if not triples and active.variable is not None:
        graphs = np.array(run.matcher.graph_numbers(active), np.uint64)
        yield _apply(
            run, demand.filters, joined(Solutions({active.variable: graphs}, len(graphs)), run.initial), active
        )
        return
    solver = Solver(run, active, demand, down)
    for table in solver.solve(part, triples):
        yield _apply(run, rest, table, active)


def _filter(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    return run.blocks(part.p, active, demand.with_filters(*demand.filters, *conjuncts(part.expr)))


def _join(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    parts = run.scopes.joins(part)
    certain = [run.scopes.certain(each) for each in parts]
    if not parts:
        yield _apply(run, demand.filters, run.initial, active)
        return
    wanted = []
    rest = list(demand.filters)
    for names in certain:
        down, rest = _split(run, rest, names)
        wanted.append(down)
    first = demand.hinted(certain[0]).with_filters(*wanted[0])
    for block in run.blocks(parts[0], active, first):
        table = block
        for other, names, filters in zip(parts[1:], certain[1:], wanted[1:], strict=True):
            if not table.size:
                break
            if other.name == "ServiceGraphPattern":
                table = by_rdflib(run, other, active, table)
                continue
            below = Demand(hint=table).hinted(names)
            if below.hint is None:
                below = Demand(hint=demand.hint).hinted(names)
            table = joined(table, run.once(other, active, below.with_filters(*filters)))
        yield _apply(run, rest, table, active)


def _left_join(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    certain = run.scopes.certain(part.p1)
    down, rest = _split(run, demand.filters, certain)
    optional = run.scopes.certain(part.p2)
    conditions = list(conjuncts(part.expr))
    for table in run.blocks(part.p1, active, demand.hinted(certain).with_filters(*down)):
        if table.size:
            right = run.once(part.p2, active, Demand(hint=table).hinted(optional))
            table = _optional(run, table, right, conditions, active)
        yield _apply(run, rest, table, active)


def _optional(
    run: Evaluation, table: Solutions, right: Solutions, conditions: list[Any], active: ActiveGraph
) -> Solutions:
    if not right.size:
        return table
    i, j = compatible(table, right)
    both = merged(table, right, i, j)
    for each in conditions:
        kept = np.flatnonzero(run.conditions.truth(each, both, active) == 1)
        both, i = both.take(kept), i[kept]
    alone = np.ones(table.size, np.bool_)
    alone[i] = False
    if not alone.any():
        return both
    rows = np.flatnonzero(alone)
    order = np.argsort(np.concatenate([i, rows]), kind="stable")
    return concatenated([both, table.take(rows)]).take(order)


def _union(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    for each in (part.p1, part.p2):
        yield from run.blocks(each, active, demand.hinted(run.scopes.certain(each)))


def _minus(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    firm = run.scopes.certain(part.p2)
    for table in run.blocks(part.p1, active, demand.hinted(run.scopes.certain(part.p1))):
        if table.size:
            # A row of the right side counts only if it shares a variable with one of the left, and agrees. So the left
            # side restricts it, if every row of both binds what is shared.
            shared = [name for name in table.columns if name in run.scopes.possible(part.p2)]
            hint = Demand(hint=table.only(shared)).hinted(firm) if shared else PLAIN
            table = without(table, run.once(part.p2, active, hint))
        yield table


def _extend(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    after = [each for each in demand.filters if part.var in run.scopes.mentioned(each)]
    before = [each for each in demand.filters if part.var not in run.scopes.mentioned(each)]
    below = demand.hinted(run.scopes.certain(part.p) - {part.var}).with_filters(*before)
    for table in run.blocks(part.p, active, below):
        column = run.expressions.column(part.expr, table, active)
        if part.var in table.columns:  # an error leaves what was bound before
            column = np.where(column == 0, table.columns[part.var], column)
        yield _apply(run, after, table.plus(part.var, column), active)


def _project(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    below, names = field(part, "p"), field(part, "PV")
    down: list[Any] = []
    after: list[Any] = []
    if demand.filters:
        visible, inside = frozenset(names), run.scopes.possible(below)
        for each in demand.filters:
            (down if run.scopes.mentioned(each) & inside <= visible else after).append(each)
    if demand.hint is not None:
        demand = demand.hinted(run.scopes.certain(part))
    for table in run.blocks(below, active, demand.with_filters(*down)):
        yield _apply(run, after, table.only(names), active)


def _distinct(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    seen: Solutions | None = None
    for block in run.blocks(part.p, active, demand.hinted(run.scopes.certain(part.p))):
        table = distinct(block)
        if seen is None:
            seen = table
            yield table
        elif table.size:
            both = concatenated([seen, table])
            first, _ = groups(list(both.columns.values()), both.size)
            yield both.take(first[first >= seen.size])
            seen = both.take(first)


def _slice(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    start, length = part.start, part.length
    stop = None if length is None else start + length
    if stop == 0:
        return
    block = demand.block if stop is None else max(BLOCK, stop)
    seen = 0
    for table in run.blocks(part.p, active, Demand(block=block)):
        low = max(start - seen, 0)
        high = table.size if stop is None else min(stop - seen, table.size)
        seen += table.size
        if high > low:
            yield _apply(run, demand.filters, table.part(low, high), active)
        if stop is not None and seen >= stop:
            return


def _order_by(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    below = Demand(filters=demand.filters, hint=demand.hint).hinted(run.scopes.certain(part.p))
    table = run.whole(part.p, active, below)
    keys = []
    for condition in part.expr:
        rank = ranks(run.expressions.column(condition.expr, table, active), run.terms, run.deadline)
        keys.append(-rank if condition.order == "DESC" else rank)
    yield table.take(np.lexsort(keys[::-1])) if table.size else table


def _aggregate(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    yield _apply(run, demand.filters, aggregated(run, part, active), active)


def _multiset(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    if isinstance(part.p, CompValue) and part.p.name != "values":
        yield from run.blocks(part.p, active, demand)
        return
    rows = part.p.res if isinstance(part.p, CompValue) else []
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {
        name: run.terms.column_of([None if row.get(name, UNDEFINED) == UNDEFINED else row[name] for row in rows])
        for name in names
    }
    yield _apply(run, demand.filters, joined(Solutions(columns, len(rows)), run.initial), active)


def _graph(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    name = part.term
    # EXISTS asks the graph outside, and a filter on the name needs the name.
    after = [each for each in demand.filters if contains(each, EXISTS) or name in run.scopes.mentioned(each)]
    below = demand.with_filters(*(each for each in demand.filters if each not in after))
    if not is_variable(name):
        for table in run.blocks(part.p, run.dataset.graph(run.terms.id_of(name)), below):
            yield _apply(run, after, table, active)
        return
    named = run.dataset.named_by(name)
    if name in run.initial.columns:
        graphs = [int(run.initial.columns[name][0])]
    elif _per_graph(run, part.p, name):
        for table in run.blocks(part.p, named, below.hinted(run.scopes.certain(part.p) | {name})):
            yield _apply(run, after, table, active)
        return
    else:
        graphs = run.matcher.graph_numbers(named)
    for number in graphs:
        one = Solutions({name: np.array([number], np.uint64)}, 1)
        for table in run.blocks(part.p, run.dataset.graph(number), below.hinted(run.scopes.certain(part.p))):
            yield _apply(run, after, joined(table, one), active)


def _per_graph(run: Evaluation, part: CompValue, name: Any) -> bool:
    """Whether a part can be evaluated for all graphs at once."""
    if part.name not in PER_GRAPH:
        return False
    if part.name == "BGP":
        return all(not hasattr(p, "eval") for _, p, _ in part.triples)
    expression = part.expr
    if expression is not None and (name in run.scopes.mentioned(expression) or contains(expression, EXISTS)):
        return False
    return all(_per_graph(run, each, name) for each in (part.p, part.p1, part.p2) if isinstance(each, CompValue))


def _fallback(run: Evaluation, part: CompValue, active: ActiveGraph, demand: Demand) -> Iterator[Solutions]:
    yield _apply(run, demand.filters, by_rdflib(run, part, active, run.initial), active)


OPERATORS: Final[dict[str, Operator]] = {
    "BGP": _bgp,
    "Filter": _filter,
    "Join": _join,
    "LeftJoin": _left_join,
    "Union": _union,
    "Minus": _minus,
    "Extend": _extend,
    "Project": _project,
    "Distinct": _distinct,
    "Reduced": _distinct,
    "Slice": _slice,
    "OrderBy": _order_by,
    "AggregateJoin": _aggregate,
    "ToMultiSet": _multiset,
    "Graph": _graph,
}
