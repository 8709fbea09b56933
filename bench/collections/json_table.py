"""A table of documents as JSON text, with indexes on expressions: the statements, in SQLite's SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bench.collections.protocol import Document

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
# With a rowid: an index then leads straight to its document, and not to a key to look for.
TABLE = "CREATE TABLE IF NOT EXISTS people (id TEXT PRIMARY KEY, document TEXT NOT NULL)"
INDEXES = (
    f"CREATE INDEX IF NOT EXISTS by_email ON people ({EMAIL})",
    f"CREATE INDEX IF NOT EXISTS by_rank ON people ({RANK})",
)


class JsonTable:
    """Through a connection such as the standard library has. A statement outside BEGIN is a transaction of its own."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._execute: Callable[..., Any] = connection.execute
        for statement in (TABLE, *INDEXES):
            self._execute(statement)

    def insert_one(self, document: Document) -> None:
        self._execute(INSERT, (document["_id"], encode(document)))

    def find_by_id(self, id: str) -> Document | None:
        row = self._execute(BY_ID, (id,)).fetchone()
        return None if row is None else decode(row[0])

    def find_by_email(self, email: str) -> Document | None:
        row = self._execute(BY_EMAIL, (email,)).fetchone()
        return None if row is None else decode(row[0])

    def increment(self, id: str) -> None:
        self._execute(INCREMENT, (id,))

    def scan(self) -> Iterator[Document]:
        for (text,) in self._execute(ALL):
            yield decode(text)

    def close(self) -> None:
        self._connection.close()
