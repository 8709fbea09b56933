"""The door for queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Unpack

from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.plugins.sparql.processor import SPARQLResult
from rdflib.plugins.sparql.sparql import Query
from rdflib.term import Identifier

from lowtide.quads.reading import IdReader
from lowtide.quads.sparql import results
from lowtide.quads.sparql.demand import Demand
from lowtide.quads.sparql.evaluation import Evaluation
from lowtide.quads.sparql.graphs import ActiveGraph, QueryDataset
from lowtide.quads.sparql.matching import DEFAULT_NUMBER
from lowtide.quads.sparql.operands import field
from lowtide.quads.sparql.parsing import Parsed, parsed_query
from lowtide.quads.sparql.request import RequestOptions, SparqlRequest
from lowtide.quads.sparql.terms import TermSpace
from lowtide.quads.sparql.trace import PlanNode, Trace

RESULT: Final = Demand(block=None)


def query(
    reader: IdReader,
    text: str | Query,
    *,
    closing: Callable[[], object] | None = None,
    **options: Unpack[RequestOptions],
) -> SPARQLResult:
    """Evaluate a query and return its result in rdflib's form.

    Args:
        reader: what to read; the result reads from it as long as it is not used up.
        text: the query, or one that ``rdflib.plugins.sparql.prepareQuery`` has parsed.
        closing: called when the result needs the reader no more.
        options: see ``RequestOptions``.
    """
    done = results.ReaderClosing(closing)
    request = SparqlRequest(options)
    parsed = parsed_query(text, request.namespaces, request.base)
    run = started(reader, parsed, request)
    tree = parsed.tree.algebra
    part = field(tree, "p")
    if tree.name == "SelectQuery":
        blocks = run.blocks(part, run.dataset.default, RESULT)
        return results.SelectResult(run, list(field(tree, "PV")), blocks, done)
    if tree.name == "AskQuery":
        answer = results.ask(run.any_solution(part, run.dataset.default))
    elif tree.name == "ConstructQuery":
        answer = results.construct(run, tree, request.namespaces)
    else:
        answer = results.describe(run, tree, request.namespaces)
    done()
    return answer


def started(reader: IdReader, parsed: Parsed[Query], request: SparqlRequest, trace: Trace | None = None) -> Evaluation:
    """An evaluation of a query that is ready to run."""
    prologue = parsed.tree.prologue
    run = Evaluation(reader, scopes=parsed.scopes, prologue=prologue, deadline=request.deadline, trace=trace)
    if request.bindings:
        run.bind(request.bindings)
    run.dataset = dataset(run.terms, request.default_union, request.context, parsed.clauses)
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


def explain(reader: IdReader, text: str | Query, **options: Unpack[RequestOptions]) -> Explanation:
    """Evaluate a query, and return the plan with estimated and seen counts instead of the result. See ``query``."""
    request = SparqlRequest(options)
    parsed = parsed_query(text, request.namespaces, request.base)
    trace = Trace()
    run = started(reader, parsed, request, trace)
    tree = parsed.tree.algebra
    if tree.name == "AskQuery":
        run.any_solution(tree.p, run.dataset.default)
    elif tree.p is not None:
        run.whole(tree.p, run.dataset.default)
    return Explanation(trace.root)
