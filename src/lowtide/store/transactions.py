"""Transactions and snapshots as users have them: each holds one of the engine, and opens the kinds of data on it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from lowtide.documents.sql import Parameters, SqlResult
from lowtide.documents.sql import query as run_sql
from lowtide.engine.statements.runners import SnapshotStatements, TransactionStatements
from lowtide.engine.transaction.callbacks import Callback
from lowtide.engine.transaction.isolation import Isolation
from lowtide.engine.transaction.keyspace import Keyspace, ReadKeyspace
from lowtide.engine.transaction.savepoint import Savepoint
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.store.kinds import Kinds, ReadKinds, open_keyspace


class Transaction(Kinds):
    """One transaction; made by ``store.begin`` or ``store.transaction``.

    Used by one thread at a time, though not always the same one. Nothing that it writes is seen by others before its
    commit. One that is dropped unfinished is rolled back.

    >>> tx = store.begin()
    >>> tx.keyspace("fruit").put(b"plum", b"purple")
    >>> tx["trees"].insert_one({"_id": "plum", "height": 6}).inserted_id
    'plum'
    >>> tx.commit() == store.stats().last_commit
    True
    """

    __slots__ = ("_tx",)

    def __init__(self, tx: EngineTransaction) -> None:
        self._tx = tx

    @property
    def ts(self) -> int:
        """The commit that this transaction reads from; below SNAPSHOT, the last one when it began."""
        return self._tx.ts

    @property
    def isolation(self) -> Isolation:
        """The level that this transaction was begun at."""
        return self._tx.isolation

    @property
    def read_only(self) -> bool:
        """Whether this transaction can only read."""
        return self._tx.read_only

    def keyspace(self, name: str) -> Keyspace:
        """The keyspace ``name``, as this transaction sees it. It exists once something was put into it.

        >>> with store.transaction() as tx:
        ...     tx.keyspace("fruit").get(b"apple")
        b'red'
        """
        tx = self._tx
        return open_keyspace(tx, name, tx.engine.catalog.prefix_of(name))

    def _statements(self) -> TransactionStatements:
        return TransactionStatements(self._tx)

    def savepoint(self) -> Savepoint:
        """A part of the transaction that is undone on its own if it fails.

        >>> with store.transaction() as tx:
        ...     fruit = tx.keyspace("fruit")
        ...     try:
        ...         with tx.savepoint():
        ...             fruit.put(b"apple", b"rotten")
        ...             raise ValueError
        ...     except ValueError:
        ...         fruit.get(b"apple")
        b'red'
        """
        return self._tx.savepoint()

    def on_commit(self, callback: Callback) -> None:
        """Call ``callback(ts)`` after the commit was published, in commit order; not at all if the commit fails, or if
        the savepoint that this is called in is rolled back.

        >>> with store.transaction() as tx:
        ...     tx.keyspace("fruit").put(b"fig", b"green")
        ...     tx.on_commit(lambda ts: print("it is committed"))
        it is committed
        """
        self._tx.on_commit(callback)

    def commit(self) -> int:
        """Make everything durable and visible at once; returns the commit's timestamp.

        Raises ConflictError if another transaction committed first. Whatever it raises, the transaction has ended.
        A transaction that wrote nothing returns the timestamp that it read at.
        """
        return self._tx.commit()

    def rollback(self) -> None:
        """Discard what was written. At NONE there is nothing to discard: writes were committed one by one."""
        self._tx.rollback()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tx.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return repr(self._tx)


class Snapshot(ReadKinds):
    """The committed state at ``ts``, kept for as long as this is open; made by ``store.snapshot``.

    Any number of threads may read it at once.

    >>> with store.snapshot() as snapshot:
    ...     store.keyspace("fruit").put(b"apple", b"green")
    ...     snapshot.keyspace("fruit").get(b"apple")
    b'red'
    """

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: EngineSnapshot) -> None:
        self._snapshot = snapshot

    @property
    def ts(self) -> int:
        """The last commit that this snapshot shows."""
        return self._snapshot.ts

    @property
    def keyspaces(self) -> tuple[str, ...] | None:
        """The keyspaces that can be read; None for all."""
        return self._snapshot.keyspaces

    def keyspace(self, name: str) -> ReadKeyspace:
        """The keyspace ``name``, as it was at ``ts``.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.keyspace("fruit").get(b"apple")
        b'red'
        """
        return self._snapshot.keyspace(name)

    def _statements(self) -> SnapshotStatements:
        return SnapshotStatements(self._snapshot)

    def sql(self, query: str, parameters: Parameters = None) -> SqlResult:
        """Run a SQL query by DuckDB over the collections as they were at ``ts``; see ``store.sql``.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.sql("select 6 * 7 as answer").fetchone()
        (42,)
        """
        return run_sql(query, parameters, _Tables(self))

    def cuts(self, keyspace: str, parts: int, start: bytes | None = None, stop: bytes | None = None) -> list[bytes]:
        """Keys that cut ``start <= key < stop`` of a keyspace into ``parts`` with about as many keys each, to scan them
        side by side: at most ``parts`` - 1, ascending, each the first key of a part. Fewer if there are too few keys.

        It takes milliseconds, however many keys there are: they are not counted, but estimated from the pages that they
        lie on.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.cuts("fruit", 3)
        [b'banana', b'blueberry']
        """
        return self._snapshot.cuts(keyspace, parts, start, stop)

    def unchanged_since(self, keyspace: str) -> int | None:
        """A commit after which the keyspace did not change, up to ``ts``: what was read of it at that commit, or at any
        later one for which this says the same, is still right. None if it is not known, above all if the keyspace was
        changed after ``ts`` and a checkpoint has passed.

        >>> store.keyspace("fruit").put(b"lime", b"green")
        >>> changed = store.stats().last_commit
        >>> store.keyspace("other").put(b"a", b"b")
        >>> with store.snapshot() as snapshot:
        ...     snapshot.unchanged_since("fruit") == changed
        True
        """
        return self._snapshot.unchanged_since(keyspace)

    def close(self) -> None:
        """Let go of what only this snapshot sees. Harmless when repeated."""
        self._snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._snapshot.close()

    def __repr__(self) -> str:
        return repr(self._snapshot)


class _Tables:
    """The collections of a snapshot, as SQL asks for them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collections(self) -> list[str]:
        return self._snapshot.list_collection_names()

    def table(self, name: str, columns: list[str] | None) -> Any:
        return self._snapshot.collection(name).to_arrow(columns)

    def stream(self, name: str) -> Any:
        from lowtide.columnar.streaming import DocumentStream

        return DocumentStream(self._snapshot.collection(name)._stored)
