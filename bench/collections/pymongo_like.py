"""A collection with PyMongo's methods: the user's code, the same for every store behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.collections.grouping import grouped
from bench.collections.protocol import Document


class PyMongoLike:
    """A store's own adapter opens it, and closes it; here are the calls that are the same for all of them."""

    def __init__(self, people: Any) -> None:
        self._people = people

    def insert_one(self, document: Document) -> None:
        self._people.insert_one(document)

    def insert_many(self, documents: Sequence[Document]) -> None:
        self._people.insert_many(documents)

    def find_by_id(self, id: str) -> Document | None:
        found: Document | None = self._people.find_one({"_id": id})
        return found

    def find_by_email(self, email: str) -> Document | None:
        found: Document | None = self._people.find_one({"email": email})
        return found

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        return list(self._people.find({"rank": {"$gte": start, "$lt": stop}}).sort("rank", 1))

    def increment(self, id: str) -> None:
        self._people.update_one({"_id": id}, {"$inc": {"revision": 1}})

    def scan(self) -> Iterable[Document]:
        found: Iterable[Document] = self._people.find()
        return found

    def group_by_city(self) -> list[Document]:
        return grouped(self.scan())

    def settle(self) -> None:
        pass
