"""A compiled update, and what holds for every one of them: the ``_id`` of a document stays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lowtide.documents.updates.tree import MISSING
from lowtide.errors import WriteError
from lowtide.values.values import Document, equal


class Apply(Protocol):
    """Returns the new document, or the same object if nothing changes. The given document is not modified.

    ``inserting`` says that the document is the seed of an upsert; ``position`` is the element that ``$`` means. Raises
    WriteError if the update does not fit the document.
    """

    def __call__(
        self, document: Document, *, now: datetime, inserting: bool = False, position: int | None = None
    ) -> Document: ...


@dataclass(slots=True)
class Update:
    """A compiled update. ``fields`` are the top-level fields that it may change, None if it may be any; ``positional``
    says whether ``apply`` needs the position that the filter found."""

    apply: Apply
    fields: frozenset[str] | None = None
    positional: bool = False


def refused(document: Document, path: str, reason: str) -> WriteError:
    """The error for an update that does not fit ``document``."""
    where = f"field {path!r}" if path else "the document"
    which = f" (in the document with _id {document['_id']!r})" if "_id" in document else ""
    return WriteError(f"{where}: {reason}{which}")


def keep_id(document: Document, new: Document) -> Document:
    """``new`` with the ``_id`` of ``document``, if it has one; an ``_id`` comes first. Raises WriteError if they
    differ."""
    old, now = document.get("_id", MISSING), new.get("_id", MISSING)
    if old is MISSING:
        return new if now is MISSING else {"_id": now, **new}
    if old is now:
        return new
    if now is MISSING:
        raise refused(document, "_id", "the _id of a document cannot be taken away; insert a copy and delete this one")
    if not equal(old, now):
        raise refused(
            document, "_id", f"the _id of a document cannot change, here to {now!r}; insert a copy and delete this one"
        )
    kept = {**new, "_id": old}
    unchanged = len(kept) == len(document) and all(kept.get(name, MISSING) is each for name, each in document.items())
    return document if unchanged else kept
