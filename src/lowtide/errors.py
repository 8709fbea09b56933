"""Every error that Lowtide raises, grouped by what the caller should do next.

* Retry: :class:`TransientError` (``store.run`` does it for you).
* Fix the call: :class:`UsageError`, and for documents :class:`InvalidDocument` and :class:`OperationFailure`.
* Read the store again: :class:`ChangesLost`.
* Give it more time, or ask for less: :class:`QueryTimeout`.
* Fix the environment: :class:`StoreLocked`, :class:`StoreFailed`, :class:`DiskFull`, :class:`CorruptionError`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def shown(value: object) -> str:
    """The repr of a value for a message, truncated if it is long."""
    try:
        text = repr(value)
    except ValueError:  # it is or contains an int with more digits than Python converts
        text = f"{type(value).__name__} with an int of thousands of digits"
    return text if len(text) <= 200 else f"{text[:197]}..."


class Error(Exception):
    """The base class of all errors of Lowtide. Catch it to handle any of them; see the subclasses for what to do."""


class UsageError(Error):
    """The call is wrong: a bad argument, or a closed or read-only object. Nothing was changed; fix the call."""


class TransientError(Error):
    """The work failed for a reason that passes. Nothing was changed; retry it, as ``store.run`` does."""


ADVICE = "; retry the transaction, or have store.run retry it"
"""The end of a conflict's message: what to do about it. Left out once something has retried."""


class ConflictError(TransientError):
    """Another transaction committed first. Nothing was changed; retry the whole transaction, as ``store.run`` does.

    ``keyspace`` and ``key`` name what both touched, ``snapshot_ts`` is the commit this transaction read from,
    ``committed_ts`` the commit that it did not see. ``read`` is true if this transaction read the key, false if it
    wrote it.
    """

    def __init__(self, keyspace: str, key: bytes, snapshot_ts: int, committed_ts: int, *, read: bool = False) -> None:
        self.keyspace = keyspace
        self.key = key
        self.snapshot_ts = snapshot_ts
        self.committed_ts = committed_ts
        self.read = read
        super().__init__(self._message(f"key {key!r} of keyspace {keyspace!r}"))

    def _message(self, what: str) -> str:
        return (
            f"this transaction {'read' if self.read else 'wrote'} {what} as of commit {self.snapshot_ts}, "
            f"but commit {self.committed_ts} changed it first; nothing was written{ADVICE}"
        )

    def naming(self, what: str) -> ConflictError:
        """Return this error with a message that names ``what`` instead of the raw key."""
        self.args = (self._message(what),)
        return self


class SnapshotExpired(TransientError):
    """The requested commit is no longer kept. Take a new snapshot, and read again.

    If ``max_snapshot_age`` ended the snapshot, ``age`` is its age in seconds and ``where`` the line that opened it
    (file:line); otherwise both are None.
    """

    def __init__(self, message: str, *, age: float | None = None, where: str | None = None) -> None:
        self.age = age
        self.where = where
        super().__init__(message)


class ChangesLost(Error):
    """The change feed no longer has the requested changes. Copy what you need from a snapshot, and continue from its
    ``ts``.

    ``since`` is the commit after which changes were requested, ``kept`` the first commit that is still kept.
    """

    def __init__(self, since: int, kept: int) -> None:
        self.since = since
        self.kept = kept
        super().__init__(
            f"the changes after commit {since} are no longer kept: the log begins with commit {kept}. Copy what you "
            "need from a snapshot and continue from its ts; a named consumer, or more feed_bytes, keeps them for longer"
        )


class StoreLocked(Error):
    """Another process, or another object of this one, has the store open, and one of the two is exclusive; or the
    owner cannot be reached. Close it there, wait and retry, or open it with ``read_only=True``. ``holder`` describes
    the process that has it open."""

    def __init__(self, path: Path, holder: str) -> None:
        self.holder = holder
        super().__init__(f"{path} is open for writing elsewhere: held by {holder}; close it there first")


class StoreFailed(Error):
    """The log could not be written or synced, so the store accepts no more commits; reads still work. Fix the disk,
    then close the store and open it again."""


class DiskFull(Error):
    """The disk has no room for this commit. Nothing was changed, and the store still works; free space and retry."""


class CorruptionError(Error):
    """The files of the store contradict each other or their checksums. Nothing was changed; keep the files and restore
    a backup. ``path`` is the damaged file."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path}: {reason}")


class InvalidDocument(UsageError):
    """The document has a value that cannot be stored. ``path`` is the field; fix the document and retry."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(f"field {path!r}: {reason}" if path else f"document: {reason}")


class OperationFailure(UsageError):
    """A filter, update, pipeline or index is not valid: an unknown operator, or an operand of the wrong type. Fix the
    call. The name is PyMongo's. ``code`` is MongoDB's error code, for programs that check it."""

    code: int | None = None


class WriteError(OperationFailure):
    """A write does not fit the stored document, such as ``$inc`` of a string. Nothing was changed; fix the update or
    the document."""


class DuplicateKeyError(WriteError):
    """Another document has this ``_id``, or this value of a unique index. Nothing was changed; choose another value, or
    update that document.

    ``details`` has the ``index``, the ``keyValue`` that exists already, and the ``_id`` of its document.
    """

    code = 11000

    def __init__(self, collection: str, index: str, key_value: dict[str, Any], holder: object) -> None:
        self.details = {"collection": collection, "index": index, "keyValue": key_value, "_id": holder}
        super().__init__(
            f"duplicate key in collection {collection!r}, index {index!r}: "
            f"{shown(key_value)} already exists, in the document with _id {shown(holder)}"
        )


class DuplicateKeyConflict(DuplicateKeyError, ConflictError):
    """Another transaction was first to commit a document with the same value of a unique index. Retry the transaction:
    it then raises a DuplicateKeyError, unless that document is gone."""

    def __init__(
        self, conflict: ConflictError, collection: str, index: str, key_value: dict[str, Any], holder: object
    ) -> None:
        ConflictError.__init__(
            self, conflict.keyspace, conflict.key, conflict.snapshot_ts, conflict.committed_ts, read=conflict.read
        )
        self.details = {"collection": collection, "index": index, "keyValue": key_value, "_id": holder}
        message = (
            f"duplicate key in collection {collection!r}, index {index!r}: commit {conflict.committed_ts} gave "
            f"{shown(key_value)} to the document with _id {shown(holder)} first; nothing was written"
        )
        self.args = (message,)


class DocumentRefused(WriteError):
    """The document does not match the collection's JSON Schema. Nothing was changed; fix the document, or the schema.

    ``path`` is the field, ``reason`` what is wrong with it.
    """

    code = 121

    def __init__(self, collection: str, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        where = f"field {path!r}" if path else "the document"
        super().__init__(f"collection {collection!r} refuses the document because of its schema: {where}: {reason}")


class ValueMisfit(OperationFailure):
    """A stored value does not fit the type that a schema declares for its column. Declare another type, or use another
    mode.

    ``collection``, ``document_id`` and ``path`` say where it is.
    """

    def __init__(self, collection: str, document_id: object, path: str, reason: str) -> None:
        self.collection = collection
        self.document_id = document_id
        self.path = path
        where = f"collection {collection!r}, " if collection else ""
        super().__init__(f"{where}document with _id {document_id!r}, field {path!r}: {reason}")


class BulkWriteError(OperationFailure):
    """Operations of ``bulk_write`` or ``insert_many`` failed. Fix and retry those; the counts say what was done.

    ``details`` has PyMongo's ``writeErrors`` and counts.
    """

    code = 65

    def __init__(self, details: dict[str, Any]) -> None:
        self.details = details
        errors = details.get("writeErrors", [])
        first = f"; the first, operation {errors[0]['index']}: {errors[0]['errmsg']}" if errors else ""
        super().__init__(f"{len(errors)} operation{'s' if len(errors) != 1 else ''} of the bulk write failed{first}")


class QueryTimeout(Error):
    """A query took longer than its time limit and was cancelled. Give it more time, or ask for less; ``explain`` shows
    where the time goes. ``timeout`` is the limit in seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        super().__init__(
            f"the query was cancelled after its time limit of {timeout:g} seconds; nothing was changed. Give it a "
            "longer timeout, or make it more selective"
        )
