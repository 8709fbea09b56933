"""DuckDB, which is made for analysis: its manual says that many small transactions are not a primary design goal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

from bench.documents import Pair
from bench.peers.protocol import Adapter, Change, ChangeSeveral, Consumer, Durability, Session

SELECT = "SELECT v FROM documents WHERE k = ?"
UPDATE = "UPDATE documents SET v = ? WHERE k = ?"
# One statement for all pairs, which is many times as fast as one for each.
PUT_ALL = (
    "INSERT INTO documents SELECT unnest(?::BLOB[]), unnest(?::BLOB[]) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
)
PORTION = 1024


class DuckdbSession:
    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self._execute = cursor.execute

    def read(self, key: bytes) -> bytes | None:
        row = self._execute(SELECT, (key,)).fetchone()
        return None if row is None else row[0]

    def read_directly(self, key: bytes) -> bytes | None:
        return self.read(key)

    def read_several(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._execute("BEGIN")
        values = [self.read(key) for key in keys]
        self._execute("COMMIT")
        return values

    def _pairs(self, *query: Any) -> Iterable[Pair]:
        result = self._execute(*query)
        while portion := result.fetchmany(PORTION):
            yield from portion

    def read_range(self, start: bytes, stop: bytes, count: int, consume: Consumer) -> int:
        return consume(self._pairs("SELECT k, v FROM documents WHERE k >= ? AND k < ? ORDER BY k", (start, stop)))

    def read_from(self, start: bytes, count: int, consume: Consumer) -> int:
        return consume(self._pairs("SELECT k, v FROM documents WHERE k >= ? ORDER BY k LIMIT ?", (start, count)))

    def scan(self, consume: Consumer) -> int:
        return consume(self._pairs("SELECT k, v FROM documents ORDER BY k"))

    def put(self, key: bytes, value: bytes) -> None:
        self._write(lambda: self._execute(PUT_ALL, ([key], [value])))

    def put_all(self, pairs: Iterable[Pair]) -> None:
        # One statement must not name a key twice; the last value is the one that stays.
        last = dict(pairs)
        self._write(lambda: self._execute(PUT_ALL, (list(last), list(last.values()))))

    def modify(self, key: bytes, change: Change) -> None:
        self._write(lambda: self._execute(UPDATE, (change(self.read(key)), key)))

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        def work() -> None:
            for key, value in zip(keys, change([self.read(key) for key in keys]), strict=True):
                self._execute(UPDATE, (value, key))

        return self._write(work)

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

    def close(self) -> None:
        self._cursor.close()


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
