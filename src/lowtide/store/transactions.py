"""Users' transactions and snapshots: each holds an object of the engine, and opens the kinds of data on it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from lowtide.documents.collection import Collection
from lowtide.documents.sql import Parameters, SqlResult
from lowtide.documents.sql import query as run_sql
from lowtide.documents.sql_tables import CollectionTables
from lowtide.engine.statements.runners import SnapshotStatements, TransactionStatements
from lowtide.engine.transaction.callbacks import Callback
from lowtide.engine.transaction.isolation import Isolation
from lowtide.engine.transaction.keyspace import Keyspace, ReadKeyspace
from lowtide.engine.transaction.savepoint import Savepoint
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.store.kinds import CLASSES, Kinds


class Transaction(Kinds[TransactionStatements]):
    """A transaction, from ``store.begin`` or ``store.transaction``.

    One thread at a time may use it, not necessarily always the same one. Other transactions see its writes only after
    it commits. A transaction that is dropped without a commit is rolled back.

    >>> tx = store.begin()
    >>> tx.keyspace("fruit").put(b"plum", b"purple")
    >>> tx["trees"].insert_one({"_id": "plum", "height": 6}).inserted_id
    'plum'
    >>> tx.commit() == store.stats().last_commit
    True
    """

    __slots__ = ("_collections", "_tx")

    _tx: EngineTransaction
    _collections: dict[str, Collection] | None
    """The collections opened so far; None before the first. Programs open the same few repeatedly."""

    @property
    def ts(self) -> int:
        """The commit that this transaction reads from; below SNAPSHOT, the last commit when it began."""
        return self._tx.ts

    @property
    def isolation(self) -> Isolation:
        """The isolation level of this transaction."""
        return self._tx.policy.level

    @property
    def read_only(self) -> bool:
        """Whether this transaction can only read."""
        return self._tx.read_only

    def keyspace(self, name: str) -> Keyspace:
        """The keyspace ``name``, as this transaction sees it. The first write creates it.

        >>> with store.transaction() as tx:
        ...     tx.keyspace("fruit").get(b"apple")
        b'red'
        """
        tx = self._tx
        catalog = tx.engine.catalog
        try:
            prefix = catalog.prefixes[name]  # saves a call in the usual case
        except (KeyError, TypeError):
            prefix = catalog.prefix_of(name)
        return CLASSES[name](name, prefix, tx.read, tx)

    def __getitem__(self, name: str) -> Collection:
        opened = self._collections
        if opened is None:
            opened = self._collections = {}
        found = opened.get(name) if type(name) is str else None
        if found is None:
            found = opened[name] = Collection(TransactionStatements(self._tx), name)
        return found

    def _statements(self) -> TransactionStatements:
        return TransactionStatements(self._tx)

    def savepoint(self) -> Savepoint:
        """A savepoint for a ``with`` statement: if the block raises, only its writes are undone.

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
        """Call ``callback(ts)`` after the commit is published, in commit order. It is not called if the commit fails,
        or if the savepoint that surrounds this call is rolled back.

        >>> with store.transaction() as tx:
        ...     tx.keyspace("fruit").put(b"fig", b"green")
        ...     tx.on_commit(lambda ts: print("it is committed"))
        it is committed
        """
        self._tx.on_commit(callback)

    def commit(self) -> int:
        """Make all writes durable and visible atomically, and return the commit's timestamp.

        Raises ConflictError if another transaction committed first. The transaction has ended even if this raises. A
        transaction that wrote nothing returns the timestamp of its snapshot.
        """
        return self._tx.commit()

    def rollback(self) -> None:
        """Discard all writes. At NONE there is nothing to discard: each write was committed by itself."""
        self._tx.rollback()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tx = self._tx
        if kind is None and tx.writes and not tx.state:
            tx.commit()  # the same as the following, with one call less
        else:
            tx.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return repr(self._tx)


def transaction_of(tx: EngineTransaction) -> Transaction:
    """Wrap a transaction of the engine for users."""
    shown = Transaction()  # without __init__, which would be called from C and take longer than this
    shown._tx = tx
    shown._collections = None
    return shown


class Snapshot(Kinds[SnapshotStatements]):
    """The committed state at ``ts``, from ``store.snapshot``. It is kept while the snapshot is open.

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
        """Run a SQL query in DuckDB over the collections as they were at ``ts``; see ``store.sql``.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.sql("select 6 * 7 as answer").fetchone()
        (42,)
        """
        return run_sql(query, parameters, CollectionTables(self._statements()))

    def cuts(self, keyspace: str, parts: int, start: bytes | None = None, stop: bytes | None = None) -> list[bytes]:
        """Return keys that split ``start <= key < stop`` of a keyspace into ``parts`` of about equal size, to scan them
        in parallel. The keys ascend, and each is the first of its part: ``parts`` - 1 keys, or fewer if there are few
        keys.

        This takes milliseconds for any number of keys: it does not count them, but estimates from the pages they are
        on.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.cuts("fruit", 3)
        [b'banana', b'blueberry']
        """
        return self._snapshot.cuts(keyspace, parts, start, stop)

    def unchanged_since(self, keyspace: str) -> int | None:
        """Return a commit after which the keyspace did not change, up to ``ts``. Anything read from it at that commit,
        or at a snapshot that returns the same commit, is still valid. None if this is not known, usually because the
        keyspace changed after ``ts`` and a checkpoint followed.

        >>> store.keyspace("fruit").put(b"lime", b"green")
        >>> changed = store.stats().last_commit
        >>> store.keyspace("other").put(b"a", b"b")
        >>> with store.snapshot() as snapshot:
        ...     snapshot.unchanged_since("fruit") == changed
        True
        """
        return self._snapshot.unchanged_since(keyspace)

    def close(self) -> None:
        """Close the snapshot, so that versions only it sees can be collected. A second call does nothing."""
        self._snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._snapshot.close()

    def __repr__(self) -> str:
        return repr(self._snapshot)


def statements_of(tx: Transaction) -> TransactionStatements:
    """The statements of a transaction, for parts of Lowtide that need more than users do."""
    return tx._statements()
