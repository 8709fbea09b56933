"""Lowtide: an embedded transactional store for Python.

The few nouns: a :class:`Store` is an open directory; a :class:`Transaction` a snapshot to read from, a buffer to
write to and a commit; a :class:`Snapshot` an instant that is kept; a :class:`Keyspace` an ordered map of bytes to
bytes.
"""

from lowtide.errors import (
    ChangesLost,
    ConflictError,
    CorruptionError,
    DiskFull,
    Error,
    SnapshotExpired,
    StoreFailed,
    StoreLocked,
    TransientError,
    UsageError,
)
from lowtide.feed.change import Change
from lowtide.feed.consumers import Consumer, ConsumerState
from lowtide.feed.watch import Watch
from lowtide.options import Options
from lowtide.pins.pin import Pin
from lowtide.readers.pinned import open_snapshot
from lowtide.stats import PinStats, SnapshotStats, Stats
from lowtide.store import Store
from lowtide.store import open_store as open
from lowtide.transaction.isolation import Isolation
from lowtide.transaction.keyspace import Keyspace, ReadKeyspace
from lowtide.transaction.savepoint import Savepoint
from lowtide.transaction.snapshot import Snapshot
from lowtide.transaction.transaction import Transaction

__version__ = "0.2.0"

__all__ = [
    "Change",
    "ChangesLost",
    "ConflictError",
    "Consumer",
    "ConsumerState",
    "CorruptionError",
    "DiskFull",
    "Error",
    "Isolation",
    "Keyspace",
    "Options",
    "Pin",
    "PinStats",
    "ReadKeyspace",
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
    "UsageError",
    "Watch",
    "open",
    "open_snapshot",
]
