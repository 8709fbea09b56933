"""The targets of the comparison of documents, and the reasons where a peer is ahead.

Lowtide is ahead of every store on every line, except for the scan that decodes all documents: there its rate is at
least nine tenths of sqlite3's.
"""

from __future__ import annotations

from bench.collections.workloads import WORKLOADS
from bench.promises import Promises

FLOORS = {("find-all", "sqlite3"): 0.9}
"""All that is promised on a line where not every store is to be behind."""

_CACHED = "its documents are Python objects in its cache; nothing is read or decoded"
_SYNC = "both wait for one sync of a short write; what is left is the transaction and its indexes, in Python here"

# Why a peer is ahead: by workload and peer, or by workload alone.
REASONS: dict[tuple[str, str], str] = {
    ("find-id", ""): "its find is a few calls into C; here it is a few Python functions around one read",
    ("find-id", "mongita"): "it answers from a dict of all documents that it has read, without a transaction",
    ("find-index", ""): "its find is a few calls into C; here it is a few Python functions around two reads",
    ("find-range", ""): "it steps through its index in C; here every entry is met in Python",
    ("find-range", "ZODB"): _CACHED,
    ("find-all", ""): "it steps through its rows in C; here every document is met in Python",
    ("find-all", "ZODB"): _CACHED,
    ("group", ""): "it reads the two fields in C and makes no documents; here all are decoded and grouped in Python",
    ("group", "ZODB"): _CACHED,
    ("update", ""): _SYNC,
    ("update-unsynced", ""): "with no disk to wait for, the transaction and its versions in Python cost more",
    ("insert", ""): _SYNC,
    ("insert-unsynced", ""): "with no disk to wait for, the transaction and its indexes in Python cost more",
    ("insert-many", ""): "it makes its index entries in C; here each is made, looked up and logged in Python",
    ("insert-many-unsynced", ""): "it makes its index entries in C; here each is made, looked up and logged in Python",
    ("insert-many-unsynced", "TinyDB"): "it has no index to keep, and writes its file once for all of them",
    ("insert-many-unsynced", "mongita"): "it appends to a file, without a transaction, and writes its index once",
}

_SCANS = frozenset(workload for workload, _ in FLOORS)

PROMISES = Promises(
    WORKLOADS, frozenset(workload.name for workload in WORKLOADS) - _SCANS, FLOORS, REASONS, noun="store"
)
