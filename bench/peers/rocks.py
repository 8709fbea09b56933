"""RocksDB through rocksdict, which has atomic batches and snapshots, but no transactions that detect conflicts.

So a read-modify-write holds a lock of the adapter, one of several by key. Threads on different keys do not wait for
each other, and RocksDB can write their commits as one group.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from bench.documents import Pair
from bench.peers.protocol import Adapter, Change, ChangeSeveral, Consumer, Durability, Session

LOCKS = 64


class RocksdictSession:
    def __init__(self, database: Any, locks: Sequence[threading.Lock]) -> None:
        self._database = database
        self._get = database.get
        self._put = database.put
        self._locks = locks

    def read(self, key: bytes) -> bytes | None:
        # A single get is of one instant by itself.
        value: bytes | None = self._get(key)
        return value

    def read_directly(self, key: bytes) -> bytes | None:
        return self.read(key)

    def read_several(self, keys: Sequence[bytes]) -> list[bytes | None]:
        snapshot = self._database.snapshot()
        return [snapshot[key] for key in keys]

    def read_range(self, start: bytes, stop: bytes, count: int, consume: Consumer) -> int:
        # An upper bound lets RocksDB skip what lies behind it; an iterator is of one instant by itself.
        options = ReadOptions()
        options.set_iterate_upper_bound(stop)
        return consume(self._database.items(from_key=start, read_opt=options))

    def read_from(self, start: bytes, count: int, consume: Consumer) -> int:
        return consume(islice(self._database.items(from_key=start), count))

    def scan(self, consume: Consumer) -> int:
        return consume(self._database.items())

    def put(self, key: bytes, value: bytes) -> None:
        with self._locks[hash(key) % LOCKS]:
            self._put(key, value)

    def put_all(self, pairs: Iterable[Pair]) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
        self._database.write(batch)

    def modify(self, key: bytes, change: Change) -> None:
        with self._locks[hash(key) % LOCKS]:
            self._put(key, change(self._get(key)))

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        with ExitStack() as stack:
            # In ascending order, so that two threads never wait for each other.
            for at in sorted({hash(key) % LOCKS for key in keys}):
                stack.enter_context(self._locks[at])
            self.put_all(zip(keys, change([self._get(key) for key in keys]), strict=True))
        return 0

    def close(self) -> None:
        pass


class RocksdictPeer:
    """Synced is WriteOptions.sync; unsynced leaves the log to the kernel."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.parent.mkdir(parents=True, exist_ok=True)
        # Raw mode is for bytes: without it each key and value carries a tag of its type.
        self._database = Rdict(str(directory), Options(raw_mode=True))
        options = WriteOptions()
        options.sync = durability == "synced"
        self._database.set_write_options(options)
        self._locks = [threading.Lock() for _ in range(LOCKS)]

    def session(self) -> Session:
        return RocksdictSession(self._database, self._locks)

    def settle(self) -> None:
        self._database.flush()

    def close(self) -> None:
        self._database.close()


ADAPTER = Adapter(
    RocksdictPeer,
    {"synced": "sync", "unsynced": "no sync"},
    remark="It has no transactions: its read-modify-write holds a lock of the adapter, one of 64 by key. "
    "A flush brings it to rest.",
)
