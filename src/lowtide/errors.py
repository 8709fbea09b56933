"""Every error that Lowtide raises, grouped by what the caller should do next.

* try again: :class:`TransientError` (``store.run`` does it for you);
* mend the call: :class:`UsageError`, and for documents :class:`InvalidDocument` and :class:`OperationFailure`;
* mend the machine: :class:`StoreLocked`, :class:`StoreFailed`, :class:`DiskFull`, :class:`CorruptionError`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def shown(value: object) -> str:
    """A value for a message, its beginning if it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int, or something with one, that Python does not write out
        text = f"{type(value).__name__} with an int of thousands of digits"
    return text if len(text) <= 200 else f"{text[:197]}..."


class Error(Exception):
    """The root of all errors of Lowtide."""


class UsageError(Error):
    """The call cannot be served as it stands. Nothing was changed; correct the call."""


class TransientError(Error):
    """Nothing was changed, and the same work may succeed if it is retried, as ``store.run`` does."""


ADVICE = "; retry the transaction, or have store.run retry it"
"""What to do about a conflict: the end of its message, as long as nothing has retried it yet."""


class ConflictError(TransientError):
    """Another transaction committed first. Retry the whole transaction; ``store.run`` does.

    ``keyspace`` and ``key`` name what both touched, ``snapshot_ts`` the instant this transaction
    read from, ``committed_ts`` the commit that it did not see.
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
        """This error, saying ``what`` its key stands for."""
        self.args = (self._message(what),)
        return self


class SnapshotExpired(TransientError):
    """The asked-for instant is no longer kept. Take a new snapshot.

    If it was kept for longer than ``max_snapshot_age`` allows, ``age`` says for how many seconds, and ``where`` which
    line had opened it (file:line); otherwise both are None.
    """

    def __init__(self, message: str, *, age: float | None = None, where: str | None = None) -> None:
        self.age = age
        self.where = where
        super().__init__(message)


class ChangesLost(Error):
    """The change feed no longer has what was asked for. Read the store itself, and go on from there.

    ``since`` is the commit after which changes were asked for, ``kept`` the first commit that is still there.
    """

    def __init__(self, since: int, kept: int) -> None:
        self.since = since
        self.kept = kept
        super().__init__(
            f"the changes after commit {since} are no longer kept: the log begins with commit {kept}. Copy what you "
            "need from a snapshot and go on from its ts; a named consumer, or more feed_bytes, keeps them for longer"
        )


class StoreLocked(Error):
    """Another owner has the store open. Close it there, or wait; ``holder`` says who it is."""

    def __init__(self, path: Path, holder: str) -> None:
        self.holder = holder
        super().__init__(f"{path} is open for writing elsewhere: held by {holder}; close it there first")


class StoreFailed(Error):
    """The log could not be written or synced, so no further commit is accepted. Reads go on; mend the disk and
    reopen."""


class DiskFull(Error):
    """There is no room for this commit. It changed nothing, and the store goes on; make room and repeat."""


class CorruptionError(Error):
    """The files of the store contradict each other or their checksums. Nothing was changed; restore from a backup."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path}: {reason}")


class InvalidDocument(UsageError):
    """The document cannot be stored as it is. ``path`` says where in it the trouble lies; mend it and repeat."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(f"field {path!r}: {reason}" if path else f"document: {reason}")


class OperationFailure(UsageError):
    """A filter, an update, a pipeline or an index cannot be served: an unknown operator, an operand of the wrong kind.
    The name is PyMongo's; correct the call. ``code`` is MongoDB's number for it, where code looks for one."""

    code: int | None = None


class WriteError(OperationFailure):
    """A write was refused because of the document that it meets, such as ``$inc`` of a string, and changed nothing."""


class DuplicateKeyError(WriteError):
    """Another document has this ``_id``, or this value of a unique index. Nothing was changed.

    ``details`` names the ``index``, the ``keyValue`` that is there already, and the ``_id`` of its document.
    """

    code = 11000

    def __init__(self, collection: str, index: str, key_value: dict[str, Any], holder: object) -> None:
        self.details = {"collection": collection, "index": index, "keyValue": key_value, "_id": holder}
        super().__init__(
            f"duplicate key in collection {collection!r}, index {index!r}: "
            f"{shown(key_value)} is there already, in the document with _id {shown(holder)}"
        )


class DuplicateKeyConflict(DuplicateKeyError, ConflictError):
    """Another transaction committed first a document with the same value of a unique index. What DuplicateKeyError
    says, and found by the commit: begun anew, the same work meets a DuplicateKeyError, unless that document is gone."""

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
    """The document breaks the collection's JSON Schema. ``path`` says where, ``reason`` in which way."""

    code = 121

    def __init__(self, collection: str, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        where = f"field {path!r}" if path else "the document"
        super().__init__(f"collection {collection!r} refuses it by its schema: {where}: {reason}")


class ValueMisfit(OperationFailure):
    """A stored value does not fit the column that a schema declares for it. Declare another type, or take another mode.

    ``collection``, ``document_id`` and ``path`` say where it is.
    """

    def __init__(self, collection: str, document_id: object, path: str, reason: str) -> None:
        self.collection = collection
        self.document_id = document_id
        self.path = path
        where = f"collection {collection!r}, " if collection else ""
        super().__init__(f"{where}document with _id {document_id!r}, field {path!r}: {reason}")


class BulkWriteError(OperationFailure):
    """Operations of ``bulk_write`` or ``insert_many`` failed; ``details`` has PyMongo's ``writeErrors`` and counts."""

    code = 65

    def __init__(self, details: dict[str, Any]) -> None:
        self.details = details
        errors = details.get("writeErrors", [])
        first = f"; the first, operation {errors[0]['index']}: {errors[0]['errmsg']}" if errors else ""
        super().__init__(f"{len(errors)} operation{'s' if len(errors) != 1 else ''} of the bulk write failed{first}")
