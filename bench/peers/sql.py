"""A table of keys and values in SQL: reads, and writes with retries, for stores that use SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bench.documents import Pair
from bench.peers.protocol import Change, ChangeSeveral, Consumer

SELECT = "SELECT v FROM documents WHERE k = ?"
UPDATE = "UPDATE documents SET v = ? WHERE k = ?"
PUT = "INSERT INTO documents VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
RANGE = "SELECT k, v FROM documents WHERE k >= ? AND k < ? ORDER BY k"
FROM = "SELECT k, v FROM documents WHERE k >= ? ORDER BY k LIMIT ?"
ALL = "SELECT k, v FROM documents ORDER BY k"


class SqlSession:
    """Reads through a connection such as the standard library has, or through a cursor of one."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._execute: Callable[..., Any] = connection.execute
        self._pairs: Callable[..., Iterable[Pair]] = connection.execute

    def read(self, key: bytes) -> bytes | None:
        # A SELECT outside BEGIN is its own transaction, and cheaper than one spelt out.
        row = self._execute(SELECT, (key,)).fetchone()
        return None if row is None else row[0]

    def read_directly(self, key: bytes) -> bytes | None:
        return self.read(key)

    def read_several(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._execute("BEGIN")
        values = [self.read(key) for key in keys]
        self._execute("COMMIT")
        return values

    def read_range(self, start: bytes, stop: bytes, count: int, consume: Consumer) -> int:
        return consume(self._pairs(RANGE, (start, stop)))

    def read_from(self, start: bytes, count: int, consume: Consumer) -> int:
        return consume(self._pairs(FROM, (start, count)))

    def scan(self, consume: Consumer) -> int:
        return consume(self._pairs(ALL))

    def close(self) -> None:
        self._connection.close()


class RetryingSession(SqlSession):
    """Writes of a store that may refuse a transaction, which must then be retried."""

    def modify(self, key: bytes, change: Change) -> None:
        self._write(lambda: self._execute(UPDATE, (change(self.read(key)), key)))

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        def work() -> None:
            for key, value in zip(keys, change([self.read(key) for key in keys]), strict=True):
                self._execute(UPDATE, (value, key))

        return self._write(work)

    def _write(self, work: Callable[[], object]) -> int:
        """Do the work in a transaction, until it is committed; return how many attempts ended in a conflict."""
        raise NotImplementedError
