"""The door for queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.plugins.sparql.processor import SPARQLResult
from rdflib.plugins.sparql.sparql import Query
from rdflib.term import Identifier, Variable

from lowtide.quads.reading import IdReader
from lowtide.quads.sparql import results
from lowtide.quads.sparql.deadline import Deadline
from lowtide.quads.sparql.demand import Demand
from lowtide.quads.sparql.evaluation import Evaluation
from lowtide.quads.sparql.graphs import ActiveGraph, QueryDataset
from lowtide.quads.sparql.matching import DEFAULT_NUMBER
from lowtide.quads.sparql.parsing import Parsed, parsed_query
from lowtide.quads.sparql.terms import TermSpace
from lowtide.quads.sparql.trace import PlanNode, Trace
from lowtide.system.clock import SYSTEM_CLOCK, Clock

BLOCK = 4_096
"""Solutions that are decoded at a time, at first; blocks grow."""


def query(
    reader: IdReader,
    text: str | Query,
    *,
    init_ns: Mapping[str, Any] | None = None,
    init_bindings: Mapping[str, Identifier] | None = None,
    default_union: bool = False,
    base: str | None = None,
    timeout: float | None = None,
    context: Identifier | None = None,
    closing: Callable[[], object] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> SPARQLResult:
    """Evaluate a query and return its result in rdflib's form.

    Args:
        reader: what to read; the result reads from it as long as it is not used up.
        text: the query, or one that ``rdflib.plugins.sparql.prepareQuery`` has parsed.
        init_ns: prefixes.
        init_bindings: values of variables.
        default_union: whether the default graph is the union of all graphs.
        base: what relative IRIs are relative to.
        timeout: after how many seconds to give up with ``QueryTimeout``.
        context: the graph that is the default graph, instead of the store's.
        closing: called when the result needs the reader no more.
        clock: the clock of the timeout.
    """
    done = results.ReaderClosing(closing)
    deadline = Deadline(timeout, clock)
    parsed = parsed_query(text, init_ns or {}, base)
    run = started(
        reader, parsed, deadline=deadline, bindings=init_bindings, default_union=default_union, context=context
    )
    tree = parsed.tree.algebra
    if tree.name == "SelectQuery":
        blocks = run.blocks(tree.p, run.dataset.default, Demand(block=None))
        return results.SelectResult(run, list(tree.PV), blocks, done)
    if tree.name == "AskQuery":
        answer = results.ask(run.any_solution(tree.p, run.dataset.default))
    elif tree.name == "ConstructQuery":
        answer = results.construct(run, tree, init_ns or {})
    else:
        answer = results.describe(run, tree, init_ns or {})
    done()
    return answer


def started(
    reader: IdReader,
    parsed: Parsed[Query],
    *,
    deadline: Deadline,
    bindings: Mapping[str, Identifier] | None,
    default_union: bool,
    context: Identifier | None,
    trace: Trace | None = None,
) -> Evaluation:
    """An evaluation of a query that is ready to run."""
    run = Evaluation(reader, scopes=parsed.scopes, prologue=parsed.tree.prologue, deadline=deadline, trace=trace)
    if bindings:
        run.bind({Variable(name): term for name, term in bindings.items()})
    run.dataset = dataset(run.terms, default_union, context, parsed.tree.algebra.datasetClause)
    return run


def dataset(terms: TermSpace, default_union: bool, context: Identifier | None, clauses: Any) -> QueryDataset:
    """The dataset of a query: what FROM and FROM NAMED (or USING) say, or else the store's."""
    if clauses:
        default = tuple(dict.fromkeys(graph_number(terms, each.default) for each in clauses if each.default))
        named = tuple(dict.fromkeys(graph_number(terms, each.named) for each in clauses if each.named))
        return QueryDataset(ActiveGraph(default), named)
    if context is not None:
        return QueryDataset(ActiveGraph((graph_number(terms, context),)))
    return QueryDataset(ActiveGraph(None if default_union else (DEFAULT_NUMBER,)))


def graph_number(terms: TermSpace, name: Identifier) -> int:
    """The id of a graph. rdflib's name for the default graph is the default graph."""
    return DEFAULT_NUMBER if name == DATASET_DEFAULT_GRAPH_ID else terms.id_of(name)


class Explanation:
    """The plan of a query, and what each step of it really found. ``str`` shows it as a tree."""

    def __init__(self, root: PlanNode) -> None:
        self.root = root

    def __str__(self) -> str:
        return "\n".join(line for child in self.root.children for line in child.lines())


def explain(
    reader: IdReader,
    text: str | Query,
    *,
    init_ns: Mapping[str, Any] | None = None,
    init_bindings: Mapping[str, Identifier] | None = None,
    default_union: bool = False,
    base: str | None = None,
    timeout: float | None = None,
    context: Identifier | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Explanation:
    """Evaluate a query, and return the plan with estimated and seen counts instead of the result. See ``query``."""
    parsed = parsed_query(text, init_ns or {}, base)
    trace = Trace()
    run = started(
        reader,
        parsed,
        deadline=Deadline(timeout, clock),
        bindings=init_bindings,
        default_union=default_union,
        context=context,
        trace=trace,
    )
    tree = parsed.tree.algebra
    if tree.name == "AskQuery":
        run.any_solution(tree.p, run.dataset.default)
    elif tree.p is not None:
        run.whole(tree.p, run.dataset.default)
    return Explanation(trace.root)
