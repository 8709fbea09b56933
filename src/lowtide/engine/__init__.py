"""The engine: versions, log, base, checkpoints, garbage collection, recovery, transactions and statements.

This module is its public interface. Documents, the change feed, columns, Spark, the audit and the command line import
nothing else from the engine. Store, sharing, observe and upkeep are built from its parts and import those directly.

* A kind of data runs statements (``Statements``): each reads one instant (``ReadView``), and writes at its end or not
  at all (``WriteView``, ``atomic``). Keys are full keys: the prefix of a keyspace (``PrefixOf``), then the user's key.
* ``Kind`` is the base class of a kind of data. It opens the data on transactions, snapshots and the store.
* ``EngineTransaction`` and ``EngineSnapshot`` are the objects behind users' transactions and snapshots.
* ``LogCursor`` and the functions beside it read the log from any process.
"""

from __future__ import annotations

from lowtide.engine.base.consumers import ConsumerRow
from lowtide.engine.base.cuts import tidy
from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import describe_owner
from lowtide.engine.base.names import check_keyspaces, check_name
from lowtide.engine.base.positions import ConsumerPositions
from lowtide.engine.base.types import LmdbError
from lowtide.engine.log.cursor import LogCursor, LogPosition, Released, first_kept
from lowtide.engine.log.finding import begun_between, bytes_between, commits_with, cut_between, last_before
from lowtide.engine.log.frame import REPLACED, Commit
from lowtide.engine.recovery.opening import ARCHIVES, BACKUP, CACHE, LOCK, MANIFEST, read_manifest
from lowtide.engine.recovery.ownership import holder_of
from lowtide.engine.statements.buffer import atomic
from lowtide.engine.statements.kind import Kind, ReadOnly, ReadWrite, Runner
from lowtide.engine.statements.runners import (
    AutocommitStatements,
    HasEngine,
    HeldRead,
    PrefixOf,
    SnapshotStatements,
    Statements,
)
from lowtide.engine.statements.statement import ReadView, WriteView
from lowtide.engine.transaction.catalog import NOWHERE
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.isolation import Isolation, policy_of
from lowtide.engine.transaction.keyspace import Keyspace, ReadKeyspace
from lowtide.engine.transaction.origin import Origin, caller
from lowtide.engine.transaction.savepoint import Savepoint
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.engine.types import KEYSPACE_PREFIX, Range, Writes, after_prefix

__all__ = [
    "ARCHIVES",
    "BACKUP",
    "CACHE",
    "KEYSPACE_PREFIX",
    "LOCK",
    "MANIFEST",
    "NOWHERE",
    "REPLACED",
    "AutocommitStatements",
    "Base",
    "Commit",
    "ConsumerPositions",
    "ConsumerRow",
    "Engine",
    "EngineSnapshot",
    "EngineTransaction",
    "HasEngine",
    "HeldRead",
    "Isolation",
    "Keyspace",
    "Kind",
    "LmdbError",
    "LogCursor",
    "LogPosition",
    "Origin",
    "PrefixOf",
    "Range",
    "ReadKeyspace",
    "ReadOnly",
    "ReadView",
    "ReadWrite",
    "Released",
    "Runner",
    "Savepoint",
    "SnapshotStatements",
    "Statements",
    "WriteView",
    "Writes",
    "after_prefix",
    "atomic",
    "begun_between",
    "bytes_between",
    "caller",
    "check_keyspaces",
    "check_name",
    "commits_with",
    "cut_between",
    "describe_owner",
    "first_kept",
    "holder_of",
    "last_before",
    "policy_of",
    "read_manifest",
    "tidy",
]
