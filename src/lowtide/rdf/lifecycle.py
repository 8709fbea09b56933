"""What a plugin object of rdflib has open: its store, its place in it, and the transactions of its threads."""

from __future__ import annotations

import shutil
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import rdflib.store
from rdflib.events import Event
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID, Graph
from rdflib.store import NO_STORE, VALID_STORE, StoreCreatedEvent
from rdflib.term import BNode, IdentifiedNode, Identifier, Node, URIRef

import lowtide
from lowtide.errors import UsageError
from lowtide.quads import Quads, ReadQuads
from lowtide.rdf.opening import (
    Configuration,
    QuadsPlace,
    SharedStore,
    exists,
    holds_data,
    is_shared,
    open_shared,
    place_of,
)
from lowtide.rdf.sessions import Sessions, TransactionBlock

_Result = TypeVar("_Result")


class _Adopters(threading.local):
    """Which plugin object of a thread has the default graph of which quads under another name, see ``adopt``."""

    def __init__(self) -> None:
        self.of_thread: weakref.WeakValueDictionary[tuple[int, str], TransactionalStore] = weakref.WeakValueDictionary()


_adopters = _Adopters()


class OpenedPlace(NamedTuple):
    """An open store, as one plugin object uses it. ``sessions`` is None where nothing can be written: on a snapshot."""

    place: QuadsPlace
    source: lowtide.Store | lowtide.Snapshot
    sessions: Sessions | None
    shared: SharedStore | None


class TransactionalStore(rdflib.store.Store):
    """The half of ``LowtideStore`` that opens, closes and has transactions; statements are the other half's."""

    context_aware = True
    formula_aware = True
    graph_aware = True
    transaction_aware = True

    def __init__(self, configuration: Configuration | None = None, identifier: Identifier | None = None) -> None:
        super().__init__()
        self.identifier = identifier
        self._opened: OpenedPlace | None = None
        self._last: QuadsPlace | None = None
        self._default: IdentifiedNode = DATASET_DEFAULT_GRAPH_ID
        self._defaults: frozenset[Node] = frozenset((DATASET_DEFAULT_GRAPH_ID,))
        self._prefixes: dict[str, URIRef] = {}
        """The bindings made where nothing can be written. Replaced whole, by any thread."""
        self._binding_order: dict[str, None] = {}
        """The prefixes that were bound by this object, the last one last. Replaced whole, by any thread."""
        self._graphs: weakref.WeakValueDictionary[Identifier, Graph] = weakref.WeakValueDictionary()
        """Graphs that were created here and are still in use, by name: they may have a base. Any thread adds one."""
        if configuration is not None:
            self.open(configuration, create=True)

    # Opening and closing

    def open(self, configuration: Configuration, create: bool = False) -> int:
        """Open the quads that ``configuration`` names: a directory, ``(directory, name)``, a mapping of ``path``,
        ``name`` and options of ``lowtide.open``, an open ``lowtide.Store``, or a ``lowtide.Snapshot``.

        Returns ``rdflib.store.VALID_STORE``, or ``NO_STORE`` if there is no store in the directory and ``create`` is
        false. Graphs of one process that open the same directory share one ``lowtide.Store``.
        """
        place = place_of(configuration)
        if self._opened is not None:
            if place == self._opened.place:
                return VALID_STORE
            raise UsageError(
                f"this store is open already ({self._opened.place.name!r}); close it before opening another"
            )
        shared = None
        source = place.source
        if source is None:
            assert place.path is not None
            new = not exists(place.path)
            if new and not create:
                return NO_STORE
            shared = open_shared(place.path, place.options)
            source = shared.store
            if new:
                self._dispatch(StoreCreatedEvent, configuration=configuration)
        sessions = Sessions(source) if isinstance(source, lowtide.Store) else None
        self._opened = OpenedPlace(place, source, sessions, shared)
        self._last = place
        return VALID_STORE

    def adopt(self, identifier: IdentifiedNode) -> None:
        """Map a blank node, the identifier of the graph that opened the store, to the default graph in this object.

        A graph without a name gets a new blank node as its identifier each time it is created, so its statements would
        never be found again. A second such graph of the same thread, opened while the first one is open, is a separate
        graph: in rdflib, two graphs without a name are two graphs.
        """
        opened = self._open()
        if not isinstance(identifier, BNode) or identifier in self._defaults:
            return
        adopters: weakref.WeakValueDictionary[tuple[int, str], TransactionalStore] = _adopters.of_thread
        other = adopters.setdefault((id(opened.source), opened.place.name), self)
        if other is not self and other.is_open:
            warnings.warn(
                "another graph without a name is open on the same quads, and is the default graph; this one is a graph "
                "of its own, which is not found again: give it an identifier",
                stacklevel=4,
            )
            return
        adopters[id(opened.source), opened.place.name] = self
        self._default = identifier
        self._defaults = frozenset((DATASET_DEFAULT_GRAPH_ID, identifier))

    def close(self, commit_pending_transaction: bool = False) -> None:
        """Close the store. The transaction of this thread is rolled back, or committed on request; those of other
        threads are rolled back. May be called again."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        try:
            tx = None if opened.sessions is None else opened.sessions.tx
            if tx is not None and commit_pending_transaction:
                tx.commit()
            elif tx is not None:
                tx.rollback()
        finally:
            if opened.shared is not None:
                opened.shared.close()

    def destroy(self, configuration: Configuration | None = None) -> None:
        """Remove the quads that ``configuration`` names, by default those that were open last. Also remove the
        directory if nothing else is stored there. The store must be closed."""
        place = self._last if configuration is None else place_of(configuration)
        if place is None:
            return
        if place.path is None:
            if not isinstance(place.source, lowtide.Store):
                raise UsageError("a snapshot is read-only; destroy the quads on the store")
            place.source.quads(place.name).drop()
        elif exists(place.path):
            if is_shared(place.path):
                raise UsageError(f"{place.path} is open in this process; close its graphs before destroying it")
            with lowtide.open(place.path, **place.options) as store:
                store.quads(place.name).drop()
                empty = not holds_data(store)
            if empty:
                shutil.rmtree(place.path)

    def gc(self) -> None:
        """Collect versions and terms that nothing refers to."""
        source = self._open().source
        if isinstance(source, lowtide.Store):
            source.collect_garbage()

    # Transactions

    @property
    def store(self) -> lowtide.Store:
        """The store behind this one: documents, snapshots, pins and the change feed of the same data."""
        source = self._open().source
        if not isinstance(source, lowtide.Store):
            raise UsageError("this graph reads a snapshot; open it on a store to write")
        return source

    @property
    def quads_name(self) -> str:
        """The name of the quads in the store: ``store.quads(name)``."""
        return self._open().place.name

    def transaction(
        self, isolation: lowtide.Isolation | str | None = None, read_only: bool = False
    ) -> TransactionBlock:
        """A transaction for a ``with`` statement: it commits at the end, and rolls back on an error.

        It belongs to the thread, and to all graphs of this store. ``as`` gives the ``lowtide.Transaction``, to change
        documents together with graphs. Inside another one it is a part of that, undone on its own if it fails. The
        level is ``"snapshot"`` if none is given.
        """
        return TransactionBlock(self._sessions(), isolation, read_only)

    def begin(self, isolation: lowtide.Isolation | str = "snapshot", read_only: bool = False) -> lowtide.Transaction:
        """Begin a transaction of this thread, to be ended by ``commit`` or ``rollback``."""
        return self._sessions().begin(isolation, read_only)

    def commit(self) -> None:
        """Commit the transaction of this thread. Without one there is nothing to do: each call was committed.

        Raises ``lowtide.ConflictError`` if another transaction committed first; then nothing of it is kept.
        """
        opened = self._opened
        if opened is not None and opened.sessions is not None:
            opened.sessions.end(commit=True)

    def rollback(self) -> None:
        """Discard the transaction of this thread. Without one there is nothing to do."""
        opened = self._opened
        if opened is not None and opened.sessions is not None:
            opened.sessions.end(commit=False)

    def run(
        self,
        fn: Callable[[lowtide.Transaction], _Result],
        isolation: lowtide.Isolation | str = "snapshot",
        attempts: int | None = None,
        *,
        timeout: float | None = None,
    ) -> _Result:
        """Run ``fn(tx)`` in a transaction and commit it; retry both when another transaction committed first.

        What ``fn`` does with graphs of this store belongs to the transaction. It may run many times. The bounds are
        those of ``lowtide.Store.run``.
        """
        return self._sessions().run(fn, isolation, attempts, timeout)

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Make one transaction of what a parser does, and take its statements together: parsers add one at a time.

        Its level is SNAPSHOT_READ, at which an add meets no conflict: a parser cannot be run again. Inside a
        transaction it is a part of that one.
        """
        sessions = self._sessions()
        if sessions.pending is not None:
            yield
            return
        with TransactionBlock(sessions, None if sessions.tx is not None else "snapshot_read", False):
            sessions.pending = []
            try:
                yield
                self._flush(sessions)
            finally:
                sessions.pending = None

    @contextmanager
    def inserting_into(self, graph: Identifier) -> Iterator[None]:
        """Let the updates of this thread that query all graphs insert into ``graph``: rdflib does not tell which."""
        sessions = self._sessions()
        before, sessions.target = sessions.target, graph
        try:
            yield
        finally:
            sessions.target = before

    def __getstate__(self) -> object:
        raise TypeError("a graph on a Lowtide store cannot be copied or pickled: copy its statements to another graph")

    @property
    def is_open(self) -> bool:
        """Whether ``open`` was called, and ``close`` was not."""
        return self._opened is not None

    @property
    def writable(self) -> bool:
        """Whether this thread can change something now: not on a snapshot, a read-only store or in a read-only
        transaction."""
        opened = self._open()
        if opened.sessions is None:
            return False
        tx = opened.sessions.tx
        return not (opened.sessions.read_only if tx is None else tx.read_only)

    # For the other half

    def _open(self) -> OpenedPlace:
        opened = self._opened
        if opened is None:
            raise UsageError('this store is not open; call graph.open("a directory", create=True) first')
        return opened

    def _sessions(self) -> Sessions:
        sessions = self._open().sessions
        if sessions is None:
            raise UsageError("a snapshot is read-only; open the graph on a store to write")
        return sessions

    def _reading(self) -> ReadQuads:
        """The quads as this thread sees them now."""
        opened = self._open()
        sessions = opened.sessions
        if sessions is None:
            return opened.source.quads(opened.place.name)
        if sessions.pending:
            self._flush(sessions)
        return (sessions.tx or opened.source).quads(opened.place.name)

    def _writing(self) -> Quads:
        """The quads, to be changed in the transaction of this thread, or at once."""
        sessions = self._sessions()
        opened = self._open()
        if sessions.pending:
            self._flush(sessions)
        return (sessions.tx or self.store).quads(opened.place.name)

    def _flush(self, sessions: Sessions) -> None:
        """Add what a parser has brought to its transaction."""
        pending = sessions.pending
        if pending:
            assert sessions.tx is not None
            sessions.pending = []
            sessions.tx.quads(self._open().place.name).add_many(pending)

    def _dispatch(self, kind: type[Event], **details: object) -> None:
        """Tell the subscribers of a type of event, if there are any."""
        if self._has_subscribers(kind):
            dispatcher: Any = self.dispatcher
            dispatcher.dispatch(kind(**details))

    def _has_subscribers(self, kind: type[Event]) -> bool:
        dispatcher: Any = self.dispatcher
        subscribers = dispatcher.get_map()
        return bool(subscribers) and kind in subscribers
