"""DuckDB, a database for analysis: its manual says that many small transactions are not a primary design goal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

from bench.documents import Pair
from bench.peers.protocol import Adapter, Durability, Session
from bench.peers.sql import RetryingSession

# One statement for all pairs, which is many times as fast as one for each.
PUT_ALL = (
    "INSERT INTO documents SELECT unnest(?::BLOB[]), unnest(?::BLOB[]) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
)
PORTION = 1024


class DuckdbSession(RetryingSession):
    def __init__(self, cursor: Any) -> None:
        super().__init__(cursor)
        self._pairs = self._in_portions

    def _in_portions(self, *query: Any) -> Iterable[Pair]:
        result = self._execute(*query)
        while portion := result.fetchmany(PORTION):
            yield from portion

    def put(self, key: bytes, value: bytes) -> None:
        self._write(lambda: self._execute(PUT_ALL, ([key], [value])))

    def put_all(self, pairs: Iterable[Pair]) -> None:
        # One statement must not name a key twice; the last value is the one that stays.
        last = dict(pairs)
        self._write(lambda: self._execute(PUT_ALL, (list(last), list(last.values()))))

    def _write(self, work: Callable[[], object]) -> int:
        conflicts = 0
        while True:
            self._execute("BEGIN")
            try:
                work()
                self._execute("COMMIT")
                return conflicts
            except duckdb.Error as error:
                if "conflict" not in str(error).lower():
                    raise
                conflicts += 1
                with suppress(duckdb.TransactionException):  # a commit that was refused has rolled back already
                    self._execute("ROLLBACK")


class DuckdbPeer:
    """Synced is its default; unsynced is fsync_mode NONE. A cursor for each thread, as its manual says."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._database = duckdb.connect(str(directory / "documents.db"))
        if durability == "unsynced":
            self._database.execute("SET fsync_mode = 'NONE'")
        self._database.execute("CREATE TABLE IF NOT EXISTS documents (k BLOB PRIMARY KEY, v BLOB NOT NULL)")

    def session(self) -> Session:
        return DuckdbSession(self._database.cursor())

    def settle(self) -> None:
        self._database.execute("CHECKPOINT")

    def close(self) -> None:
        self._database.close()


ADAPTER = Adapter(
    DuckdbPeer,
    {"synced": "default", "unsynced": "fsync_mode NONE"},
    slow=True,
    remark="It is made for analysis, not for many small transactions, and says so itself.",
)
