"""Lowtide: an embedded transactional store for Python.

The few nouns: a :class:`Store` is an open directory; a :class:`Transaction` a snapshot to read from, a buffer to
write to and a commit; a :class:`Snapshot` an instant that is kept; a :class:`Collection` a set of
documents with indexes; a :class:`Keyspace`, underneath, an ordered map of bytes to bytes.

Names are imported when they are first used, so that ``import lowtide`` is quick.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from lowtide.documents.bulk import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
    from lowtide.documents.collection import Collection
    from lowtide.documents.cursor import Cursor
    from lowtide.documents.read_collection import ReadCollection
    from lowtide.documents.results import (
        BulkWriteResult,
        DeleteResult,
        InsertManyResult,
        InsertOneResult,
        ReturnDocument,
        UpdateResult,
    )
    from lowtide.documents.schema import Violation
    from lowtide.documents.sorting import ASCENDING, DESCENDING
    from lowtide.documents.watch import CollectionWatch, DocumentChange
    from lowtide.engine import Isolation, Keyspace, ReadKeyspace, Savepoint
    from lowtide.errors import (
        BulkWriteError,
        ChangesLost,
        ConflictError,
        CorruptionError,
        DiskFull,
        DocumentRefused,
        DuplicateKeyConflict,
        DuplicateKeyError,
        Error,
        InvalidDocument,
        OperationFailure,
        QueryTimeout,
        SnapshotExpired,
        StoreFailed,
        StoreLocked,
        TransientError,
        UsageError,
        ValueMisfit,
        WriteError,
    )
    from lowtide.feed.change import Change
    from lowtide.feed.consumers import Consumer, ConsumerState
    from lowtide.feed.watch import Watch
    from lowtide.observe.stats import PinStats, ProcessStats, SnapshotStats, Stats
    from lowtide.options import Options
    from lowtide.sharing.pins.pin import Pin
    from lowtide.store.opening import open_snapshot
    from lowtide.store.opening import open_store as open
    from lowtide.store.store import Store
    from lowtide.store.transactions import Snapshot, Transaction

__version__ = "0.2.0"

__all__ = [
    "ASCENDING",
    "DESCENDING",
    "BulkWriteError",
    "BulkWriteResult",
    "Change",
    "ChangesLost",
    "Collection",
    "CollectionWatch",
    "ConflictError",
    "Consumer",
    "ConsumerState",
    "CorruptionError",
    "Cursor",
    "DeleteMany",
    "DeleteOne",
    "DeleteResult",
    "DiskFull",
    "DocumentChange",
    "DocumentRefused",
    "DuplicateKeyConflict",
    "DuplicateKeyError",
    "Error",
    "InsertManyResult",
    "InsertOne",
    "InsertOneResult",
    "InvalidDocument",
    "Isolation",
    "Keyspace",
    "OperationFailure",
    "Options",
    "Pin",
    "PinStats",
    "ProcessStats",
    "QueryTimeout",
    "ReadCollection",
    "ReadKeyspace",
    "ReplaceOne",
    "ReturnDocument",
    "Savepoint",
    "Snapshot",
    "SnapshotExpired",
    "SnapshotStats",
    "Stats",
    "Store",
    "StoreFailed",
    "StoreLocked",
    "Transaction",
    "TransientError",
    "UpdateMany",
    "UpdateOne",
    "UpdateResult",
    "UsageError",
    "ValueMisfit",
    "Violation",
    "Watch",
    "WriteError",
    "open",
    "open_snapshot",
]

_HOMES = {
    "lowtide.documents.bulk": "DeleteMany DeleteOne InsertOne ReplaceOne UpdateMany UpdateOne",
    "lowtide.documents.collection": "Collection",
    "lowtide.documents.cursor": "Cursor",
    "lowtide.documents.read_collection": "ReadCollection",
    "lowtide.documents.results": (
        "BulkWriteResult DeleteResult InsertManyResult InsertOneResult ReturnDocument UpdateResult"
    ),
    "lowtide.documents.schema": "Violation",
    "lowtide.documents.sorting": "ASCENDING DESCENDING",
    "lowtide.documents.watch": "CollectionWatch DocumentChange",
    "lowtide.errors": (
        "BulkWriteError ChangesLost ConflictError CorruptionError DiskFull DocumentRefused "
        "DuplicateKeyConflict DuplicateKeyError Error InvalidDocument OperationFailure QueryTimeout "
        "SnapshotExpired "
        "StoreFailed StoreLocked TransientError UsageError ValueMisfit WriteError"
    ),
    "lowtide.feed.change": "Change",
    "lowtide.feed.consumers": "Consumer ConsumerState",
    "lowtide.feed.watch": "Watch",
    "lowtide.options": "Options",
    "lowtide.sharing.pins.pin": "Pin",
    "lowtide.observe.stats": "PinStats ProcessStats SnapshotStats Stats",
    "lowtide.store.opening": "open_snapshot",
    "lowtide.store.store": "Store",
    "lowtide.engine": "Isolation Keyspace ReadKeyspace Savepoint",
    "lowtide.store.transactions": "Snapshot Transaction",
}
"""Where the public names are defined; the same as the imports for the type checker above, but for ``open``."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> typing.Any:
    """Import a public name when it is first used; afterwards it is found without this."""
    if name == "open":
        value = importlib.import_module("lowtide.store.opening").open_store
    elif name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    elif name == "errors":
        return importlib.import_module("lowtide.errors")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
