"""``Update``: a compiled update. Every update keeps the ``_id`` of a document."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lowtide.documents.updates.tree import MISSING
from lowtide.errors import WriteError
from lowtide.values.values import Document, equal


class Apply(Protocol):
    """Returns the new document, the same object or an equal one if nothing changes. The input is not modified.

    ``inserting`` says that the document is the initial document of an upsert. ``position`` is the array index
    for ``$``. Raises WriteError if the update cannot be applied to the document.
    """

    def __call__(
        self, document: Document, *, now: datetime, inserting: bool = False, position: int | None = None
    ) -> Document: ...


class AnyUpdate(Protocol):
    """What an update does to a document: ``apply`` is as in ``Apply``.

    ``fields`` are the top-level fields that it may change; None for any. ``positional`` says that ``apply``
    needs the position that the filter matched, ``timed`` that it needs the time.
    """

    def apply(
        self, document: Document, *, now: datetime, inserting: bool = False, position: int | None = None
    ) -> Document: ...

    @property
    def fields(self) -> frozenset[str] | None: ...

    @property
    def positional(self) -> bool: ...

    @property
    def timed(self) -> bool: ...


@dataclass(slots=True)
class Update:
    """A compiled update, which is an ``AnyUpdate``."""

    apply: Apply
    fields: frozenset[str] | None = None
    positional: bool = False
    timed: bool = True


def refused(document: Document, path: str, reason: str) -> WriteError:
    """Return the error for an update that cannot be applied to ``document``."""
    where = f"field {path!r}" if path else "the document"
    which = f" (in the document with _id {document['_id']!r})" if "_id" in document else ""
    return WriteError(f"{where}: {reason}{which}")


def keep_id(document: Document, new: Document) -> Document:
    """Return ``new`` with the ``_id`` of ``document``, if it has one, as its first field.

    Raises WriteError if the two have a different ``_id``.
    """
    old, now = document.get("_id", MISSING), new.get("_id", MISSING)
    if old is MISSING:
        return new if now is MISSING else {"_id": now, **new}
    if old is now:
        return new
    if now is MISSING:
        raise refused(
            document, "_id", "the _id of a document cannot be removed; insert a copy and delete this document"
        )
    if not equal(old, now):
        raise refused(
            document,
            "_id",
            f"the _id of a document cannot be changed to {now!r}; insert a copy and delete this document",
        )
    kept = {**new, "_id": old}
    unchanged = len(kept) == len(document) and all(kept.get(name, MISSING) is each for name, each in document.items())
    return document if unchanged else kept
