"""The transaction that a thread has open on a graph's store, if any.

rdflib has no object for a transaction: ``graph.add`` and ``graph.commit`` say only which graph they are called on. So a
transaction belongs to a thread and a plugin object. Each thread has its own: what two threads do at the same time on
the same graph, or on two graphs of one store, is isolated. Without a transaction each call is its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from rdflib.term import Identifier

from lowtide import Isolation, Savepoint, Store, Transaction
from lowtide.engine import policy_of
from lowtide.errors import UsageError
from lowtide.quads.parsing import Statement
from lowtide.store.store import backend_of

_Result = TypeVar("_Result")


class _Current(threading.local):
    """What one thread has open; no other thread sees it."""

    tx: Transaction | None = None
    block = False
    """Whether a ``with`` block has begun the transaction, and will end it."""
    nested = 0
    """How many ``with`` blocks are open inside of it, each a savepoint."""
    retried = False
    """Whether the transaction is that of ``run``, which commits it."""
    pending: list[Statement] | None = None
    """The statements of a parser that are not in its transaction yet; None where no parser runs."""
    target: Identifier | None = None
    """The graph that an update of all graphs inserts into."""


class Sessions:
    """The transactions of one plugin object, at most one per thread. Threads share the store, and nothing else."""

    __slots__ = ("_current", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._current = _Current()

    @property
    def tx(self) -> Transaction | None:
        """The transaction of this thread."""
        return self._current.tx

    @property
    def pending(self) -> list[Statement] | None:
        """The statements of a parser of this thread that are not in its transaction yet; None if there is none."""
        return self._current.pending

    @pending.setter
    def pending(self, statements: list[Statement] | None) -> None:
        self._current.pending = statements

    @property
    def target(self) -> Identifier | None:
        """The graph that an update of all graphs inserts into, if this thread runs one that says so."""
        return self._current.target

    @target.setter
    def target(self, graph: Identifier | None) -> None:
        self._current.target = graph

    @property
    def read_only(self) -> bool:
        """Whether the store can only be read."""
        return backend_of(self._store).engine.read_only

    def begin(self, isolation: Isolation | str, read_only: bool) -> Transaction:
        """Begin the transaction of this thread, which must have none."""
        current = self._current
        if current.tx is not None:
            raise UsageError(
                "this thread has a transaction open on this graph; end it by commit() or rollback() before the next "
                "one, or use `with graph.transaction():`, which nests"
            )
        tx = current.tx = self._store.begin(isolation, read_only)
        return tx

    def end(self, *, commit: bool) -> None:
        """Commit or discard the transaction of this thread, if there is one. In a ``with`` block the next one begins at
        once, so the whole block is in a transaction."""
        current = self._current
        tx = current.tx
        if tx is None:
            return
        wanted = "commit()" if commit else "rollback()"
        if current.retried:
            raise UsageError(f"{wanted} in a function that run() retries: run() commits it, and an error undoes it")
        if current.nested:
            raise UsageError(f"{wanted} in a nested transaction: only the outermost one can be ended")
        current.tx = None
        try:
            if commit:
                tx.commit()
            else:
                tx.rollback()
        finally:
            if current.block:
                current.tx = self._store.begin(tx.isolation, tx.read_only)

    def enter(self, isolation: Isolation | str | None, read_only: bool) -> tuple[Transaction, bool]:
        """Begin a ``with`` block: a new transaction, or a part of the open one; in that case the second result is
        true."""
        current = self._current
        tx = current.tx
        if tx is None:
            tx = current.tx = self._store.begin("snapshot" if isolation is None else isolation, read_only)
            current.block = True
            return tx, False
        if isolation is not None and policy_of(isolation).level is not tx.isolation:
            raise UsageError(
                f"a transaction inside one of level {tx.isolation.name} cannot have the level {isolation!s}; leave the "
                "level out to join the outer one"
            )
        current.nested += 1
        return tx, True

    def leave(self, error: BaseException | None) -> None:
        """End the outermost ``with`` block: commit, or undo what was done in it."""
        current = self._current
        tx, current.tx, current.block = current.tx, None, False
        if tx is not None:
            tx.__exit__(None if error is None else type(error), error, None)

    def leave_nested(self) -> None:
        """End a ``with`` block inside another one."""
        self._current.nested -= 1

    def run(
        self,
        fn: Callable[[Transaction], _Result],
        isolation: Isolation | str,
        attempts: int | None,
        timeout: float | None,
    ) -> _Result:
        """Run ``fn(tx)`` in a transaction of this thread, and retry both on conflict. Inside a transaction, run it as a
        part of that one: only the outermost call retries."""
        current = self._current
        if current.tx is not None:
            with TransactionBlock(self, None, False) as tx:
                return fn(tx)

        def bound(tx: Transaction) -> _Result:
            current.tx, current.retried = tx, True
            try:
                return fn(tx)
            finally:
                current.tx, current.retried = None, False

        return self._store.run(bound, isolation, attempts, timeout=timeout)


class TransactionBlock:
    """A ``with`` block that is one transaction, or, inside another one, a part of it that is undone on its own. At NONE
    nothing is undone: each call is committed at once."""

    __slots__ = ("_isolation", "_nested", "_read_only", "_savepoint", "_sessions")

    def __init__(self, sessions: Sessions, isolation: Isolation | str | None, read_only: bool) -> None:
        self._sessions = sessions
        self._isolation = isolation
        self._read_only = read_only
        self._nested = False
        self._savepoint: Savepoint | None = None

    def __enter__(self) -> Transaction:
        tx, self._nested = self._sessions.enter(self._isolation, self._read_only)
        if self._nested and tx.isolation is not Isolation.NONE:
            self._savepoint = tx.savepoint()
            self._savepoint.__enter__()
        return tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._nested:
            self._sessions.leave(error)
            return
        self._sessions.leave_nested()
        if self._savepoint is not None:
            self._savepoint.__exit__(kind, error, trace)
