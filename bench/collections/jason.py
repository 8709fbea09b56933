"""jasonisnthappy, a store of JSON documents. It is measured only on what it does correctly: see ``cannot``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jasonisnthappy

from bench.collections.protocol import Adapter, Document, Durability

NAME = "people"
_SCANS = "it finds by a field, and by a range of one, through a scan, and its scans return wrong counts"


class JasonCollection:
    def __init__(self, directory: Path, durability: Durability) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._database: Any = jasonisnthappy.Database.open(str(directory / "people.db"))
        if NAME not in self._database.list_collections():
            self._database.create_index(NAME, "by_email", "email", False)
            self._database.create_index(NAME, "by_rank", "rank", False)
        self._people: Any = self._database.get_collection(NAME)

    def insert_one(self, document: Document) -> None:
        self._people.insert(document)

    def insert_many(self, documents: Sequence[Document]) -> None:
        self._people.insert_many(documents)

    def find_by_id(self, id: str) -> Document | None:
        try:
            found: Document | None = self._people.find_by_id(id)
        except RuntimeError as error:
            if str(error) != "document not found":
                raise
            return None
        return found

    def find_by_email(self, email: str) -> Document | None:
        raise NotImplementedError(_SCANS)

    def range_by_rank(self, start: int, stop: int) -> list[Document]:
        raise NotImplementedError(_SCANS)

    def increment(self, id: str) -> None:
        transaction = self._database.begin_transaction()
        try:
            revision = transaction.find_by_id(NAME, id)["revision"]
            transaction.update_by_id(NAME, id, {"revision": revision + 1})  # the other fields stay
            transaction.commit()
        except BaseException:
            transaction.rollback()
            raise

    def scan(self) -> Iterable[Document]:
        raise NotImplementedError(_SCANS)

    def group_by_city(self) -> list[Document]:
        raise NotImplementedError(_SCANS)

    def settle(self) -> None:
        self._database.checkpoint()

    def close(self) -> None:
        self._people.close()
        self._database.close()


ADAPTER = Adapter(
    JasonCollection,
    {"synced": "default"},
    cannot={"find-index": _SCANS, "range": _SCANS, "scan": _SCANS, "group": _SCANS},
    documents=20_000,
    slow=True,
    load_length=100,
    remark="It syncs every commit: there is no unsynced line. It is loaded 100 documents at a time.",
)
