"""The stores that are measured, each behind the same few calls.

An adapter writes what a careful user of that store would write, and takes and returns bytes; the workloads encode and
decode. Where a store offers two ways, it gets its faster one. Everything not named here is at the store's default.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

import lmdb

import lowtide
from bench.documents import Pair

Durability = Literal["synced", "unsynced"]
Change = Callable[[bytes | None], bytes]
Consumer = Callable[[Iterable[Pair]], int]

MAP_BYTES = 8 << 30
BUSY_SECONDS = 60.0
LOAD_LENGTH = 10_000  # pairs in one transaction of the first load


class Session(Protocol):
    """One thread's way into a store. Each call is one transaction."""

    def read(self, key: bytes) -> bytes | None:
        """Get one value in a transaction of its own."""

    def read_directly(self, key: bytes) -> bytes | None:
        """Get one value by the shortest call the store has for it."""

    def read_several(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Get the values one by one in a single read-only transaction."""

    def read_range(self, start: bytes, stop: bytes, count: int, consume: Consumer) -> int:
        """Hand the pairs from ``start`` up to ``stop``, which are ``count``, to the consumer; return its answer."""

    def scan(self, consume: Consumer) -> int:
        """Hand all pairs in the order of their keys to the consumer; return its answer."""

    def put_all(self, pairs: Iterable[Pair]) -> None:
        """Put the pairs in a single transaction, in the order given."""

    def modify(self, key: bytes, change: Change) -> None:
        """Read the value, change it and write it back, isolated from every other thread."""

    def close(self) -> None: ...


class Peer(Protocol):
    """One open store, shared by the sessions of all threads."""

    def session(self) -> Session: ...

    def settle(self) -> None:
        """Do the work the store has put off, so that none of it falls into the next store's measurement."""

    def close(self) -> None: ...


class LowtideSession:
    def __init__(self, store: lowtide.Store) -> None:
        self._store = store
        self._documents = store.keyspace("documents")

    def read(self, key: bytes) -> bytes | None:
        with self._store.transaction(read_only=True) as transaction:
            return transaction.keyspace("documents").get(key)

    def read_directly(self, key: bytes) -> bytes | None:
        return self._documents.get(key)

    def read_several(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._store.transaction(read_only=True) as transaction:
            get = transaction.keyspace("documents").get
            return [get(key) for key in keys]

    def read_range(self, start: bytes, stop: bytes, count: int, consume: Consumer) -> int:
        with self._store.transaction(read_only=True) as transaction:
            return consume(transaction.keyspace("documents").scan(start, stop))

    def scan(self, consume: Consumer) -> int:
        with self._store.transaction(read_only=True) as transaction:
            return consume(transaction.keyspace("documents").scan())

    def put_all(self, pairs: Iterable[Pair]) -> None:
        with self._store.transaction() as transaction:
            put = transaction.keyspace("documents").put
            for key, value in pairs:
                put(key, value)

    def modify(self, key: bytes, change: Change) -> None:
        # The other stores let one writer in at a time; here two may meet on a key, and the second one tries again.
        while True:
            try:
                with self._store.transaction() as transaction:
                    documents = transaction.keyspace("documents")
                    documents.put(key, change(documents.get(key)))
                return
            except lowtide.TransientError:
                continue

    def close(self) -> None:
        pass


class LowtidePeer:
    """Synced is durability "full". Unsynced is "relaxed": it survives the process, and syncs 20 times a second."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        self._store = lowtide.open(directory, durability="full" if durability == "synced" else "relaxed")

    def session(self) -> Session:
        return LowtideSession(self._store)

    def settle(self) -> None:
        # At rest the data is in the B+tree and the versions in memory are gone; a checkpoint brings that about.
        self._store.checkpoint()

    def close(self) -> None:
        self._store.close()


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

    def scan(self, consume: Consumer) -> int:
        return consume(self._execute("SELECT k, v FROM documents ORDER BY k"))

    def put_all(self, pairs: Iterable[Pair]) -> None:
        with self._connection:
            self._execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO documents VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v", pairs
            )

    def modify(self, key: bytes, change: Change) -> None:
        execute = self._execute
        with self._connection:
            execute("BEGIN IMMEDIATE")
            value = change(self.read(key))
            execute("UPDATE documents SET v = ? WHERE k = ?", (value, key))

    def close(self) -> None:
        self._connection.close()


class SqlitePeer:
    """WAL; synced is synchronous=FULL, unsynced is NORMAL. A connection per thread."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True)
        self._path = directory / "documents.db"
        self._synchronous = "FULL" if durability == "synced" else "NORMAL"
        # Held open all the time: closing the last connection would delete the WAL, and every measurement would then
        # pay for growing it anew.
        self._keeper = self._connect()
        self._keeper.execute("CREATE TABLE documents (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")

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


class LmdbSession:
    def __init__(self, environment: lmdb.Environment) -> None:
        self._begin = environment.begin

    def read(self, key: bytes) -> bytes | None:
        with self._begin() as transaction:
            return transaction.get(key)

    def read_directly(self, key: bytes) -> bytes | None:
        return self.read(key)

    def read_several(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._begin() as transaction:
            get = transaction.get
            return [get(key) for key in keys]

    def read_range(self, start: bytes, stop: bytes, count: int, consume: Consumer) -> int:
        # Counting in C is cheaper than comparing each key with the stop in Python.
        with self._begin() as transaction, transaction.cursor() as cursor:
            cursor.set_range(start)
            return consume(islice(cursor, count))

    def scan(self, consume: Consumer) -> int:
        with self._begin() as transaction, transaction.cursor() as cursor:
            return consume(cursor)

    def put_all(self, pairs: Iterable[Pair]) -> None:
        with self._begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(pairs)

    def modify(self, key: bytes, change: Change) -> None:
        with self._begin(write=True) as transaction:
            transaction.put(key, change(transaction.get(key)))

    def close(self) -> None:
        pass


class LmdbPeer:
    """Synced is sync=True; unsynced is sync=False, metasync=False, which leaves every write-back to the kernel."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True)
        synced = durability == "synced"
        # As its manual advises, as many spare transactions as threads, so that all of them reuse their reader slot.
        self._environment = lmdb.open(
            str(directory), map_size=MAP_BYTES, sync=synced, metasync=synced, max_spare_txns=8
        )

    def session(self) -> Session:
        return LmdbSession(self._environment)

    def settle(self) -> None:
        self._environment.sync(True)

    def close(self) -> None:
        self._environment.close()


PEERS: dict[str, Callable[[Path, Durability], Peer]] = {
    "lowtide": LowtidePeer,
    "sqlite3": SqlitePeer,
    "py-lmdb": LmdbPeer,
}

SETTINGS: dict[tuple[str, Durability], str] = {
    ("lowtide", "synced"): "full",
    ("lowtide", "unsynced"): "relaxed",
    ("sqlite3", "synced"): "WAL, FULL",
    ("sqlite3", "unsynced"): "WAL, NORMAL",
    ("py-lmdb", "synced"): "sync",
    ("py-lmdb", "unsynced"): "no sync",
}


def open_loaded(name: str, directory: Path, durability: Durability, pairs: Iterable[Pair]) -> Peer:
    """Open an empty store, put the pairs into it and bring it to rest."""
    peer = PEERS[name](directory / f"{name}-{durability}", durability)
    waiting = iter(pairs)
    with closing(peer.session()) as session:
        while portion := list(islice(waiting, LOAD_LENGTH)):
            session.put_all(portion)
    peer.settle()
    return peer
