"""LMDB through its Python binding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import lmdb

from bench.documents import Pair
from bench.peers.protocol import Adapter, Change, ChangeSeveral, Consumer, Durability, Session

MAP_BYTES = 8 << 30


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
            # Iterating over a cursor without a position would begin at the first key.
            return consume(islice(cursor, count) if cursor.set_range(start) else ())

    def read_from(self, start: bytes, count: int, consume: Consumer) -> int:
        return self.read_range(start, b"", count, consume)

    def scan(self, consume: Consumer) -> int:
        with self._begin() as transaction, transaction.cursor() as cursor:
            return consume(cursor)

    def put(self, key: bytes, value: bytes) -> None:
        with self._begin(write=True) as transaction:
            transaction.put(key, value)

    def put_all(self, pairs: Iterable[Pair]) -> None:
        with self._begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(pairs)

    def modify(self, key: bytes, change: Change) -> None:
        with self._begin(write=True) as transaction:
            transaction.put(key, change(transaction.get(key)))

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        with self._begin(write=True) as transaction:
            for key, value in zip(keys, change([transaction.get(key) for key in keys]), strict=True):
                transaction.put(key, value)
        return 0

    def close(self) -> None:
        pass


class LmdbPeer:
    """Synced is sync=True; unsynced is sync=False, metasync=False, which leaves every write-back to the kernel."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
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


ADAPTER = Adapter(
    LmdbPeer,
    {"synced": "sync", "unsynced": "no sync"},
    remark="A sync brings it to rest.",
)
