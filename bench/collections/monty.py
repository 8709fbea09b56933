"""MontyDB over its sqlite storage: PyMongo's methods on documents that are all read for each question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import montydb

from bench.collections.grouping import grouped
from bench.collections.protocol import Adapter, Document, Durability


class MontyCollection:
    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        montydb.set_storage(str(directory), storage="sqlite", journal_mode="WAL", use_bson=False)
        self._client = montydb.MontyClient(
            str(directory), synchronous="FULL" if durability == "synced" else "NORMAL", automatic_index=False
        )
        self._people: Any = self._client.bench.people

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
    MontyCollection,
    {"synced": "sqlite storage, WAL, FULL", "unsynced": "sqlite storage, WAL, NORMAL"},
    documents=1_000,
    slow=True,
    remark="It has no indexes and no aggregation: it reads all documents for each question, and groups in Python.",
)
