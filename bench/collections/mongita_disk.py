"""Mongita on disk: PyMongo's methods over files that it writes in place."""

from __future__ import annotations

from pathlib import Path

import mongita

from bench.collections.protocol import Adapter, Durability
from bench.collections.pymongo_like import PyMongoLike


class MongitaCollection(PyMongoLike):
    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._client = mongita.MongitaClientDisk(str(directory))
        people = self._client.bench.people
        if not people.index_information():
            people.create_index("email")
            people.create_index("rank")
        super().__init__(people)

    def close(self) -> None:
        self._client.close()


ADAPTER = Adapter(
    MongitaCollection,
    {"unsynced": "disk"},
    weaker="it never syncs, has no transactions, and writes its files in place",
    documents=2_000,
    slow=True,
    remark="With its indexes; it keeps what was read in memory, rewrites its index with each change, and groups in "
    "Python.",
)
