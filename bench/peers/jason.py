"""jasonisnthappy, a store of JSON documents: the bytes are stored as one string of a document.

It is measured only on what it does correctly: single documents and small transactions, from one thread. Its scans give
wrong counts, and a transaction that reads while another thread commits may not find a document that exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jasonisnthappy

from bench.documents import Pair
from bench.peers.protocol import Adapter, Change, ChangeSeveral, Consumer, Durability, Session

NAME = "documents"


def _document(value: bytes) -> dict[str, str]:
    return {"v": value.decode("latin-1")}


def _find(find: Callable[..., dict[str, str] | None], *where: str) -> bytes | None:
    try:
        document = find(*where)
    except RuntimeError as error:
        if str(error) != "document not found":
            raise
        return None
    return None if document is None else document["v"].encode("latin-1")


class JasonSession:
    def __init__(self, database: Any) -> None:
        self._database = database
        self._begin = database.begin_transaction
        self._collection = database.get_collection(NAME)

    def read(self, key: bytes) -> bytes | None:
        return self.read_several([key])[0]

    def read_directly(self, key: bytes) -> bytes | None:
        return _find(self._collection.find_by_id, key.decode())

    def read_several(self, keys: Sequence[bytes]) -> list[bytes | None]:
        transaction = self._begin()
        values = [_find(transaction.find_by_id, NAME, key.decode()) for key in keys]
        transaction.rollback()
        return values

    def read_range(self, start: bytes, stop: bytes, count: int, consume: Consumer) -> int:
        raise NotImplementedError(CANNOT["order"])

    def read_from(self, start: bytes, count: int, consume: Consumer) -> int:
        raise NotImplementedError(CANNOT["order"])

    def scan(self, consume: Consumer) -> int:
        raise NotImplementedError(CANNOT["order"])

    def put(self, key: bytes, value: bytes) -> None:
        self._collection.upsert_by_id(key.decode(), _document(value))

    def put_all(self, pairs: Iterable[Pair]) -> None:
        # For the first load alone, of keys that are not there yet: see "batches" below.
        self._collection.insert_many([{"_id": key.decode()} | _document(value) for key, value in pairs])

    def modify(self, key: bytes, change: Change) -> None:
        self.modify_several([key], lambda values: [change(values[0])])

    def modify_several(self, keys: Sequence[bytes], change: ChangeSeveral) -> int:
        transaction = self._begin()
        try:
            names = [key.decode() for key in keys]
            values = change([_find(transaction.find_by_id, NAME, name) for name in names])
            for name, value in zip(names, values, strict=True):
                transaction.update_by_id(NAME, name, _document(value))
            transaction.commit()
        except BaseException:
            transaction.rollback()
            raise
        return 0

    def close(self) -> None:
        self._collection.close()


class JasonPeer:
    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._database = jasonisnthappy.Database.open(str(directory / "documents.db"))

    def session(self) -> Session:
        return JasonSession(self._database)

    def settle(self) -> None:
        self._database.checkpoint()

    def close(self) -> None:
        self._database.close()


CANNOT = {
    "unsynced": "it syncs every commit",
    "order": "its scans return wrong counts, and its keys have no order",
    "threads": "beside commits of other threads, reads in a transaction miss documents that exist",
    "batches": "a transaction of 10,000 updates takes minutes",
}

ADAPTER = Adapter(
    JasonPeer,
    {"synced": "default"},
    cannot={
        "unsynced": CANNOT["unsynced"],
        "order": CANNOT["order"],
        "threads": CANNOT["threads"],
        "batches": CANNOT["batches"],
    },
    slow=True,
    load_length=100,
    remark="The bytes are a string in a JSON document. It is loaded 100 at a time: after larger transactions, with "
    "100,000 documents in it, a read aborts the process.",
)
