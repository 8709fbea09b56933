"""Turso, a database in Rust that reads and writes SQLite's files: the same statements as sqlite3."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import turso

from bench.collections.json_table import BY_RANK, GROUP, INSERT, JsonTable, decode, encode
from bench.collections.protocol import Adapter, Document, Durability


class TursoCollection(JsonTable):
    """Synced is synchronous=FULL, unsynced is NORMAL."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        connection = turso.connect(str(directory / "people.db"), isolation_level=None)
        connection.execute("PRAGMA journal_mode = 'wal'").fetchall()
        connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'synced' else 'NORMAL'}").fetchall()
        super().__init__(connection)

    def insert_many(self, documents: Sequence[Document]) -> None:
        self._execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(INSERT, [(document["_id"], encode(document)) for document in documents])
            self._execute("COMMIT")
        except BaseException:
            self._execute("ROLLBACK")
            raise

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        return [decode(text) for (text,) in self._execute(BY_RANK, (start, stop)).fetchall()]

    def group_by_city(self) -> list[Document]:
        rows = self._execute(GROUP).fetchall()
        return [{"_id": city, "count": count, "total": total} for city, count, total in rows]

    def settle(self) -> None:
        self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


ADAPTER = Adapter(
    TursoCollection,
    {"synced": "WAL, FULL", "unsynced": "WAL, NORMAL"},
    slow=True,
    remark="The statements of sqlite3.",
)
