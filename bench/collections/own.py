"""Lowtide itself, through its public API."""

from __future__ import annotations

from pathlib import Path

import lowtide
from bench.collections.protocol import Adapter, Document, Durability
from bench.collections.pymongo_like import PyMongoLike

GROUP = [{"$group": {"_id": "$city", "count": {"$sum": 1}, "total": {"$sum": "$balance"}}}]


class LowtideCollection(PyMongoLike):
    """Synced is durability "full". Unsynced is "relaxed": it survives the process, and syncs 20 times a second."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        self._store = lowtide.open(directory, durability="full" if durability == "synced" else "relaxed")
        people = self._store.collection("people")
        people.create_index("email")
        people.create_index("rank")
        super().__init__(people)

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
