"""Turso, a database in Rust that reads and writes SQLite's files: the same statements as sqlite3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import turso

from bench.collections.protocol import Adapter, Document, Durability
from bench.collections.sqlite import ALL, BY_EMAIL, BY_ID, BY_RANK, GROUP, INCREMENT, INDEXES, INSERT, decode, encode


class TursoCollection:
    """Synced is synchronous=FULL, unsynced is NORMAL."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._connection: Any = turso.connect(str(directory / "people.db"), isolation_level=None)
        self._execute = self._connection.execute
        self._execute("PRAGMA journal_mode = 'wal'").fetchall()
        self._execute(f"PRAGMA synchronous = {'FULL' if durability == 'synced' else 'NORMAL'}").fetchall()
        self._execute("CREATE TABLE IF NOT EXISTS people (id TEXT PRIMARY KEY, document TEXT NOT NULL)")
        for index in INDEXES:
            self._execute(index)

    def insert_one(self, document: Document) -> None:
        self._execute(INSERT, (document["_id"], encode(document)))

    def insert_many(self, documents: Sequence[Document]) -> None:
        self._execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(INSERT, [(document["_id"], encode(document)) for document in documents])
            self._execute("COMMIT")
        except BaseException:
            self._execute("ROLLBACK")
            raise

    def find_by_id(self, id: str) -> Document | None:
        row = self._execute(BY_ID, (id,)).fetchone()
        return None if row is None else decode(row[0])

    def find_by_email(self, email: str) -> Document | None:
        row = self._execute(BY_EMAIL, (email,)).fetchone()
        return None if row is None else decode(row[0])

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        return [decode(text) for (text,) in self._execute(BY_RANK, (start, stop)).fetchall()]

    def increment(self, id: str) -> None:
        self._execute(INCREMENT, (id,))

    def scan(self) -> Iterator[Document]:
        for (text,) in self._execute(ALL):
            yield decode(text)

    def group_by_city(self) -> list[Document]:
        rows = self._execute(GROUP).fetchall()
        return [{"_id": city, "count": count, "total": total} for city, count, total in rows]

    def settle(self) -> None:
        self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        self._connection.close()


ADAPTER = Adapter(
    TursoCollection,
    {"synced": "WAL, FULL", "unsynced": "WAL, NORMAL"},
    slow=True,
    remark="The statements of sqlite3.",
)
