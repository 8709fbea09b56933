"""ZODB over a FileStorage: a persistent mapping for each document, and BTrees by id, email and rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import transaction
import ZODB
from BTrees.LOBTree import LOBTree
from BTrees.OOBTree import OOBTree
from persistent.mapping import PersistentMapping
from ZODB.FileStorage import FileStorage

from bench.collections.grouping import grouped
from bench.collections.protocol import Adapter, Document, Durability

CACHED_OBJECTS = 400_000  # all documents and buckets: the manual wants the working set in the cache

Answer = TypeVar("Answer")


class ZodbCollection:
    """The indexes lead to the documents themselves. A dict comes out as a copy of the mapping."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._database = ZODB.DB(FileStorage(str(directory / "people.fs")), cache_size=CACHED_OBJECTS)
        with self._database.transaction() as connection:
            if not hasattr(connection.root, "people"):
                connection.root.people = OOBTree()
                connection.root.by_email = OOBTree()
                connection.root.by_rank = LOBTree()
        # As the manual advises: an explicit transaction manager of the connection's own.
        self._manager = transaction.TransactionManager(explicit=True)
        self._connection = self._database.open(self._manager)

    @property
    def _root(self) -> Any:
        return self._connection.root

    def insert_one(self, document: Document) -> None:
        self.insert_many([document])

    def insert_many(self, documents: Sequence[Document]) -> None:
        def work(root: Any) -> None:
            people, by_email, by_rank = root.people, root.by_email, root.by_rank
            for document in documents:
                person = PersistentMapping(document)
                people[document["_id"]] = person
                by_email[document["email"]] = person
                by_rank[document["rank"]] = person

        self._write(work)

    def _write(self, work: Callable[[Any], None]) -> None:
        self._manager.begin()
        try:
            work(self._root)
            self._manager.commit()
        except BaseException:
            self._manager.abort()
            raise

    def _read(self, work: Callable[[Any], Answer]) -> Answer:
        self._manager.begin()
        try:
            return work(self._root)
        finally:
            self._manager.abort()

    def find_by_id(self, id: str) -> Document | None:
        def work(root: Any) -> Document | None:
            person = root.people.get(id)
            return None if person is None else dict(person)

        return self._read(work)

    def find_by_email(self, email: str) -> Document | None:
        def work(root: Any) -> Document | None:
            person = root.by_email.get(email)
            return None if person is None else dict(person)

        return self._read(work)

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        return self._read(lambda root: [dict(person) for person in root.by_rank.values(start, stop, excludemax=True)])

    def increment(self, id: str) -> None:
        def work(root: Any) -> None:
            root.people[id]["revision"] += 1

        self._write(work)

    def scan(self) -> Iterator[Document]:
        self._manager.begin()
        try:
            for person in self._root.people.values():
                yield dict(person)
        finally:
            self._manager.abort()

    def group_by_city(self) -> list[Document]:
        return self._read(lambda root: grouped(root.people.values()))

    def settle(self) -> None:
        # Packing, which drops old revisions, is a nightly task in ZODB. Nothing else is deferred.
        pass

    def close(self) -> None:
        self._connection.close()
        self._database.close()


ADAPTER = Adapter(
    ZodbCollection,
    {"synced": "FileStorage"},
    slow=True,
    remark="A persistent mapping for each document, BTrees as indexes, all of them in its cache; it groups in Python. "
    "FileStorage syncs every commit: there is no unsynced line.",
)
