"""The operations of a document store, and what an adapter declares about its store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from bench.collections.people import Document
from bench.registry import Durability, Measured

__all__ = ["Adapter", "Collection", "Document", "Durability", "Work"]

Work = Literal["insert", "insert-many", "find-id", "find-index", "update", "range", "scan", "group"]


class Collection(Protocol):
    """One open store with one collection of people. Each call is one transaction; dicts go in, dicts come out.

    It is used by one thread.
    """

    def insert_one(self, document: Document) -> None: ...

    def insert_many(self, documents: Sequence[Document]) -> None:
        """Insert them all in a single transaction, if the store has transactions."""

    def find_by_id(self, id: str) -> Document | None: ...

    def find_by_email(self, email: str) -> Document | None:
        """By the index on ``email``, if the store has indexes."""

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        """Those of a rank from ``start`` up to ``stop``, by the index on ``rank``, in its order."""

    def increment(self, id: str) -> None:
        """Add one to the ``revision`` of an existing document, in the way that the store has for it."""

    def scan(self) -> Iterable[Document]:
        """All documents, decoded, streamed where the store can."""

    def group_by_city(self) -> list[Document]:
        """For each city a document of its name as ``_id``, the ``count`` of people and the ``total`` balance."""

    def settle(self) -> None:
        """Do the work that the store has deferred, so that none of it falls into the next store's measurement."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Adapter(Measured[Collection, Work]):
    """A store of documents. It is opened with its two indexes."""

    weaker: str = ""
    """Why it is not measured as synced, if it is not."""
    documents: int | None = None
    """How many it holds at most, where more would make the run long: its costs grow with their number."""

    def described(self) -> dict[str, Any]:
        return super().described() | {"weaker": self.weaker}
