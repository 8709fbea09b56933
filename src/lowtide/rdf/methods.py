"""Runs methods of rdflib's graphs that call the store several times as one transaction each.

``set`` removes and adds, ``parse`` adds one statement at a time, and a new namespace manager binds thirty prefixes. On
a transactional store each of them should be one transaction. ``install`` wraps these methods of rdflib's own classes:
on a ``LowtideStore`` they run in a transaction, on any other store they behave as before. It also adds
``Graph.transaction``. It runs when the plugin is loaded, before any graph uses it.

The alternative, subclasses alone, would leave ``rdflib.Graph("lowtide")`` with a commit, and a sync of the disk, for
each parsed statement.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import rdflib
from rdflib.graph import ConjunctiveGraph, QuotedGraph
from rdflib.namespace import NamespaceManager
from rdflib.query import Result
from rdflib.store import VALID_STORE

from lowtide import Isolation
from lowtide.errors import UsageError
from lowtide.rdf.contexts import PLAIN
from lowtide.rdf.sessions import TransactionBlock
from lowtide.rdf.store import LowtideStore

_Method = Callable[..., Any]


class GraphNamespaces(Mapping[str, Any]):
    """The prefixes of a graph for one query, each looked up on demand. rdflib would read all of them for each query,
    and most queries need few or none."""

    def __init__(self, graph: rdflib.Graph) -> None:
        self._graph = graph
        self._manager = graph.namespace_manager  # which binds rdflib's own prefixes if it is new, before the query
        self._all: dict[str, Any] | None = None

    def __getitem__(self, prefix: str) -> Any:
        found = self._manager.store.namespace(prefix) if self._all is None else self._all.get(prefix)
        if found is None:
            raise KeyError(prefix)
        return found

    def _read(self) -> dict[str, Any]:
        if self._all is None:
            self._all = dict(self._graph.namespaces())
        return self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __bool__(self) -> bool:
        return True  # so that rdflib does not read them because there are none


def _with_namespaces(graph: rdflib.Graph, args: tuple[Any, ...], options: dict[str, Any], place: int) -> dict[str, Any]:
    """The options of a query or an update, with the graph's namespaces if there are none; as an argument they would be
    at ``place``."""
    if len(args) > place or options.get("initNs"):
        return options
    return {**options, "initNs": GraphNamespaces(graph)}


def store_of(graph: rdflib.Graph) -> LowtideStore:
    """The Lowtide store of a graph."""
    store = graph.store
    if not isinstance(store, LowtideStore):
        raise UsageError(
            f'transactions need a graph on a Lowtide store, as Graph("lowtide"); this one is on {type(store).__name__}'
        )
    return store


def transaction(
    graph: rdflib.Graph, isolation: Isolation | str | None = None, read_only: bool = False
) -> TransactionBlock:
    """A transaction on a graph, for a ``with`` statement; see ``LowtideStore.transaction``."""
    return store_of(graph).transaction(isolation, read_only)


def _in_one(method: _Method) -> _Method:
    """The method as one transaction that is retried on conflict; its arguments can be used again."""

    @functools.wraps(method)
    def called(self: Any, *args: Any, **options: Any) -> Any:
        store = self.store
        if not isinstance(store, LowtideStore) or not store.writable:
            return method(self, *args, **options)
        return store.run(lambda _: method(self, *args, **options))

    return called


def _updated(method: _Method) -> _Method:
    """Passes the target graph of insertions into a conjunctive graph to updates: rdflib only tells stores that all
    graphs are queried."""
    in_one = _in_one(method)

    @functools.wraps(method)
    def update(self: rdflib.Graph, *args: Any, **options: Any) -> Any:
        by_store = isinstance(self.store, LowtideStore) and options.get("use_store_provided", True)
        if by_store:
            options = _with_namespaces(self, args, options, 2)
        if by_store and isinstance(self, ConjunctiveGraph) and not isinstance(self, rdflib.Dataset):
            with store_of(self).inserting_into(self.default_context.identifier):
                return in_one(self, *args, **options)
        return in_one(self, *args, **options)

    return update


def _subtracted(method: _Method) -> _Method:
    in_one = _in_one(method)

    @functools.wraps(method)
    def __isub__(self: rdflib.Graph, other: Iterable[Any]) -> Any:
        return in_one(self, list(other) if isinstance(self.store, LowtideStore) else other)

    return __isub__


def _added(method: _Method) -> _Method:
    """``addN``, whose check of each term takes a fifth of the time of a large one: here the types are checked, each
    once. Whatever is not of the usual kind is left to rdflib."""

    @functools.wraps(method)
    def addN(self: rdflib.Graph, quads: Iterable[Any]) -> Any:
        store = self.store
        if not isinstance(store, LowtideStore):
            return method(self, quads)
        given = list(quads)
        if set(map(type, given)) <= {tuple} and set(map(len, given)) <= {4}:
            kinds = {kind for place in range(3) for kind in set(map(type, map(itemgetter(place), given)))}
            contexts = {id(each): each for each in map(itemgetter(3), given)}.values()
            if kinds <= PLAIN and all(_is_usual(self, each) for each in contexts):
                store.addN(given)
                return self
        return method(self, given)

    return addN


def _is_usual(graph: rdflib.Graph, context: Any) -> bool:
    """Whether rdflib passes what is added to ``context`` by way of ``graph`` on as it is."""
    if isinstance(graph, ConjunctiveGraph):
        return isinstance(context, rdflib.Graph) and not isinstance(context, QuotedGraph)
    return isinstance(context, rdflib.Graph) and context.identifier is graph.identifier


def _parsed(method: _Method) -> _Method:
    @functools.wraps(method)
    def parse(self: rdflib.Graph, *args: Any, **options: Any) -> Any:
        store = self.store
        if not isinstance(store, LowtideStore):
            return method(self, *args, **options)
        with store.parsing():
            return method(self, *args, **options)

    return parse


def _opened(method: _Method) -> _Method:
    """Opening, after which the graph that has no name is the default graph of the store."""

    @functools.wraps(method)
    def open(self: rdflib.Graph, *args: Any, **options: Any) -> Any:
        opened = method(self, *args, **options)
        store = self.store
        if isinstance(store, LowtideStore) and opened == VALID_STORE and not isinstance(self, rdflib.Dataset):
            own = self.default_context if isinstance(self, ConjunctiveGraph) else self
            store.adopt(own.identifier)
        return opened

    return open


def _queried(method: _Method) -> _Method:
    """Queries by rdflib's own processor: evaluated whole, in a transaction that reads one snapshot."""

    @functools.wraps(method)
    def query(self: rdflib.Graph, *args: Any, use_store_provided: bool = True, **options: Any) -> Result:
        store = self.store
        if use_store_provided and isinstance(store, LowtideStore):
            options = _with_namespaces(self, args, options, 3)
        if use_store_provided or not isinstance(store, LowtideStore) or not store.writable:
            return method(self, *args, use_store_provided=use_store_provided, **options)  # type: ignore[no-any-return]
        with store.transaction(read_only=True):
            result: Result = method(self, *args, use_store_provided=False, **options)
            if result.type == "SELECT":
                len(result)  # which evaluates it
            return result

    return query


def _managed(method: _Method) -> _Method:
    """The making of a namespace manager, which binds rdflib's own prefixes; ``self.store`` is not there before it."""

    @functools.wraps(method)
    def __init__(self: NamespaceManager, graph: rdflib.Graph, *args: Any, **options: Any) -> None:
        store = graph.store
        if not isinstance(store, LowtideStore) or not store.is_open or not store.writable:
            method(self, graph, *args, **options)
        else:
            store.run(lambda _: method(self, graph, *args, **options))

    return __init__


_WRAPPED: tuple[tuple[type, str, Callable[[_Method], _Method]], ...] = (
    (rdflib.Graph, "open", _opened),
    (rdflib.Graph, "addN", _added),
    (ConjunctiveGraph, "addN", _added),
    (rdflib.Graph, "parse", _parsed),
    (rdflib.Graph, "set", _in_one),
    (rdflib.Graph, "__isub__", _subtracted),
    (rdflib.Graph, "update", _updated),
    (rdflib.Graph, "query", _queried),
    (rdflib.Dataset, "graph", _in_one),
    (rdflib.Dataset, "remove_graph", _in_one),
    (NamespaceManager, "__init__", _managed),
    (NamespaceManager, "bind", _in_one),
)


def install() -> None:
    """Give rdflib's classes the methods of this module. Harmless when repeated."""
    if not hasattr(rdflib.Graph, "transaction"):
        for owner, name, wrap in _WRAPPED:
            setattr(owner, name, wrap(getattr(owner, name)))
        rdflib.Graph.transaction = transaction  # type: ignore[attr-defined]
