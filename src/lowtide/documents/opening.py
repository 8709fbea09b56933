"""The mixins that open collections on a transaction, a snapshot or the store."""

from __future__ import annotations

from lowtide.documents.catalog import CATALOG, DOCUMENTS, INDEXES
from lowtide.documents.collection import Collection
from lowtide.documents.management import collection_names
from lowtide.documents.read_collection import ReadCollection
from lowtide.engine import Statements
from lowtide.feed.feed import Feed

RESERVED = dict.fromkeys((CATALOG, DOCUMENTS, INDEXES), "store.collection(name)")
"""The prefixes of the keyspaces that hold collections, each with the call that writes to them."""


class ReadCollections:
    """Opens collections for reading. A mixin of what runs statements."""

    __slots__ = ()

    def _statements(self) -> Statements:
        raise NotImplementedError

    def collection(self, name: str) -> ReadCollection:
        """Return the collection ``name`` as of ``ts``. ``snapshot[name]`` is the same.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.collection("trees").find_one({"_id": "plum"})
        """
        return ReadCollection(self._statements(), name)

    def __getitem__(self, name: str) -> ReadCollection:
        return ReadCollection(self._statements(), name)

    def list_collection_names(self) -> list[str]:
        """Return the names of the collections that existed at ``ts``.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.list_collection_names()
        ['users']
        """
        return collection_names(self._statements())


class Collections:
    """Opens collections for reading and writing. A mixin of what runs statements."""

    __slots__ = ()

    def _statements(self) -> Statements:
        raise NotImplementedError

    def _changes(self) -> Feed | None:
        """The change feed, on the store; None elsewhere."""
        return None

    def collection(self, name: str) -> Collection:
        """Return the collection ``name``. ``tx[name]`` and ``store[name]`` are the same.

        A collection exists once it has a document, an index or a schema. On the store, each call is its own
        transaction.

        >>> with store.transaction() as tx:
        ...     tx.collection("trees").insert_one({"_id": "plum", "height": 6}).inserted_id
        'plum'
        >>> store.collection("trees").find_one({"_id": "plum"})["height"]
        6
        """
        return Collection(self._statements(), name, self._changes())

    def __getitem__(self, name: str) -> Collection:
        return Collection(self._statements(), name, self._changes())

    def list_collection_names(self) -> list[str]:
        """Return the names of the collections that exist: those that have a document, an index or a schema.

        >>> store.list_collection_names()
        ['users']
        """
        return collection_names(self._statements())
