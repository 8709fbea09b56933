"""``LowtideStore``: the store behind rdflib's ``Graph("lowtide")``, with transactions."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict

import rdflib.plugins.sparql
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID, Graph
from rdflib.store import TripleAddedEvent, TripleRemovedEvent
from rdflib.term import Identifier, Literal, Node, URIRef

from lowtide.errors import UsageError
from lowtide.quads import DEFAULT, FormulaName, IdReader, sparql
from lowtide.quads.ids import DEFAULT_GRAPH, DefaultGraph
from lowtide.quads.parsing import Statement
from lowtide.rdf.contexts import PLAIN, context_of, formula_name, graph_name, node_of, term_of
from lowtide.rdf.lifecycle import TransactionalStore
from lowtide.rdf.matching import Match, asserted_ids, asserted_quads, closing, count_asserted, in_any, in_graph

if TYPE_CHECKING:
    from rdflib.graph import _ContextType, _QuadType, _TripleChoiceType, _TriplePatternType, _TripleType
    from rdflib.plugins.sparql.sparql import Query, Update
    from rdflib.query import Result

_UNION = "__UNION__"
"""What rdflib calls the union of all graphs."""
_MOST_PENDING = 50_000
"""How many statements of a parser are kept before they are added to its transaction."""


class _Active(TypedDict):
    """The default graph of a query, as its arguments."""

    default_union: bool
    context: Identifier | None


class LowtideStore(TransactionalStore):
    """A Lowtide quad store as an rdflib store; ``Graph("lowtide")`` and ``Dataset("lowtide")`` create one.

    Outside a transaction, each call is its own transaction. ``transaction()``, or ``begin()`` and ``commit()``, combine
    many calls into one. Any number of threads may use a store and its graphs; each has its own transaction.

    >>> import rdflib, tempfile
    >>> graph = rdflib.Graph(LowtideStore(tempfile.mkdtemp()), identifier="urn:fruit")
    >>> with graph.store.transaction():
    ...     _ = graph.add((rdflib.URIRef("urn:plum"), rdflib.RDFS.label, rdflib.Literal("plum")))
    >>> len(graph)
    1
    >>> graph.close()
    """

    # Statements

    def add(self, triple: _TripleType, context: _ContextType | None, quoted: bool = False) -> None:
        """Add a statement to a graph; a ``quoted`` one to a formula, where it is not asserted."""
        statement = self._statement(triple, context, quoted)
        sessions = self._sessions()
        if sessions.pending is None:
            self._writing().add(statement)
        else:
            sessions.pending.append(statement)
            if len(sessions.pending) >= _MOST_PENDING:
                self._flush(sessions)
        self._dispatch(TripleAddedEvent, triple=triple, context=context)

    def addN(self, quads: Iterable[_QuadType]) -> None:
        """Add many statements in one transaction. ``quads`` is read once."""
        given = list(quads)
        self._writing().add_many(self._statements(given))
        if self._has_subscribers(TripleAddedEvent):
            for s, p, o, context in given:
                self._dispatch(TripleAddedEvent, triple=(s, p, o), context=context)

    def _statements(self, quads: list[_QuadType]) -> list[Statement]:
        """As ``_statement``, of many, which mostly have the same few graphs."""
        contexts = {id(context): context for _, _, _, context in quads}
        names: dict[int, Any] = {}
        """By the identity of the context; ``quads`` keeps it."""
        for place, context in contexts.items():
            if context is None:
                s, p, o, _ = next(quad for quad in quads if quad[3] is None)
                raise UsageError(f"the statement {s} {p} {o} has no context; give it a graph")
            name = self._graph(context)
            names[place] = None if name is DEFAULT else name
        if {type(s) for s, _, _, _ in quads} | {type(o) for _, _, o, _ in quads} <= PLAIN:
            found: list[Any] = [(s, p, o, names[id(context)]) for s, p, o, context in quads]
        else:
            found = [(term_of(s), term_of(p), term_of(o), names[id(context)]) for s, p, o, context in quads]
        return found

    def _statement(self, triple: _TripleType, context: _ContextType | None, quoted: bool) -> Statement:
        s, p, o = triple
        graph = None if context is None else self._graph(context)
        if quoted and not isinstance(graph, FormulaName):
            if graph is None or graph is DEFAULT:
                raise UsageError("a quoted statement needs a formula as its context: a QuotedGraph")
            graph = formula_name(graph)
        return term_of(s), term_of(p), term_of(o), None if graph is DEFAULT else graph

    def remove(self, triple: _TriplePatternType, context: _ContextType | None = None) -> None:
        """Remove the statements that match from one graph, or without a context from all graphs. Formulas are left
        alone, unless one is the context."""
        if context is not None:
            s, p, o = (None if each is None else term_of(each) for each in triple)
            self._writing().remove((s, p, o, self._graph(context)), inferred=None)
        else:
            self.run(lambda _: self._remove_asserted(triple))
        self._dispatch(TripleRemovedEvent, triple=triple, context=context)

    def _remove_asserted(self, pattern: _TriplePatternType) -> None:
        """Remove what matches in all graphs but formulas, in the transaction of this thread."""
        writing = self._writing()
        with writing.reader() as reader:
            wanted = self._pattern_ids(reader, pattern, None)
            if wanted is not None:
                writing.change(removes=asserted_quads(*reader.scan_ids(*wanted)))

    def triples(
        self, triple_pattern: _TriplePatternType, context: _ContextType | None = None
    ) -> Iterator[tuple[_TripleType, Iterator[_ContextType | None]]]:
        """The statements that match, as they are now: changes after the call are not seen, not even those of the same
        transaction. Without a context each triple comes once, with the graphs that it is asserted in."""
        return self._matches((triple_pattern,), context)

    def triples_choices(
        self, triple: _TripleChoiceType, context: _ContextType | None = None
    ) -> Generator[tuple[_TripleType, Iterator[_ContextType | None]], None, None]:
        """Like ``triples``, but one of the three may be a list of terms to choose from; an empty list means any.
        Everything is read at one instant."""
        patterns: list[Any] = [triple]
        for place, each in enumerate(triple):
            if isinstance(each, list):
                chosen: list[Node | None] = [*each] or [None]
                patterns = [(*triple[:place], term, *triple[place + 1 :]) for term in chosen]
        yield from self._matches(patterns, context)

    def _matches(self, patterns: Iterable[_TriplePatternType], context: _ContextType | None) -> Iterator[Match]:
        reader = self._reading().reader()
        return closing(reader, chain.from_iterable(self._match(reader, each, context) for each in patterns))

    def _match(self, reader: IdReader, pattern: _TriplePatternType, context: _ContextType | None) -> Iterator[Match]:
        wanted = self._pattern_ids(reader, pattern, context)
        if wanted is None:
            return iter(())
        order, chunks = reader.scan_ids(*wanted)
        if context is not None:
            return in_graph(reader, order, chunks, self._own(context), self._node)
        return in_any(reader, order, chunks, self._context, self._node)

    def _pattern_ids(
        self, reader: IdReader, pattern: _TriplePatternType, context: _ContextType | None
    ) -> list[bytes | None] | None:
        """The ids of a pattern, the graph's last; None if one of its terms is not known, so that nothing matches."""
        terms: list[Any] = [None if each is None else term_of(each) for each in pattern]
        graph = None if context is None else self._graph(context)
        if graph is not None and graph is not DEFAULT:
            terms.append(graph)
        given = [each for each in terms if each is not None]
        if not all(isinstance(each, Identifier) for each in given):
            return None
        ids = reader.ids_of(given)
        if None in ids:
            return None
        found = iter(ids)
        wanted = [None if each is None else next(found) for each in terms]
        return wanted if len(wanted) == 4 else [*wanted, DEFAULT_GRAPH if graph is DEFAULT else None]

    def __len__(self, context: _ContextType | None = None) -> int:
        """How many statements a graph has; without a context, how many different triples are asserted in any graph."""
        with self._reading().reader() as reader:
            wanted = self._pattern_ids(reader, (None, None, None), context)
            if wanted is None:
                return 0
            chunks = reader.scan_ids(*wanted)[1]
            return count_asserted(chunks) if context is None else sum(map(len, chunks))

    def __bool__(self) -> bool:
        """A store is always true, even if it is empty; its length is not computed."""
        return True

    # Graphs

    def contexts(self, triple: _TriplePatternType | None = None) -> Generator[_ContextType, None, None]:
        """The graphs that a triple is asserted in; by default all graphs that have statements or were created, formulas
        too. They are those of the time of the call."""
        return (context for context in self._contexts(triple))

    def _contexts(self, triple: _TriplePatternType | None) -> list[Graph]:
        reading = self._reading()
        with reading.reader() as reader:
            if triple is None or triple == (None, None, None):
                ids = list(reader.graphs())
                created = reading.created.names()
            else:
                wanted = self._pattern_ids(reader, triple, None)
                created = []
                ids = [] if wanted is None else asserted_ids(key[-8:] for key in reader.match(*wanted))
            names: dict[Identifier | None, None] = dict.fromkeys(_names(reader, ids))
        return [self._context(each) for each in (names | dict.fromkeys(created))]

    def add_graph(self, graph: _ContextType) -> None:
        """Remember a graph, also while it is empty. Where nothing can be written, nothing is done: ``Dataset.graph``
        calls this for graphs that are only to be read."""
        name = self._graph(graph)
        if name is not DEFAULT:
            if self.writable:
                self._writing().created.create(name)
            if isinstance(graph, Graph) and graph.store is self:
                self._graphs[name] = graph

    def remove_graph(self, graph: _ContextType) -> None:
        """Remove a graph with its statements.

        The default graph is emptied, except while a parser runs: the N-Quads parser means to remove a graph of its own.
        """
        name = self._graph(graph)
        if name is DEFAULT and self._sessions().pending is not None:
            return
        self.run(lambda _: self._drop(name))

    def _drop(self, name: Identifier | DefaultGraph) -> None:
        writing = self._writing()
        writing.clear(name)
        if name is not DEFAULT:
            writing.created.forget(name)

    # SPARQL

    def query(
        self,
        query: Query | str,
        initNs: Mapping[str, Any],
        initBindings: Mapping[str, Identifier],
        queryGraph: str,
        *,
        base: str | None = None,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> Result:
        """Evaluate a SPARQL query. The result is of one instant, also where it is read later. After ``timeout`` seconds
        ``lowtide.errors.QueryTimeout`` is raised.

        A query whose FROM names a graph that the store does not have is left to rdflib, which loads it from there.
        """
        reader = self._reading().reader()
        try:
            if self._must_load(reader, query, initNs, base):
                raise NotImplementedError
            return sparql.query(
                reader,
                query,
                init_ns=initNs,
                init_bindings=_terms(initBindings),
                base=base,
                timeout=timeout,
                closing=reader.close,
                **self._active(queryGraph),
            )
        except BaseException:
            reader.close()
            raise

    def _must_load(self, reader: IdReader, query: Query | str, namespaces: Mapping[str, Any], base: str | None) -> bool:
        """Whether a query is from a graph that is not in the store, and rdflib is to load such graphs."""
        if not rdflib.plugins.sparql.SPARQL_LOAD_GRAPHS:
            return False
        clauses = sparql.parsed_query(query, namespaces, base).clauses
        if not clauses:
            return False
        missing = {each.default or each.named for each in clauses}.difference(reader.created_graphs())
        wanted = (self._pattern_ids(reader, (None, None, None), each) for each in missing)
        return any(ids is None or next(reader.match(*ids), None) is None for ids in wanted)

    def explain(
        self,
        query: Query | str,
        initNs: Mapping[str, Any] | None = None,
        initBindings: Mapping[str, Identifier] | None = None,
        queryGraph: str = DATASET_DEFAULT_GRAPH_ID,
        *,
        base: str | None = None,
        timeout: float | None = None,
    ) -> sparql.Explanation:
        """Evaluate a query, and return its plan with estimated and seen counts instead of its result."""
        with self._reading().reader() as reader:
            return sparql.explain(
                reader,
                query,
                init_ns=initNs,
                init_bindings=initBindings,
                base=base,
                timeout=timeout,
                **self._active(queryGraph),
            )

    def update(
        self,
        update: Update | str,
        initNs: Mapping[str, Any],
        initBindings: Mapping[str, Identifier],
        queryGraph: str,
        *,
        base: str | None = None,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Run a SPARQL update request as one transaction, or as a part of the open one. If all graphs are queried,
        ``inserting_into`` is the graph that is changed."""
        active = self._active(queryGraph)
        target = self._sessions().target
        if target is not None and queryGraph == _UNION:
            active["context"] = self._active(target)["context"]
        sparql.update(
            self._writing(),
            update,
            init_ns=initNs,
            init_bindings=_terms(initBindings),
            base=base,
            timeout=timeout,
            **active,
        )

    def _active(self, graph: str) -> _Active:
        """What a query's default graph is: ``graph`` is the identifier of a graph, or rdflib's word for all of them."""
        if graph == _UNION:
            return {"default_union": rdflib.plugins.sparql.SPARQL_DEFAULT_GRAPH_UNION, "context": None}
        name = graph_name(graph, self._defaults)
        return {"default_union": False, "context": None if name is DEFAULT else name}

    # Namespaces

    def bind(self, prefix: str, namespace: URIRef, override: bool = True) -> None:
        """Bind a prefix to a namespace, in the transaction. What either was bound to is unbound; without ``override``,
        nothing is changed if one of them is bound. Where nothing can be written, the binding is this object's own."""
        if self.writable:
            self._writing().prefixes.bind(prefix, namespace, override=override)
        elif override or (self.namespace(prefix) is None and self.prefix(namespace) is None):
            own = {each: bound for each, bound in self._prefixes.items() if bound != namespace}
            self._prefixes = {**own, prefix: namespace}
        self._binding_order = {**{each: None for each in self._binding_order if each != prefix}, prefix: None}

    def namespace(self, prefix: str) -> URIRef | None:
        """The namespace of a prefix."""
        own = self._prefixes
        return (own.get(prefix) if own else None) or self._reading().prefixes.namespace(prefix)

    def prefix(self, namespace: URIRef) -> str | None:
        """The prefix of a namespace."""
        for prefix, bound in self._prefixes.items():
            if bound == namespace:
                return prefix
        return self._reading().prefixes.prefix(namespace)

    def namespaces(self) -> Iterator[tuple[str, URIRef]]:
        """All current prefixes and their namespaces. Those that this object has bound come last, in the order of
        binding."""
        found = {**dict(self._reading().prefixes.items()), **self._prefixes}
        late = {prefix: found.pop(prefix) for prefix in self._binding_order if prefix in found}
        return iter((found | late).items())

    # Between rdflib's objects and names

    def _graph(self, context: _ContextType) -> Identifier | DefaultGraph:
        return graph_name(context, self._defaults)

    def _context(self, name: Identifier | None) -> Graph:
        known = None if name is None else self._graphs.get(name)
        return context_of(self, name, self._default) if known is None else known

    def _own(self, context: _ContextType) -> Graph:
        return context if isinstance(context, Graph) else self._context(context)

    def _node(self, term: Identifier) -> Node:
        return node_of(self, term)


def _terms(bindings: Mapping[str, Any]) -> dict[str, Identifier]:
    """The values of variables; values that are not terms become literals."""
    return {name: each if isinstance(each, Identifier) else Literal(each) for name, each in bindings.items()}


def _names(reader: IdReader, ids: Iterable[bytes]) -> list[Identifier | None]:
    """The names of graphs; None for the default graph."""
    distinct = list(dict.fromkeys(ids))
    named = [each for each in distinct if each != DEFAULT_GRAPH]
    names = dict(zip(named, reader.terms_of(named), strict=True))
    return [names.get(each) for each in distinct]
