"""Results in rdflib's form. Solutions are decoded block by block, on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from rdflib.graph import Graph
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.processor import SPARQLResult
from rdflib.plugins.sparql.sparql import FrozenBindings
from rdflib.query import ResultRow
from rdflib.term import Identifier, URIRef, Variable

from lowtide.quads.sparql.fallback import graph_of
from lowtide.quads.sparql.tables import Solutions
from lowtide.quads.sparql.templates import constructed
from lowtide.quads.sparql.terms import TermSpace

if TYPE_CHECKING:
    from lowtide.quads.sparql.evaluation import Evaluation


BETWEEN_CHECKS: Final = 1_024
"""Triples that are made between two checks of the clock."""


class SelectResult(SPARQLResult):
    """The solutions of a SELECT. Each is decoded on first access, from the snapshot of the query.

    ``closing`` is called once there is nothing left to read, or the result is dropped.
    """

    def __init__(
        self, run: Evaluation, names: list[Variable], blocks: Iterator[Solutions], closing: ReaderClosing
    ) -> None:
        super().__init__({"type_": "SELECT", "vars_": names, "bindings": []})
        self._run = run
        self._rows: list[tuple[Identifier | None, ...]] = []
        self._coming = _decoded(run.terms, names, blocks, self._rows, closing)
        self._made: list[FrozenBindings] | None = None
        self._labels = {str(name): place for place, name in enumerate(names)}

    def _all(self) -> list[tuple[Identifier | None, ...]]:
        for _ in self._coming:
            pass
        return self._rows

    @property
    def bindings(self) -> Any:
        """The solutions as mappings of variables to terms."""
        if self._made is None:
            names = self.vars or []
            context = self._run.context
            self._made = [
                FrozenBindings(
                    context, ((name, term) for name, term in zip(names, row, strict=True) if term is not None)
                )
                for row in self._all()
            ]
        return self._made

    @bindings.setter
    def bindings(self, value: Any) -> None:
        """Put other solutions in the place of these."""
        if hasattr(self, "_labels"):  # the base class sets them before there are any
            self._made = list(value)
            self._rows[:] = [tuple(each.get(name) for name in self.vars or []) for each in self._made]
            self._coming = iter(())

    def __iter__(self) -> Iterator[Any]:
        place = 0
        while True:
            while place < len(self._rows):
                row = self._rows[place]
                place += 1
                # As rdflib: a solution without bindings is no row.
                if row and (row[0] is not None or any(term is not None for term in row)):
                    made = tuple.__new__(ResultRow, row)
                    made.labels = self._labels
                    yield made
            if next(self._coming, True):
                return

    def __len__(self) -> int:
        return len(self._all())

    def __bool__(self) -> bool:
        while not self._rows:
            if next(self._coming, True):
                return False
        return True


class ReaderClosing:
    """Calls a function once: when it is called, or dropped."""

    def __init__(self, function: Callable[[], object] | None) -> None:
        self._function = function

    def __call__(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()

    def __del__(self) -> None:
        self()


def _decoded(
    terms: TermSpace,
    names: list[Variable],
    blocks: Iterator[Solutions],
    rows: list[tuple[Any, ...]],
    closing: ReaderClosing,
) -> Iterator[None]:
    """Decode one block after the other into ``rows``. It does not refer to the result, so dropping the result ends
    it."""
    try:
        for table in blocks:
            columns = [terms.terms_of(table.column(name)) for name in names]
            rows.extend(zip(*columns, strict=True) if columns else [()] * table.size)
            yield
    finally:
        closing()


def ask(answer: bool) -> SPARQLResult:
    """The result of an ASK."""
    return SPARQLResult({"type_": "ASK", "askAnswer": answer})


def _template(query: CompValue) -> list[Any]:
    if query.template is not None:
        return list(query.template)
    part = query.p
    while isinstance(part, CompValue) and part.name != "BGP":
        part = part.p
    return list(part.triples) if isinstance(part, CompValue) else []


def construct(run: Evaluation, query: CompValue, namespaces: Mapping[str, Any]) -> SPARQLResult:
    """The result of a CONSTRUCT."""
    graph = _graph(namespaces)
    store = graph.store
    template = _template(query)
    names = frozenset(term for triple in template for term in triple if isinstance(term, Variable))
    for table in run.blocks(query.p, run.dataset.default):
        for number, triple in enumerate(constructed(run.terms, template, run.completed(table, names))):
            if number % BETWEEN_CHECKS == 0:
                run.deadline.check()
            store.add(triple, graph)
    return SPARQLResult({"type_": "CONSTRUCT", "graph": graph})


def _graph(namespaces: Mapping[str, Any]) -> Graph:
    graph = Graph()
    for prefix, namespace in namespaces.items():
        graph.bind(prefix, namespace)
    return graph


def describe(run: Evaluation, query: CompValue, namespaces: Mapping[str, Any]) -> SPARQLResult:
    """The result of a DESCRIBE: the concise bounded description of each resource, as in rdflib."""
    resources: dict[Identifier, None] = dict.fromkeys(term for term in query.PV if isinstance(term, URIRef))
    if query.p is not None:
        for table in run.blocks(query.p, run.dataset.default):
            for column in table.columns.values():
                resources.update(dict.fromkeys(_bound(run.terms.terms_of(column))))
    source = graph_of(run, run.dataset.default)
    graph = _graph(namespaces)
    for resource in resources:
        source.cbd(resource, target_graph=graph)
    return SPARQLResult({"type_": "DESCRIBE", "graph": graph})


def _bound(terms: Iterable[Identifier | None]) -> Iterator[Identifier]:
    return (term for term in terms if term is not None)
