"""Transactions and snapshots as users have them: with collections besides keyspaces."""

from __future__ import annotations

from typing import Any

from lowtide.documents.collection import Collection
from lowtide.documents.conflicts import explained
from lowtide.documents.management import collection_names
from lowtide.documents.reading import ReadCollection
from lowtide.documents.source import OfSnapshot, OfTransaction, Source
from lowtide.documents.sql import Parameters, Result
from lowtide.documents.sql import query as run_sql
from lowtide.engine.transaction import snapshot, transaction
from lowtide.engine.transaction.engine import Engine
from lowtide.errors import ConflictError


class Transaction(transaction.Transaction):
    """One transaction; made by ``store.begin`` or ``store.transaction``.

    >>> tx = store.begin()
    >>> tx.keyspace("fruit").put(b"plum", b"purple")
    >>> tx["trees"].insert_one({"_id": "plum", "height": 6}).inserted_id
    'plum'
    >>> tx.commit() == store.stats().last_commit
    True
    """

    __slots__ = ("_keep",)

    _keep: object
    """The store, which must not be closed under this because it was dropped."""

    def collection(self, name: str) -> Collection:
        """The collection ``name``, as this transaction sees it; also ``tx[name]``. It exists once it has a document,
        an index or a schema.

        >>> with store.transaction() as tx:
        ...     tx.collection("trees").insert_one({"_id": "plum"}).inserted_id
        'plum'
        """
        return Collection(OfTransaction(self), name)

    def __getitem__(self, name: str) -> Collection:
        return Collection(OfTransaction(self), name)

    def list_collection_names(self) -> list[str]:
        """The collections that exist, as this transaction sees it.

        >>> with store.transaction() as tx:
        ...     tx.list_collection_names()
        []
        """
        return names_in(OfTransaction(self), self._engine)

    def commit(self) -> int:
        """Make everything durable and visible at once; returns the commit's timestamp.

        Raises ConflictError if another transaction committed first. Whatever it raises, the transaction has ended.
        A transaction that wrote nothing returns the timestamp that it read at.
        """
        try:
            return super().commit()
        except ConflictError as error:
            raise explained(error, self) from None


class Snapshot(snapshot.Snapshot):
    """The committed state at ``ts``, kept for as long as this is open; made by ``store.snapshot``.

    Any number of threads may read it at once.

    >>> with store.snapshot() as snapshot:
    ...     store.keyspace("fruit").put(b"apple", b"green")
    ...     snapshot.keyspace("fruit").get(b"apple")
    b'red'
    """

    __slots__ = ("_keep",)

    _keep: object
    """The store, which must not be closed under this because it was dropped."""

    def collection(self, name: str) -> ReadCollection:
        """The collection ``name``, as it was at ``ts``; also ``snapshot[name]``.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.collection("trees").find_one({"_id": "plum"})
        """
        return ReadCollection(OfSnapshot(self), name)

    def __getitem__(self, name: str) -> ReadCollection:
        return ReadCollection(OfSnapshot(self), name)

    def sql(self, query: str, parameters: Parameters = None) -> Result:
        """Run a SQL query by DuckDB over the collections as they were at ``ts``; see ``store.sql``.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.sql("select 6 * 7 as answer").fetchone()
        (42,)
        """
        return run_sql(query, parameters, _Tables(self))

    def list_collection_names(self) -> list[str]:
        """The collections that existed at ``ts``.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.list_collection_names()
        []
        """
        return names_in(OfSnapshot(self), self._engine, self.keyspaces)


class _Tables:
    """The collections of a snapshot, as SQL asks for them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collections(self) -> list[str]:
        return self._snapshot.list_collection_names()

    def table(self, name: str, columns: list[str] | None) -> Any:
        return self._snapshot.collection(name).to_arrow(columns)

    def stream(self, name: str) -> Any:
        from lowtide.columnar.streaming import Stream

        return Stream(self._snapshot.collection(name)._stored)


def names_in(source: Source, engine: Engine, held: tuple[str, ...] | None = None) -> list[str]:
    """The collections that a source's statements see: also one that a transaction has just begun to fill, whose
    keyspace nobody else has written to. Of a pin that is limited to keyspaces, those that it holds."""
    used = list(engine.catalog.prefixes)
    return source.look(lambda reading, prefix_of: collection_names(reading, prefix_of, used, held))
