"""rdflib's own evaluation, for what this package does not evaluate itself: SERVICE, and functions that a program has
registered in ``rdflib.plugins.sparql.CUSTOM_EVALS``."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID, Dataset, Graph
from rdflib.plugins.sparql import CUSTOM_EVALS
from rdflib.plugins.sparql.evaluate import evalPart
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.sparql import FrozenBindings, QueryContext
from rdflib.store import Store
from rdflib.term import Identifier

from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.tables import Solutions, concatenated, empty, joined

if TYPE_CHECKING:
    from lowtide.quads.sparql.evaluation import Evaluation


class EvaluationStore(Store):
    """What an evaluation reads, as a store of rdflib: read-only, and only as long as the evaluation lives."""

    context_aware = True
    graph_aware = True
    formula_aware = False

    def __init__(self, run: Evaluation, active: ActiveGraph) -> None:
        super().__init__()
        self._run = run
        self._active = active

    def _graph(self, context: Graph | None) -> ActiveGraph:
        if context is None or context.identifier == DATASET_DEFAULT_GRAPH_ID:
            return self._active
        return self._run.dataset.graph(self._run.terms.id_of(context.identifier))

    def triples(self, triple_pattern: Any, context: Any = None) -> Iterator[Any]:
        terms = self._run.terms
        places = [None if term is None else terms.id_of(term) for term in triple_pattern]
        found = self._run.matcher.extent(places[0], places[1], places[2], self._graph(context))
        for triple in zip(*(terms.terms_of(column) for column in found[:3]), strict=True):
            yield triple, iter((context,))

    def contexts(self, triple: Any = None) -> Generator[Graph, None, None]:
        run = self._run
        for number in run.matcher.graph_numbers(ActiveGraph(run.dataset.named)):
            yield Graph(store=self, identifier=run.terms.term_of(number))

    def __len__(self, context: Any = None) -> int:
        return len(self._run.matcher.extent(None, None, None, self._graph(context)).s)

    def namespaces(self) -> Iterator[Any]:
        return iter(())


def graph_of(run: Evaluation, active: ActiveGraph) -> Graph:
    """The active graph as a graph of rdflib, in its dataset."""
    graph: Graph = Dataset(store=EvaluationStore(run, active)).default_graph
    return graph


def _context(run: Evaluation, active: ActiveGraph) -> QueryContext:
    graph = graph_of(run, active)
    context = QueryContext(Dataset(store=graph.store), initBindings=run.context.initBindings)
    context.graph = graph
    context.prologue = run.context.prologue
    context.bnodes = run.context.bnodes
    return context


def table_of(run: Evaluation, solutions: Iterable[Mapping[Identifier, Identifier]]) -> Solutions:
    """A table of rdflib's solutions."""
    rows = [dict(each) for each in solutions]
    names = dict.fromkeys(name for row in rows for name in row)
    return Solutions({name: run.terms.column_of([row.get(name) for row in rows]) for name in names}, len(rows))


def by_rdflib(run: Evaluation, part: CompValue, active: ActiveGraph, table: Solutions) -> Solutions:
    """The solutions of a part by rdflib's evaluation, joined with a table; each of its rows is known to the part."""
    context = _context(run, active)
    names = list(table.columns)
    columns = [run.terms.terms_of(table.columns[name]) for name in names]
    found = []
    for number in range(table.size):
        run.deadline.check()
        known = {
            name: term for name, column in zip(names, columns, strict=True) if (term := column[number]) is not None
        }
        row = table.take(np.array([number], np.intp))
        found.append(joined(row, table_of(run, evalPart(context.thaw(FrozenBindings(context, known)), part))))
    return concatenated(found) if found else empty(names)


def by_custom(run: Evaluation, part: CompValue, active: ActiveGraph) -> Solutions | None:
    """The solutions of a part by a function that the program has registered; None if none takes it."""
    context = None
    for function in CUSTOM_EVALS.values():
        context = context or _context(run, active)
        try:
            return joined(table_of(run, function(context, part)), run.initial)
        except NotImplementedError:
            continue
    return None
