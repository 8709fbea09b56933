"""The standard library's sqlite3: documents as JSON text, with indexes on expressions, in WAL mode."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from bench.collections.protocol import Adapter, Document, Durability

# Text and not a binary form: the functions of this version take text alone.
_encoder = msgspec.json.Encoder()
decode: Callable[[str], Document] = msgspec.json.Decoder(Document).decode


def encode(document: Document) -> str:
    return _encoder.encode(document).decode()


EMAIL, RANK = "json_extract(document, '$.email')", "json_extract(document, '$.rank')"
INSERT = "INSERT INTO people VALUES (?, ?)"
BY_ID = "SELECT document FROM people WHERE id = ?"
BY_EMAIL = f"SELECT document FROM people WHERE {EMAIL} = ? LIMIT 1"
BY_RANK = f"SELECT document FROM people WHERE {RANK} >= ? AND {RANK} < ? ORDER BY {RANK}"
ALL = "SELECT document FROM people"
INCREMENT = (
    "UPDATE people SET document = json_set(document, '$.revision', json_extract(document, '$.revision') + 1) "
    "WHERE id = ?"
)
GROUP = (
    "SELECT json_extract(document, '$.city') AS city, count(*), sum(json_extract(document, '$.balance')) "
    "FROM people GROUP BY city"
)
INDEXES = (
    f"CREATE INDEX IF NOT EXISTS by_email ON people ({EMAIL})",
    f"CREATE INDEX IF NOT EXISTS by_rank ON people ({RANK})",
)


class SqliteCollection:
    """WAL; synced is synchronous=FULL, unsynced is NORMAL. A statement outside BEGIN is a transaction of its own."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(directory / "people.db", isolation_level=None)
        self._execute = self._connection.execute
        self._execute("PRAGMA journal_mode = WAL")
        self._execute(f"PRAGMA synchronous = {'FULL' if durability == 'synced' else 'NORMAL'}")
        # With a rowid: an index then leads straight to its document, and not to a key to look for.
        self._execute("CREATE TABLE IF NOT EXISTS people (id TEXT PRIMARY KEY, document TEXT NOT NULL)")
        for index in INDEXES:
            self._execute(index)

    def insert_one(self, document: Document) -> None:
        self._execute(INSERT, (document["_id"], encode(document)))

    def insert_many(self, documents: Sequence[Document]) -> None:
        with self._connection:
            self._execute("BEGIN IMMEDIATE")
            self._connection.executemany(INSERT, [(document["_id"], encode(document)) for document in documents])

    def find_by_id(self, id: str) -> Document | None:
        row = self._execute(BY_ID, (id,)).fetchone()
        return None if row is None else decode(row[0])

    def find_by_email(self, email: str) -> Document | None:
        row = self._execute(BY_EMAIL, (email,)).fetchone()
        return None if row is None else decode(row[0])

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        return [decode(text) for (text,) in self._execute(BY_RANK, (start, stop))]

    def increment(self, id: str) -> None:
        self._execute(INCREMENT, (id,))

    def scan(self) -> Iterator[Document]:
        for (text,) in self._execute(ALL):
            yield decode(text)

    def group_by_city(self) -> list[Document]:
        return [{"_id": city, "count": count, "total": total} for city, count, total in self._execute(GROUP)]

    def settle(self) -> None:
        # RESTART and not TRUNCATE: a WAL of full length that is written over is the state sqlite3 is normally in.
        self._execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def close(self) -> None:
        self._connection.close()


ADAPTER = Adapter(
    SqliteCollection,
    {"synced": "WAL, FULL", "unsynced": "WAL, NORMAL"},
    remark="JSON text, encoded and decoded by msgspec; indexes on json_extract, updates by json_set.",
)
