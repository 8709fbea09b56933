"""Updates. Each operation of a request is evaluated whole before it changes anything, and sees what the ones before it
have changed; all its removals come before all its additions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Unpack

import numpy as np
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.sparql import Update
from rdflib.term import BNode, Identifier, Variable

from lowtide.errors import Error, TransientError, UsageError
from lowtide.quads.quads import Quads
from lowtide.quads.reading import IdReader
from lowtide.quads.sparql.evaluation import Evaluation
from lowtide.quads.sparql.extents import StatementColumns
from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.loading import loaded
from lowtide.quads.sparql.matching import DEFAULT_NUMBER
from lowtide.quads.sparql.parsing import Parsed, parsed_update
from lowtide.quads.sparql.querying import dataset, graph_number
from lowtide.quads.sparql.request import RequestOptions, SparqlRequest
from lowtide.quads.sparql.scopes import Scopes
from lowtide.quads.sparql.tables import Solutions
from lowtide.quads.sparql.templates import Quad, Triple, constructed_quads, id_quads


@dataclass(slots=True)
class UpdateReport:
    """How many new statements an update has inserted, and how many existing ones it has deleted."""

    inserted: int = 0
    deleted: int = 0


def update(quads: Quads, text: str | Update, **options: Unpack[RequestOptions]) -> UpdateReport:
    """Run an update request as one transaction: the caller's, or a new one if ``quads`` belongs to the store.

    Each operation sees the changes of the ones before it. An operation that fails undoes the request, unless it is
    SILENT. With ``default_union``, a triple that is deleted from the default graph is deleted from every graph, as the
    default graph shows them all; what is inserted into it goes to ``context``. The other arguments are those of
    ``query``.
    """
    request = SparqlRequest(options)
    parsed = parsed_update(text, request.namespaces, request.base)

    def work(opened: Quads) -> UpdateReport:
        running = RunningUpdate(opened, parsed, request)
        for operation in parsed.tree.algebra:
            running.run(operation)
        return running.report

    return quads.together(work)


class RunningUpdate:
    """One update request on one transaction."""

    def __init__(self, quads: Quads, parsed: Parsed[Update], request: SparqlRequest) -> None:
        self.report = UpdateReport()
        self._quads = quads
        self._parsed = parsed
        self._request = request
        self._blank: dict[BNode, BNode] = {}
        """The blank nodes of data: labels of a request, not of the store."""

    def run(self, operation: CompValue) -> None:
        """Do one operation."""
        do = OPERATIONS.get(operation.name)
        if do is None:
            raise UsageError(f"the update operation {operation.name!r} is not known; use one of SPARQL 1.1")
        try:
            do(self, operation)
        except TransientError:
            raise
        except Exception as error:
            if not operation.silent or (isinstance(error, Error) and not isinstance(error, UsageError)):
                raise

    def _change(self, removes: Sequence[bytes], adds: Iterable[Quad]) -> None:
        self._request.deadline.check()
        deleted, inserted = self._quads.change(removes, list(adds))
        self.report.deleted += deleted
        self.report.inserted += inserted

    def _evaluation(self, reader: IdReader, operation: CompValue, scopes: Scopes | None = None) -> Evaluation:
        run = Evaluation(
            reader, scopes=scopes or self._parsed.scopes, prologue=operation.prologue, deadline=self._request.deadline
        )
        if self._request.bindings:
            run.bind(self._request.bindings)
        union = self._request.default_union
        run.dataset = dataset(run.terms, union, None if union else self._request.context, None)
        return run

    # Data

    def insert_data(self, operation: CompValue) -> None:
        self._change((), (self._fresh(quad) for quad in self._data(operation)))

    def _data(self, operation: CompValue) -> Iterator[Quad]:
        for triple in operation.triples or ():
            yield (*triple, self._request.context)
        for graph, triples in (operation.quads or {}).items():
            for triple in triples:
                yield (*triple, graph)

    def _fresh(self, quad: Quad) -> Quad:
        s, p, o = (self._blank.setdefault(each, BNode()) if isinstance(each, BNode) else each for each in quad[:3])
        return s, p, o, quad[3]

    def delete_data(self, operation: CompValue) -> None:
        with self._quads.reader() as reader:
            run = self._evaluation(reader, operation)
            removes = self._removals(
                run, unit_table(), operation.triples or [], operation.quads or {}, self._request.context
            )
        self._change(removes, ())

    # Patterns

    def delete_where(self, operation: CompValue) -> None:
        with self._quads.reader() as reader:
            run = self._evaluation(reader, operation, Scopes())
            triples, quads = operation.triples or [], operation.quads or {}
            part = CompValue("BGP", triples=list(triples))
            for graph, inside in quads.items():
                below = CompValue("Graph", term=graph, p=CompValue("BGP", triples=list(inside)))
                part = CompValue("Join", p1=part, p2=below)
            table = run.whole(part, run.dataset.default)
            removes = self._removals(run, table, triples, quads, self._request.context)
        self._change(removes, ())

    def modify(self, operation: CompValue) -> None:
        with self._quads.reader() as reader:
            run = self._evaluation(reader, operation)
            target = operation.withClause or self._request.context
            if operation.using or operation.withClause:
                run.dataset = dataset(run.terms, self._request.default_union, operation.withClause, operation.using)
            table = run.whole(operation.where, run.dataset.default)
            removes: list[bytes] = []
            adds: list[Quad] = []
            if operation.delete:
                deleted = operation.delete
                removes = self._removals(run, table, deleted.triples, deleted.quads, target)
            if operation.insert:
                inserted = operation.insert
                adds = list(constructed_quads(run.terms, table, inserted.triples, inserted.quads, target))
        self._change(removes, adds)

    def _removals(
        self,
        run: Evaluation,
        table: Solutions,
        triples: Sequence[Triple],
        quads: Mapping[Identifier, Sequence[Triple]],
        target: Identifier | None,
    ) -> list[bytes]:
        """The statements that a template gives, as ids. What the store does not know is not there to be removed."""
        if self._request.bindings:
            table = run.completed(table, frozenset(self._request.bindings))
        found: dict[bytes, None] = {}
        everywhere = self._request.default_union and (target is None or target is self._request.context)
        number = DEFAULT_NUMBER if target is None else graph_number(run.terms, target)
        for triple in triples:
            columns = id_quads(run.terms, table, triple, number)
            found.update(dict.fromkeys(self._everywhere(run, columns) if everywhere else _keys(columns)))
        for graph, inside in quads.items():
            for triple in inside:
                place = graph if isinstance(graph, Variable) else graph_number(run.terms, graph)
                found.update(dict.fromkeys(_keys(id_quads(run.terms, table, triple, place))))
        return list(found)

    def _everywhere(self, run: Evaluation, columns: StatementColumns) -> list[bytes]:
        """The statements of all graphs that have these triples."""
        _, found = run.matcher.lookups([columns.s, columns.p, columns.o], ActiveGraph(None, ANY), None, len(columns.s))
        _, default = run.matcher.lookups(
            [columns.s, columns.p, columns.o], ActiveGraph((DEFAULT_NUMBER,)), None, len(columns.s)
        )
        return _keys(found) + _keys(default)

    # Graphs

    def load(self, operation: CompValue) -> None:
        graph = operation.graphiri or self._request.context
        self._change((), ((*triple, graph) for triple in loaded(operation.iri)))

    def clear(self, operation: CompValue) -> None:
        """CLEAR and DROP."""
        with self._quads.reader() as reader:
            run = self._evaluation(reader, operation)
            graphs = self._graphs(run, operation.graphiri)
            removes = [key for graph in graphs for key in _keys(self._content(run, graph))]
            dropped = [] if operation.name == "Clear" else [run.terms.term_of(g) for g in graphs if g != DEFAULT_NUMBER]
        self._change(removes, ())
        self._forget(dropped)

    def _forget(self, names: Iterable[Identifier | None]) -> None:
        """Let graphs exist no more, if they have no statements."""
        for name in names:
            if name is not None:
                self._quads.created.forget(name)

    def _graphs(self, run: Evaluation, name: Any) -> list[int]:
        default = DEFAULT_NUMBER if self._request.context is None else graph_number(run.terms, self._request.context)
        if name == "DEFAULT":
            return [default]
        if name in ("NAMED", "ALL"):
            named = run.matcher.graph_numbers(ActiveGraph(None, ANY))
            return named if name == "NAMED" else list(dict.fromkeys([*named, default, DEFAULT_NUMBER]))
        return [graph_number(run.terms, name)]

    def _content(self, run: Evaluation, graph: int) -> StatementColumns:
        return run.matcher.extent(None, None, None, ActiveGraph((graph,)))

    def create(self, operation: CompValue) -> None:
        with self._quads.reader() as reader:
            run = self._evaluation(reader, operation)
            exists = run.matcher.graph_numbers(ActiveGraph((graph_number(run.terms, operation.graphiri),)))
        if not exists:
            self._quads.created.create(operation.graphiri)
        else:
            raise UsageError(
                f"the graph {operation.graphiri.n3()} exists already; use CREATE SILENT GRAPH if that is all right"
            )

    def transfer(self, operation: CompValue) -> None:
        """ADD, COPY and MOVE."""
        with self._quads.reader() as reader:
            run = self._evaluation(reader, operation)
            source, target = operation.graph
            (here,), (there,) = self._graphs(run, source), self._graphs(run, target)
            if here == there:
                return
            content = self._content(run, here)
            removes = [] if operation.name == "Add" else _keys(self._content(run, there))
            if operation.name == "Move":
                removes += _keys(content)
            columns = [run.terms.terms_of(column) for column in content[:3]]
            name = None if there == DEFAULT_NUMBER else run.terms.term_of(there)
            adds = [(s, p, o, name) for s, p, o in zip(*columns, strict=True)]
            moved = [run.terms.term_of(here)] if operation.name == "Move" and here != DEFAULT_NUMBER else []
        self._change(removes, adds)
        self._forget(moved)


ANY: Final = Variable("-graph")
"""Stands for a graph's name where only the graph matters."""

OPERATIONS: Final[dict[str, Callable[[RunningUpdate, CompValue], None]]] = {
    "InsertData": RunningUpdate.insert_data,
    "DeleteData": RunningUpdate.delete_data,
    "DeleteWhere": RunningUpdate.delete_where,
    "Modify": RunningUpdate.modify,
    "Load": RunningUpdate.load,
    "Clear": RunningUpdate.clear,
    "Drop": RunningUpdate.clear,
    "Create": RunningUpdate.create,
    "Add": RunningUpdate.transfer,
    "Copy": RunningUpdate.transfer,
    "Move": RunningUpdate.transfer,
}


def unit_table() -> Solutions:
    """One solution without bindings."""
    return Solutions({}, 1)


def _keys(found: StatementColumns) -> list[bytes]:
    """Statements as 32 bytes each."""
    raw = np.stack(found, axis=1).astype(">u8").tobytes()
    return [raw[start : start + 32] for start in range(0, len(raw), 32)]
