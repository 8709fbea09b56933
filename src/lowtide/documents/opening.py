"""How collections are opened: on a transaction, on a snapshot, or on the store."""

from __future__ import annotations

from lowtide.documents.catalog import CATALOG, DOCUMENTS, INDEXES
from lowtide.documents.collection import Collection
from lowtide.documents.management import collection_names
from lowtide.documents.read_collection import ReadCollection
from lowtide.engine import Statements
from lowtide.feed.feed import Feed

RESERVED = dict.fromkeys((CATALOG, DOCUMENTS, INDEXES), "store.collection(name)")
"""The keyspaces that hold collections, by the beginning of their names, and what writes to them."""


class ReadCollections:
    """Opens collections for reading. A mixin of what runs statements."""

    __slots__ = ()

    def _statements(self) -> Statements:
        raise NotImplementedError

    def collection(self, name: str) -> ReadCollection:
        """The collection ``name``, as it was at ``ts``; also ``snapshot[name]``.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.collection("trees").find_one({"_id": "plum"})
        """
        return ReadCollection(self._statements(), name)

    def __getitem__(self, name: str) -> ReadCollection:
        return ReadCollection(self._statements(), name)

    def list_collection_names(self) -> list[str]:
        """The collections that existed at ``ts``.

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
        """The change feed, where each statement is a commit of its own."""
        return None

    def collection(self, name: str) -> Collection:
        """The collection ``name``; also ``tx[name]`` and ``store[name]``. It exists once it has a document, an index
        or a schema. On the store, each call is a transaction of its own.

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
        """The collections that exist: that have a document, an index or a schema.

        >>> store.list_collection_names()
        ['users']
        """
        return collection_names(self._statements())
