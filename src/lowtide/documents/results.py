"""The results of writes, with PyMongo's names."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec


class ReturnDocument(Enum):
    """Which document ``find_one_and_update`` and ``find_one_and_replace`` return: before or after the change."""

    BEFORE = False
    AFTER = True


class InsertOneResult(msgspec.Struct, frozen=True):
    """The ``_id`` of the inserted document, given or generated."""

    inserted_id: Any
    acknowledged: bool = True


class InsertManyResult(msgspec.Struct, frozen=True):
    """The ``_id`` of each document, in order."""

    inserted_ids: list[Any]
    acknowledged: bool = True


class UpdateResult(msgspec.Struct, frozen=True):
    """How many documents matched, how many of them changed, and the ``_id`` of an upserted document."""

    matched_count: int
    modified_count: int
    upserted_id: Any = None
    did_upsert: bool = False
    acknowledged: bool = True


class DeleteResult(msgspec.Struct, frozen=True):
    """How many documents were deleted."""

    deleted_count: int
    acknowledged: bool = True


@dataclass(slots=True)
class BulkWriteResult:
    """The totals of all operations, and the ``_id`` of each upserted document by the index of its operation."""

    inserted_count: int = 0
    matched_count: int = 0
    modified_count: int = 0
    deleted_count: int = 0
    upserted_ids: dict[int, Any] = field(default_factory=dict)
    acknowledged: bool = True

    @property
    def upserted_count(self) -> int:
        return len(self.upserted_ids)

    def add(self, place: int, result: InsertOneResult | UpdateResult | DeleteResult) -> None:
        """Add the result of the operation with index ``place``."""
        if isinstance(result, InsertOneResult):
            self.inserted_count += 1
        elif isinstance(result, DeleteResult):
            self.deleted_count += result.deleted_count
        else:
            self.matched_count += result.matched_count
            self.modified_count += result.modified_count
            if result.did_upsert:
                self.upserted_ids[place] = result.upserted_id

    def details(self, errors: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the totals in the form of ``BulkWriteError.details``."""
        return {
            "writeErrors": errors,
            "writeConcernErrors": [],
            "nInserted": self.inserted_count,
            "nMatched": self.matched_count,
            "nModified": self.modified_count,
            "nRemoved": self.deleted_count,
            "nUpserted": self.upserted_count,
            "upserted": [{"index": place, "_id": each} for place, each in self.upserted_ids.items()],
        }
