"""Lowtide itself, through the calls that its users make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import lowtide
from bench.collections.protocol import Adapter, Document, Durability

GROUP = [{"$group": {"_id": "$city", "count": {"$sum": 1}, "total": {"$sum": "$balance"}}}]


class LowtideCollection:
    """Synced is durability "full". Unsynced is "relaxed": it survives the process, and syncs 20 times a second."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        self._store = lowtide.open(directory, durability="full" if durability == "synced" else "relaxed")
        self._people = self._store.collection("people")
        self._people.create_index("email")
        self._people.create_index("rank")

    def insert_one(self, document: Document) -> None:
        self._people.insert_one(document)

    def insert_many(self, documents: Sequence[Document]) -> None:
        self._people.insert_many(documents)

    def find_by_id(self, id: str) -> Document | None:
        return self._people.find_one({"_id": id})

    def find_by_email(self, email: str) -> Document | None:
        return self._people.find_one({"email": email})

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        return list(self._people.find({"rank": {"$gte": start, "$lt": stop}}).sort("rank", 1))

    def increment(self, id: str) -> None:
        self._people.update_one({"_id": id}, {"$inc": {"revision": 1}})

    def scan(self) -> Iterable[Document]:
        return self._people.find()

    def group_by_city(self) -> list[Document]:
        return list(self._people.aggregate(GROUP))

    def settle(self) -> None:
        # At rest the data is in the B+tree and the versions in memory are gone; a checkpoint brings that about.
        self._store.checkpoint()

    def close(self) -> None:
        self._store.close()


ADAPTER = Adapter(
    LowtideCollection,
    {"synced": "full", "unsynced": "relaxed"},
    remark="A checkpoint brings it to rest, so it reads from its B+tree.",
)
