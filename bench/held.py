"""Stores with a reader that was opened before the first update: how each is opened, updated and read.

All of them are unsynced, as in the other sections. A reader is what the store offers for a consistent view: a snapshot,
a pin, or a read transaction.
"""

from __future__ import annotations

import importlib
import importlib.util
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import lmdb

import lowtide
from bench.documents import Pair

Collector = Literal["exact", "watermark"]
Holder = Literal["snapshot", "pin", "nobody"]
_MAP_BYTES = 64 << 30


@dataclass(frozen=True)
class Inside:
    """The statistics of a store; zeros if it has none."""

    versions: int = 0
    version_bytes: int = 0
    history: int = 0
    log_bytes: int = 0


class HeldStore(Protocol):
    """One open store, and perhaps its reader."""

    def commit(self, pairs: Sequence[Pair]) -> None:
        """Put the pairs in one transaction."""

    def settle(self) -> None:
        """Bring what was loaded to rest."""

    def hold(self) -> None:
        """Open the reader."""

    def inside(self) -> Inside: ...

    def now(self) -> Iterable[Pair]:
        """All pairs as they are."""

    def then(self) -> Iterable[Pair]:
        """All pairs as the reader sees them."""

    def close(self) -> None: ...


class HeldLowtide:
    def __init__(self, directory: Path, holder: Holder, collector: Collector, checkpoint_bytes: int) -> None:
        self._resources = ExitStack()
        self._store = self._resources.enter_context(
            lowtide.open(
                directory,
                durability="relaxed",
                collector=collector,
                snapshot_warn_age=86400.0,  # the reader is old on purpose
                snapshot_critical_age=86400.0,
                checkpoint_bytes=checkpoint_bytes,
                segment_bytes=checkpoint_bytes // 4,  # as at the defaults
            )
        )
        self._holder = holder
        self._held_at = 0

    def commit(self, pairs: Sequence[Pair]) -> None:
        with self._store.transaction() as transaction:
            put = transaction.keyspace("documents").put
            for key, value in pairs:
                put(key, value)

    def settle(self) -> None:
        self._store.checkpoint()

    def hold(self) -> None:
        if self._holder == "pin":
            self._held_at = self._store.pin("bench", ttl=86400).ts
        else:
            self._held_at = self._resources.enter_context(self._store.snapshot()).ts

    def inside(self) -> Inside:
        stats = self._store.stats()
        return Inside(stats.versions, stats.version_bytes, stats.history, stats.log_bytes)

    def now(self) -> Iterable[Pair]:
        with self._store.snapshot() as snapshot:
            yield from snapshot.keyspace("documents").scan()

    def then(self) -> Iterable[Pair]:
        with self._store.snapshot(at=self._held_at) as snapshot:
            yield from snapshot.keyspace("documents").scan()

    def close(self) -> None:
        self._resources.close()


class HeldLmdb:
    """Without syncs; the reader is a read transaction that stays open."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._environment = lmdb.open(str(directory), map_size=_MAP_BYTES, sync=False, metasync=False)
        self._reader: lmdb.Transaction[bytes] | None = None

    def commit(self, pairs: Sequence[Pair]) -> None:
        with self._environment.begin(write=True) as transaction:
            for key, value in pairs:
                transaction.put(key, value)

    def settle(self) -> None:
        self._environment.sync(True)

    def hold(self) -> None:
        self._reader = self._environment.begin()

    def inside(self) -> Inside:
        return Inside()

    def now(self) -> Iterable[Pair]:
        if self._reader is not None:  # a thread has one read transaction at a time
            self._reader.abort()
        with self._environment.begin() as transaction:
            yield from transaction.cursor()

    def then(self) -> Iterable[Pair]:
        assert self._reader is not None
        return self._reader.cursor()

    def close(self) -> None:
        self._environment.close()


class HeldSqlite:
    """WAL, synchronous=NORMAL; the reader is a second connection in a transaction that has read something."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._path = directory / "documents.db"
        self._connection = self._connect()
        self._connection.execute("CREATE TABLE documents (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")
        self._reader: sqlite3.Connection | None = None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def commit(self, pairs: Sequence[Pair]) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO documents VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v", pairs
            )

    def settle(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def hold(self) -> None:
        self._reader = self._connect()
        self._reader.execute("BEGIN")
        self._reader.execute("SELECT v FROM documents LIMIT 1").fetchall()

    def inside(self) -> Inside:
        return Inside()

    def now(self) -> Iterable[Pair]:
        return self._connection.execute("SELECT k, v FROM documents")

    def then(self) -> Iterable[Pair]:
        assert self._reader is not None
        return self._reader.execute("SELECT k, v FROM documents")

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._connection.close()


class HeldRocks:
    """RocksDB through rocksdict, at its defaults: a log that is not synced."""

    def __init__(self, directory: Path) -> None:
        self._rocksdict: Any = importlib.import_module("rocksdict")
        self._store = self._rocksdict.Rdict(str(directory), self._rocksdict.Options(raw_mode=True))
        self._reader: Any = None

    def commit(self, pairs: Sequence[Pair]) -> None:
        batch = self._rocksdict.WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
        self._store.write(batch)

    def settle(self) -> None:
        self._store.flush()

    def hold(self) -> None:
        self._reader = self._store.snapshot()

    def inside(self) -> Inside:
        return Inside()

    def now(self) -> Iterable[Pair]:
        pairs: Iterable[Pair] = self._store.items()
        return pairs

    def then(self) -> Iterable[Pair]:
        # By get: the iterators of a snapshot show what is there now (rocksdict 0.3.29).
        return ((key, self._reader[key]) for key in self._store.keys())  # noqa: SIM118, it is no dict

    def close(self) -> None:
        self._reader = None
        self._store.close()


PEERS: dict[str, Callable[[Path], HeldStore]] = {"py-lmdb": HeldLmdb, "sqlite3": HeldSqlite, "rocksdict": HeldRocks}


def installed_peers() -> list[str]:
    return [name for name in PEERS if name != "rocksdict" or importlib.util.find_spec("rocksdict") is not None]


def open_held(directory: Path, store: str, holder: Holder, collector: Collector, checkpoint_bytes: int) -> HeldStore:
    if store == "lowtide":
        return HeldLowtide(directory, holder, collector, checkpoint_bytes)
    return PEERS[store](directory)
