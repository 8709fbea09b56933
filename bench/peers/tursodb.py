"""Turso, a database in Rust that reads and writes SQLite's files, with one writer at a time like SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from time import sleep
from typing import Any

import turso

from bench.documents import Pair
from bench.peers.protocol import Adapter, Durability, Session
from bench.peers.sql import PUT, RetryingSession


def is_conflict(error: turso.Error) -> bool:
    """Another transaction committed first: roll back and retry, as the manual says."""
    return "conflict" in str(error).lower()


def is_busy(error: turso.Error) -> bool:
    """Another connection is writing: nothing was done yet, and the caller has to wait."""
    words = str(error).lower()
    return "locked" in words or "busy" in words


class TursoSession(RetryingSession):
    def __init__(self, connection: Any, begin: str) -> None:
        super().__init__(connection)
        self._begin = begin

    def put(self, key: bytes, value: bytes) -> None:
        self.put_all([(key, value)])

    def put_all(self, pairs: Iterable[Pair]) -> None:
        held = list(pairs)
        self._write(lambda: self._connection.executemany(PUT, held))

    def _write(self, work: Callable[[], object]) -> int:
        conflicts = 0
        while True:
            try:
                self._execute(self._begin)
                work()
                self._execute("COMMIT")
                return conflicts
            except turso.Error as error:
                if self._connection.in_transaction:
                    self._execute("ROLLBACK")
                if is_conflict(error):
                    conflicts += 1
                elif not is_busy(error):
                    raise
                sleep(0)


class TursoPeer:
    """Synced is synchronous=FULL, unsynced is NORMAL. A connection for each thread."""

    journal = "wal"
    begin = "BEGIN IMMEDIATE"

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "documents.db"
        self._synchronous = "FULL" if durability == "synced" else "NORMAL"
        self._keeper = self._connect()
        # WITHOUT ROWID, which suits such a table, is experimental here and has to be asked for: it is left out.
        self._keeper.execute("CREATE TABLE IF NOT EXISTS documents (k BLOB PRIMARY KEY, v BLOB NOT NULL)")

    def _connect(self) -> Any:
        connection = turso.connect(str(self._path), isolation_level=None)
        connection.execute(f"PRAGMA journal_mode = '{self.journal}'").fetchall()
        connection.execute(f"PRAGMA synchronous = {self._synchronous}").fetchall()
        # No busy_timeout: trying again at once lets several times as many commits through as its sleeping does.
        return connection

    def session(self) -> Session:
        return TursoSession(self._connect(), self.begin)

    def settle(self) -> None:
        self._keeper.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        self._keeper.close()


ADAPTER = Adapter(
    TursoPeer,
    {"synced": "WAL, FULL", "unsynced": "WAL, NORMAL"},
    slow=True,
    remark="As sqlite3, but WITHOUT ROWID is still experimental there and left out.",
)
