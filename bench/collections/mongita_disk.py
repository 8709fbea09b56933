"""Mongita on disk: PyMongo's methods over files that it writes in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import mongita

from bench.collections.grouping import grouped
from bench.collections.protocol import Adapter, Document, Durability


class MongitaCollection:
    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._client = mongita.MongitaClientDisk(str(directory))
        self._people: Any = self._client.bench.people
        if not self._people.index_information():
            self._people.create_index("email")
            self._people.create_index("rank")

    def insert_one(self, document: Document) -> None:
        self._people.insert_one(document)

    def insert_many(self, documents: Sequence[Document]) -> None:
        self._people.insert_many(documents)

    def find_by_id(self, id: str) -> Document | None:
        found: Document | None = self._people.find_one({"_id": id})
        return found

    def find_by_email(self, email: str) -> Document | None:
        found: Document | None = self._people.find_one({"email": email})
        return found

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        return list(self._people.find({"rank": {"$gte": start, "$lt": stop}}).sort("rank", 1))

    def increment(self, id: str) -> None:
        self._people.update_one({"_id": id}, {"$inc": {"revision": 1}})

    def scan(self) -> Iterable[Document]:
        found: Iterable[Document] = self._people.find()
        return found

    def group_by_city(self) -> list[Document]:
        return grouped(self.scan())

    def settle(self) -> None:
        pass

    def close(self) -> None:
        self._client.close()


ADAPTER = Adapter(
    MongitaCollection,
    {"unsynced": "disk"},
    weaker="it never syncs, has no transactions, and writes its files in place",
    documents=2_000,
    slow=True,
    remark="With its indexes; it keeps what was read in memory, writes its index anew with each change, and groups in "
    "Python.",
)
