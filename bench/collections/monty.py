"""MontyDB over its sqlite storage: PyMongo's methods, which read all documents for each query."""

from __future__ import annotations

from pathlib import Path

import montydb

from bench.collections.protocol import Adapter, Durability
from bench.collections.pymongo_like import PyMongoLike


class MontyCollection(PyMongoLike):
    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        montydb.set_storage(str(directory), storage="sqlite", journal_mode="WAL", use_bson=False)
        self._client = montydb.MontyClient(
            str(directory), synchronous="FULL" if durability == "synced" else "NORMAL", automatic_index=False
        )
        super().__init__(self._client.bench.people)

    def close(self) -> None:
        self._client.close()


ADAPTER = Adapter(
    MontyCollection,
    {"synced": "sqlite storage, WAL, FULL", "unsynced": "sqlite storage, WAL, NORMAL"},
    documents=1_000,
    slow=True,
    remark="It has no indexes and no aggregation: it reads all documents for each question, and groups in Python.",
)
