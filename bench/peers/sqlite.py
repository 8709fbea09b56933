"""The standard library's sqlite3, in WAL mode."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.documents import Pair
from bench.peers.protocol import Adapter, Change, ChangeSeveral, Consumer, Durability, Session

BUSY_SECONDS = 60.0
PUT = "INSERT INTO documents VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v"


class SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._execute = connection.execute

    def read(self, key: bytes) -> bytes | None:
        # A SELECT outside BEGIN is its own transaction, and cheaper than one spelt out.
        row = self._execute("SELECT v FROM documents WHERE k = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def read_directly(self, key: bytes) -> bytes | None:
        return self.read(key)

    def read_several(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._execute("BEGIN")
        values = [self.read(key) for key in keys]
        self._execute("COMMIT")
        return values

    def read_range(self, start: bytes, stop: bytes, count: int, consume: Consumer) -> int:
        return consume(self._execute("SELECT k, v FROM documents WHERE k >= ? AND k < ? ORDER BY k", (start, stop)))

    def read_from(self, start: bytes, count: int, consume: Consumer) -> int:
        return consume(self._execute("SELECT k, v FROM documents WHERE k >= ? ORDER BY k LIMIT ?", (start, count)))

    def scan(self, consume: Consumer) -> int:
        return consume(self._execute("SELECT k, v FROM documents ORDER BY k"))

    def put(self, key: bytes, value: bytes) -> None:
        self._execute(PUT, (key, value))

    def put_all(self, pairs: Iterable[Pair]) -> None:
        with self._connection:
            self._execute("BEGIN IMMEDIATE")
            self._connection.executemany(PUT, pairs)

    def modify(self, key: bytes, change: Change) -> None:
        execute = self._execute
        with self._connection:
            execute("BEGIN IMMEDIATE")
            value = change(self.read(key))
            execute("UPDATE documents SET v = ? WHERE k = ?", (value, key))

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        execute = self._execute
        with self._connection:
            execute("BEGIN IMMEDIATE")
            for key, value in zip(keys, change([self.read(key) for key in keys]), strict=True):
                execute("UPDATE documents SET v = ? WHERE k = ?", (value, key))
        return 0

    def close(self) -> None:
        self._connection.close()


class SqlitePeer:
    """WAL; synced is synchronous=FULL, unsynced is NORMAL. A connection per thread."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "documents.db"
        self._synchronous = "FULL" if durability == "synced" else "NORMAL"
        # Held open all the time: closing the last connection would delete the WAL, and every measurement would then
        # pay for growing it anew.
        self._keeper = self._connect()
        self._keeper.execute("CREATE TABLE IF NOT EXISTS documents (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=BUSY_SECONDS)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return connection

    def session(self) -> Session:
        return SqliteSession(self._connect())

    def settle(self) -> None:
        # RESTART and not TRUNCATE: a WAL of full length that is written over is the state sqlite3 is normally in.
        self._keeper.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def close(self) -> None:
        self._keeper.close()


ADAPTER = Adapter(
    SqlitePeer,
    {"synced": "WAL, FULL", "unsynced": "WAL, NORMAL"},
    remark="A connection for each thread; a WAL checkpoint brings it to rest.",
)
