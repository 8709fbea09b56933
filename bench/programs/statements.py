"""The common statements one by one, in transactions of many and each in its own, on documents and rows of 16 fields."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import lowtide
from bench.programs.shop_of_tables import connect
from bench.registry import Durability

Row = dict[str, Any]
RANGE = 100
BATCH = 100
_NAMES = ("k", "at", "n", *(f"f{number}" for number in range(12)))
"""The fields beside the id: one indexed, one indexed for ranges, a counter, and text."""


def make_row(number: int, count: int) -> Row:
    return {"k": number * 7919 % count, "at": number, "n": 0, **{f"f{each}": f"text {each:02d}" for each in range(12)}}


class Works(Protocol):
    """What a store can be asked to do; each call handles the given numbers one after the other."""

    def run(self, work: str, numbers: Sequence[int], together: bool) -> int:
        """Do the work for each number, in one transaction or each in its own; return a sum over what was found."""

    def settle(self) -> None: ...

    def close(self) -> None: ...


READS = ("find-id", "find-index", "find-range")
WRITES = ("update", "insert", "insert-many")


class DocumentWorks:
    def __init__(self, directory: Path, durability: Durability, count: int) -> None:
        self._store = lowtide.open(directory, durability="full" if durability == "synced" else "relaxed")
        rows = self._store["rows"]
        rows.insert_many([{"_id": number, **make_row(number, count)} for number in range(count)])
        rows.create_index("k")
        rows.create_index("at")
        self._store.checkpoint()
        self._next, self._count = count, count

    def run(self, work: str, numbers: Sequence[int], together: bool) -> int:
        if not together:
            return self._run(work, numbers, lambda: self._store["rows"])
        with self._store.transaction() as tx:
            return self._run(work, numbers, lambda: tx["rows"])

    def _run(self, work: str, numbers: Sequence[int], rows: Callable[[], lowtide.Collection]) -> int:
        total = 0
        for number in numbers:
            match work:
                case "find-id":
                    found = rows().find_one({"_id": number})
                    total += found["at"] if found is not None else -1
                case "find-index":
                    found = rows().find_one({"k": number})
                    total += found["at"] if found is not None else -1
                case "find-range":
                    start = number % (self._count - RANGE)
                    total += len(rows().find({"at": {"$gte": start, "$lt": start + RANGE}}).to_list())
                case "update":
                    change = {"$set": {"f1": f"new {number}"}, "$inc": {"n": 1}}
                    total += rows().update_one({"_id": number}, change).modified_count
                case "insert":
                    rows().insert_one({"_id": self._next, **make_row(self._next, self._count)})
                    self._next += 1
                case "insert-many":
                    upto = self._next + BATCH
                    made = [{"_id": each, **make_row(each, self._count)} for each in range(self._next, upto)]
                    rows().insert_many(made)
                    self._next = upto
        return total

    def settle(self) -> None:
        self._store.checkpoint()

    def close(self) -> None:
        self._store.close()


class TableWorks:
    def __init__(self, directory: Path, durability: Durability, count: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._connection = connect(directory / "rows.db", durability)
        self._execute = self._connection.execute
        self._insert = f"INSERT INTO rows VALUES ({', '.join('?' * (len(_NAMES) + 1))})"
        with self._connection:
            self._execute("BEGIN")
            self._execute(f"CREATE TABLE rows (id INTEGER PRIMARY KEY, {', '.join(_NAMES)})")
            self._connection.executemany(self._insert, self._values(range(count), count))
            self._execute("CREATE INDEX rows_by_k ON rows (k)")
            self._execute("CREATE INDEX rows_by_at ON rows (at)")
        self.settle()
        self._next, self._count = count, count

    def _values(self, numbers: Iterable[int], count: int) -> list[tuple[Any, ...]]:
        return [(number, *make_row(number, count).values()) for number in numbers]

    def run(self, work: str, numbers: Sequence[int], together: bool) -> int:
        if not together:
            return self._run(work, numbers, together)
        self._execute("BEGIN" if work in READS else "BEGIN IMMEDIATE")
        found = self._run(work, numbers, together)
        self._execute("COMMIT")
        return found

    def _run(self, work: str, numbers: Sequence[int], together: bool) -> int:
        execute, total = self._execute, 0
        for number in numbers:
            match work:
                case "find-id":
                    found = execute("SELECT * FROM rows WHERE id = ?", (number,)).fetchone()
                    total += found[2] if found is not None else -1
                case "find-index":
                    found = execute("SELECT * FROM rows WHERE k = ? LIMIT 1", (number,)).fetchone()
                    total += found[2] if found is not None else -1
                case "find-range":
                    start = number % (self._count - RANGE)
                    query = "SELECT * FROM rows WHERE at >= ? AND at < ? ORDER BY at"
                    total += len(execute(query, (start, start + RANGE)).fetchall())
                case "update":
                    change = "UPDATE rows SET f1 = ?, n = n + 1 WHERE id = ?"
                    total += execute(change, (f"new {number}", number)).rowcount
                case "insert":
                    execute(self._insert, self._values([self._next], self._count)[0])
                    self._next += 1
                case "insert-many":
                    upto = self._next + BATCH
                    made = self._values(range(self._next, upto), self._count)
                    if together:
                        self._connection.executemany(self._insert, made)
                    else:
                        with self._connection:
                            execute("BEGIN IMMEDIATE")
                            self._connection.executemany(self._insert, made)
                    self._next = upto
        return total

    def settle(self) -> None:
        self._execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def close(self) -> None:
        self._connection.close()


def numbers_of(seed: int, count: int, length: int) -> list[int]:
    """The same numbers for both stores."""
    return random.Random(seed).choices(range(count), k=length)
