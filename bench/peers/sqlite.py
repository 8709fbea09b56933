"""The standard library's sqlite3, in WAL mode."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.documents import Pair
from bench.peers.protocol import Adapter, Change, ChangeSeveral, Durability, Session
from bench.peers.sql import PUT, UPDATE, SqlSession

BUSY_SECONDS = 60.0


class SqliteSession(SqlSession):
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
            execute(UPDATE, (value, key))

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        execute = self._execute
        with self._connection:
            execute("BEGIN IMMEDIATE")
            for key, value in zip(keys, change([self.read(key) for key in keys]), strict=True):
                execute(UPDATE, (value, key))
        return 0


class SqlitePeer:
    """WAL; synced is synchronous=FULL, unsynced is NORMAL. A connection per thread."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "documents.db"
        self._synchronous = "FULL" if durability == "synced" else "NORMAL"
        # Held open all the time: closing the last connection would delete the WAL, and every measurement would then
        # pay for growing it again.
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
