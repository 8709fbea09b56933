"""Watching a collection: what commits do to its documents, in commit order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

from lowtide.documents.filters import Filter
from lowtide.feed.change import Change
from lowtide.feed.watch import Watch
from lowtide.values.codec import decode_document
from lowtide.values.ids import id_of
from lowtide.values.values import Document


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """What commit ``ts``, at ``time`` (seconds since the epoch), did to the document with this ``id``.

    ``kind`` is insert, update, replace or delete. ``document`` is the document after the commit, None for a delete.
    ``before`` is the document before it, if requested. The names of PyMongo's change streams can be used as well:
    ``change["operationType"]``, ``change["fullDocument"]``.

    >>> users = store.collection("users")
    >>> with users.watch(since=store.stats().last_commit, timeout=0) as changes:
    ...     _ = users.update_one({"_id": 1}, {"$set": {"city": "Bergen"}})
    ...     [(change.kind, change.id, change.document["city"]) for change in changes]
    [('update', 1, 'Bergen')]
    """

    ts: int
    time: float
    collection: str
    kind: Literal["insert", "update", "replace", "delete"]
    id: Any
    document: Document | None
    before: Document | None = None

    def __getitem__(self, name: str) -> Any:
        match name:
            case "_id":
                return {"ts": self.ts}
            case "operationType":
                return self.kind
            case "ns":
                return {"coll": self.collection}
            case "documentKey":
                return {"_id": self.id}
            case "fullDocument":
                return self.document
            case "fullDocumentBeforeChange":
                return self.before
            case "wallTime":
                return datetime.fromtimestamp(self.time, UTC)
        raise KeyError(name)


def decoded(change: Change, collection: str) -> DocumentChange:
    """Decode a change in a collection's keyspace."""
    document = decode_document(change.value) if change.value is not None else None
    before = decode_document(change.before) if change.before is not None else None
    known = document or before
    _id = known["_id"] if known is not None else id_of(change.key)
    kind = "replace" if change.replaced else change.kind
    return DocumentChange(change.ts, change.time, collection, kind, _id, document=document, before=before)


class CollectionWatch:
    """An endless iterator over the changes of a collection that match a filter, from ``collection.watch``.

    An insert or update matches by the new document. A delete matches by the deleted document, if the store keeps it
    (``before_images``) and ``before`` was passed, otherwise by its ``_id``.

    It reads the log at its own pace, so a slow reader blocks nothing. A reader that falls behind what the log keeps
    gets ChangesLost. Use it in one thread; ``close`` may be called from any thread and ends the iteration.
    """

    def __init__(self, changes: Watch, collection: str, filter: Filter) -> None:
        self._changes = changes
        self._collection = collection
        self._filter = filter

    @property
    def position(self) -> int:
        """The last commit whose changes were all returned. Pass it as ``since`` to continue from here."""
        return self._changes.position

    def __iter__(self) -> CollectionWatch:
        return self

    def __next__(self) -> DocumentChange:
        while True:
            found = decoded(next(self._changes), self._collection)
            known = found.document or found.before or {"_id": found.id}
            if self._filter.matches(known):
                return found

    def close(self) -> None:
        """End the iteration, even while a thread is waiting for a change."""
        self._changes.close()

    def __enter__(self) -> CollectionWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
