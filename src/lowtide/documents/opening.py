"""Documents as a kind of data: how collections are opened on a transaction, a snapshot or the store."""

from __future__ import annotations

from typing import overload

from lowtide.documents.catalog import CATALOG, DOCUMENTS, INDEXES
from lowtide.documents.collection import Collection
from lowtide.documents.conflicts import explained
from lowtide.documents.management import collection_names
from lowtide.documents.read_collection import ReadCollection
from lowtide.engine import Kind, ReadOnly, ReadWrite, Runner
from lowtide.feed.feed import Feed

_RESERVED = dict.fromkeys((CATALOG, DOCUMENTS, INDEXES), "store.collection(name)")


class Collections(Kind[Runner], reserves=_RESERVED, explains=explained):
    """Opens collections."""

    __slots__ = ()

    def _changes(self) -> Feed | None:
        """The change feed, on the store; None elsewhere."""
        return None

    @overload
    def collection(self: Collections[ReadOnly], name: str) -> ReadCollection: ...
    @overload
    def collection(self: Collections[ReadWrite], name: str) -> Collection: ...
    def collection(self, name: str) -> ReadCollection | Collection:
        """Return the collection ``name``. ``tx[name]``, ``snapshot[name]`` and ``store[name]`` are the same.

        A collection exists once it has a document, an index or a schema. On the store, each call is its own
        transaction. On a snapshot, it can only be read.

        >>> with store.transaction() as tx:
        ...     tx.collection("trees").insert_one({"_id": "plum", "height": 6}).inserted_id
        'plum'
        >>> store.collection("trees").find_one({"_id": "plum"})["height"]
        6
        >>> with store.snapshot() as snapshot:
        ...     snapshot.collection("trees").count_documents({})
        1
        """
        statements = self._statements()
        if isinstance(statements, ReadOnly):
            return ReadCollection(statements, name)
        return Collection(statements, name, self._changes())

    @overload
    def __getitem__(self: Collections[ReadOnly], name: str) -> ReadCollection: ...
    @overload
    def __getitem__(self: Collections[ReadWrite], name: str) -> Collection: ...
    def __getitem__(self, name: str) -> ReadCollection | Collection:
        statements = self._statements()
        if isinstance(statements, ReadOnly):
            return ReadCollection(statements, name)
        return Collection(statements, name, self._changes())

    def list_collection_names(self) -> list[str]:
        """Return the names of the collections that exist: those that have a document, an index or a schema.

        >>> store.list_collection_names()
        ['users']
        """
        return collection_names(self._statements())
