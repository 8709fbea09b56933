"""The standard library's sqlite3: documents as JSON text, with indexes on expressions, in WAL mode."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from bench.collections.json_table import BY_RANK, GROUP, INSERT, JsonTable, decode, encode
from bench.collections.protocol import Adapter, Document, Durability


class SqliteCollection(JsonTable):
    """WAL; synced is synchronous=FULL, unsynced is NORMAL."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(directory / "people.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'synced' else 'NORMAL'}")
        super().__init__(connection)

    def insert_many(self, documents: Sequence[Document]) -> None:
        with self._connection:
            self._execute("BEGIN IMMEDIATE")
            self._connection.executemany(INSERT, [(document["_id"], encode(document)) for document in documents])

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        return [decode(text) for (text,) in self._execute(BY_RANK, (start, stop))]

    def group_by_city(self) -> list[Document]:
        return [{"_id": city, "count": count, "total": total} for city, count, total in self._execute(GROUP)]

    def settle(self) -> None:
        # RESTART and not TRUNCATE: a WAL of full length that is written over is the state sqlite3 is normally in.
        self._execute("PRAGMA wal_checkpoint(RESTART)").fetchall()


ADAPTER = Adapter(
    SqliteCollection,
    {"synced": "WAL, FULL", "unsynced": "WAL, NORMAL"},
    remark="JSON text, encoded and decoded by msgspec; indexes on json_extract, updates by json_set.",
)
