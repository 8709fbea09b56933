"""Lowtide itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import lowtide
from bench.documents import Pair
from bench.peers.protocol import Adapter, Change, ChangeSeveral, Consumer, Durability, Session


class LowtideSession:
    def __init__(self, store: lowtide.Store, isolation: str) -> None:
        self._store = store
        self._isolation = isolation
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

    def read_from(self, start: bytes, count: int, consume: Consumer) -> int:
        with self._store.transaction(read_only=True) as transaction:
            return consume(islice(transaction.keyspace("documents").scan(start), count))

    def put(self, key: bytes, value: bytes) -> None:
        self._documents.put(key, value)

    def put_all(self, pairs: Iterable[Pair]) -> None:
        with self._store.transaction() as transaction:
            transaction.keyspace("documents").put_many(pairs)

    def modify(self, key: bytes, change: Change) -> None:
        # The other stores let one writer in at a time; here two may meet on a key, and the second one tries again.
        while True:
            try:
                with self._store.transaction(self._isolation) as transaction:
                    documents = transaction.keyspace("documents")
                    documents.put(key, change(documents.get(key)))
                return
            except lowtide.TransientError:
                continue

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        conflicts = 0
        while True:
            try:
                with self._store.transaction(self._isolation) as transaction:
                    documents = transaction.keyspace("documents")
                    for key, value in zip(keys, change([documents.get(key) for key in keys]), strict=True):
                        documents.put(key, value)
                return conflicts
            except lowtide.TransientError:
                conflicts += 1

    def close(self) -> None:
        pass


class LowtidePeer:
    """Synced is durability "full". Unsynced is "relaxed": it survives the process, and syncs 20 times a second."""

    _isolation = "snapshot"

    def __init__(self, directory: Path, durability: Durability, isolation: str = "snapshot") -> None:
        self._isolation = isolation
        self._store = lowtide.open(directory, durability="full" if durability == "synced" else "relaxed")

    def session(self) -> Session:
        return LowtideSession(self._store, self._isolation)

    def settle(self) -> None:
        # At rest the data is in the B+tree and the versions in memory are gone; a checkpoint brings that about.
        self._store.checkpoint()

    def close(self) -> None:
        self._store.close()


ADAPTER = Adapter(
    LowtidePeer,
    {"synced": "full", "unsynced": "relaxed"},
    remark="A checkpoint brings it to rest, so it reads from its B+tree.",
)
