"""ZODB over a FileStorage: the bytes are in a BTree, which merges concurrent changes of different keys in a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import transaction
import ZODB
from BTrees.OOBTree import OOBTree
from ZODB.FileStorage import FileStorage
from ZODB.POSException import ConflictError

from bench.documents import Pair
from bench.peers.protocol import Adapter, Change, ChangeSeveral, Consumer, Durability, Session

CACHED_OBJECTS = 50_000  # all buckets of the tree: the manual wants the working set in the cache
POOL_SIZE = 16


class ZodbSession:
    def __init__(self, database: Any) -> None:
        # As the manual advises: an explicit transaction manager of its own for each thread's connection.
        self._manager = transaction.TransactionManager(explicit=True)
        self._connection = database.open(self._manager)
        self._begin = self._manager.begin
        self._abort = self._manager.abort

    @property
    def _documents(self) -> Any:
        return self._connection.root.documents

    def read(self, key: bytes) -> bytes | None:
        self._begin()
        value: bytes | None = self._documents.get(key)
        self._abort()
        return value

    def read_directly(self, key: bytes) -> bytes | None:
        return self.read(key)

    def read_several(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._begin()
        get = self._documents.get
        values = [get(key) for key in keys]
        self._abort()
        return values

    def read_range(self, start: bytes, stop: bytes, count: int, consume: Consumer) -> int:
        self._begin()
        answer = consume(self._documents.items(start, stop, excludemax=True))
        self._abort()
        return answer

    def read_from(self, start: bytes, count: int, consume: Consumer) -> int:
        self._begin()
        answer = consume(islice(self._documents.items(start), count))
        self._abort()
        return answer

    def scan(self, consume: Consumer) -> int:
        self._begin()
        answer = consume(self._documents.items())
        self._abort()
        return answer

    def put(self, key: bytes, value: bytes) -> None:
        self.put_all([(key, value)])

    def put_all(self, pairs: Iterable[Pair]) -> None:
        held = dict(pairs)
        self._write(lambda documents: documents.update(held))

    def modify(self, key: bytes, change: Change) -> None:
        def work(documents: Any) -> None:
            documents[key] = change(documents.get(key))

        self._write(work)

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        def work(documents: Any) -> None:
            documents.update(dict(zip(keys, change([documents.get(key) for key in keys]), strict=True)))

        return self._write(work)

    def _write(self, work: Callable[[Any], None]) -> int:
        conflicts = 0
        while True:
            self._begin()
            try:
                work(self._documents)
                self._manager.commit()
                return conflicts
            except ConflictError:
                self._abort()
                conflicts += 1
            except BaseException:
                self._abort()
                raise

    def close(self) -> None:
        self._connection.close()


class ZodbPeer:
    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._database = ZODB.DB(
            FileStorage(str(directory / "documents.fs")), cache_size=CACHED_OBJECTS, pool_size=POOL_SIZE
        )
        with self._database.transaction() as connection:
            if not hasattr(connection.root, "documents"):
                connection.root.documents = OOBTree()

    def session(self) -> Session:
        return ZodbSession(self._database)

    def settle(self) -> None:
        # Packing, which drops old revisions, is a nightly task in ZODB. Nothing else is deferred.
        pass

    def close(self) -> None:
        self._database.close()


ADAPTER = Adapter(
    ZodbPeer,
    {"synced": "FileStorage"},
    cannot={"unsynced": "FileStorage syncs every commit"},
    slow=True,
    remark="Its bytes are in a BTree whose nodes are all in the object cache.",
)
