"""TinyDB: one JSON file, which is read as a whole for each query and written as a whole for each change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tinydb import TinyDB, where
from tinydb.operations import increment
from tinydb.table import Document as TinyDocument

from bench.collections.grouping import grouped
from bench.collections.protocol import Adapter, Document, Durability

_add_one = increment("revision")


def number_of(id: str) -> int:
    """Its own ids are numbers, and it finds a document by its id without reading the others."""
    return int(id[1:])


class TinyCollection:
    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._people: Any = TinyDB(directory / "people.json")

    def insert_one(self, document: Document) -> None:
        self._people.insert(TinyDocument(document, number_of(document["_id"])))

    def insert_many(self, documents: Sequence[Document]) -> None:
        self._people.insert_multiple(TinyDocument(document, number_of(document["_id"])) for document in documents)

    def find_by_id(self, id: str) -> Document | None:
        found: Document | None = self._people.get(doc_id=number_of(id))
        return found

    def find_by_email(self, email: str) -> Document | None:
        found: Document | None = self._people.get(where("email") == email)
        return found

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        def within(rank: Any) -> bool:
            return bool(start <= rank < stop)

        found: list[Document] = self._people.search(where("rank").test(within))
        return sorted(found, key=lambda document: int(document["rank"]))

    def increment(self, id: str) -> None:
        self._people.update(_add_one, doc_ids=[number_of(id)])

    def scan(self) -> Iterable[Document]:
        found: Iterable[Document] = self._people
        return found

    def group_by_city(self) -> list[Document]:
        return grouped(self._people)

    def settle(self) -> None:
        pass

    def close(self) -> None:
        self._people.close()


ADAPTER = Adapter(
    TinyCollection,
    {"unsynced": "JSONStorage"},
    weaker="it has no transactions: it rewrites its only file in place, so that a crash in the middle loses all",
    documents=2_000,
    slow=True,
    remark="It has no indexes and no aggregation: it reads its file for each question, and groups in Python.",
)
