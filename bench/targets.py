"""The targets of the comparison, and the reasons where a peer is ahead.

Lowtide is ahead of every peer on every transactional line. Single reads are compared through the fast path: several
stores have no other, or no transaction around it. Inside a transaction py-lmdb, whose get is a single call into C, may
lead by 1.25. Ranges and scans, which need only a cursor and no transaction, and bulk loads have targets only against
sqlite3 and py-lmdb.
"""

from __future__ import annotations

from bench.figures import BASE, Figures, paired
from bench.promises import Promises
from bench.section import Finding
from bench.workloads import WORKLOADS

TRANSACTIONAL = frozenset({"fast-read", "ten-gets", "rmw", "rmw-4", "rmw-unsynced", "rmw-unsynced-4", "readers-writer"})
_LEAD = 0.8  # 1 / 1.25

FLOORS: dict[tuple[str, str], float] = {
    ("point-read", "sqlite3"): 1.5,
    ("point-read", "py-lmdb"): _LEAD,
    ("ten-gets", "py-lmdb"): _LEAD,
    ("range", "py-lmdb"): 0.8,
    ("range", "sqlite3"): 1.0,
    ("scan", "py-lmdb"): 0.8,
    ("scan", "sqlite3"): 1.0,
    ("scan-list", "py-lmdb"): 0.8,
    ("scan-list", "sqlite3"): 1.0,
    ("batch", "py-lmdb"): 0.8,
    ("batch", "sqlite3"): 1.0,
    ("batch-ascending", "py-lmdb"): 0.8,
    ("batch-ascending", "sqlite3"): 1.0,
    ("rmw", "sqlite3"): 1.2,
    ("rmw-4", "sqlite3"): 1.8,
    ("rmw-unsynced", "sqlite3"): 4.0,
    ("rmw-unsynced", "py-lmdb"): 1.2,
}
"""Where the floor is not that of its line: Lowtide is at least this many times as fast as the peer."""

_CURSOR = (
    "its cursor steps in C; here a range merges the base with the versions in memory, and copies each chunk out of "
    "LMDB before it shows it"
)
_CACHED = "its buckets are Python objects in its cache; nothing is read or copied"
_EVERY_PUT = "here every key is looked up, logged and put among the versions in memory, in Python"
_WEAKER = (
    "its unsynced mode promises less: what the kernel writes back, and when, is left to it, so that a power loss can "
    "destroy the file, where Lowtide loses the commits of at most 50 ms; no disk to wait for, "
    "validation and versions in Python cost more than its work in C"
)

# Why a peer is ahead: by workload and peer, or by workload alone.
REASONS: dict[tuple[str, str], str] = {
    ("point-read", ""): "its transaction and its get are calls into C; here they register a snapshot, in Python",
    ("point-read", "rocksdict"): "it has no transactions: a get is one call into C, and begins and ends nothing",
    ("fast-read", ""): "its get is one call into C; the fast path here is a few Python functions around one",
    ("ten-gets", ""): "each of its gets is one call into C; here it looks for versions in memory first, in Python",
    ("ten-gets", "ZODB"): _CACHED,
    ("range", ""): _CURSOR,
    ("range", "ZODB"): _CACHED,
    ("scan", ""): _CURSOR,
    ("scan", "ZODB"): _CACHED,
    ("scan-list", ""): _CURSOR,
    ("scan-list", "ZODB"): _CACHED,
    ("batch", ""): _EVERY_PUT,
    ("batch-ascending", ""): _EVERY_PUT,
    (
        "batch-ascending",
        "py-lmdb",
    ): f"putmulti is one call into C, and ascending keys fill its pages in order; {_EVERY_PUT}",
    ("batch-ascending", "rocksdict"): f"it appends to its log and to a table in memory, both in C; {_EVERY_PUT}",
    ("rmw", ""): "both wait for one sync of a short write; what is left is validation and versions, in Python here",
    ("rmw-4", ""): "both put several commits into one sync; what is left is validation and versions, in Python here",
    ("rmw-unsynced", "py-lmdb"): _WEAKER,
    ("rmw-unsynced-4", "py-lmdb"): _WEAKER,
    ("rmw-unsynced", ""): "with no disk to wait for, validation and versions in Python cost more than its work in C",
    (
        "rmw-unsynced-4",
        "",
    ): "Python's global lock lets one thread at a time into Lowtide's code; it works outside of it",
    ("readers-writer", ""): "its reads are in C, outside of Python's global lock, which its writer rarely wants",
}

OWN_THREADS = ("rmw-unsynced-4", "rmw-unsynced")

PROMISES = Promises(WORKLOADS, TRANSACTIONAL, FLOORS, REASONS)


def findings(figures: Figures) -> list[Finding]:
    """Every target that was measured, with its outcome."""
    found = PROMISES.findings(figures)
    four, one = (figures.of(name, BASE) for name in OWN_THREADS)
    threads = paired(four, one)
    if threads is not None:
        found.append(
            Finding(
                "four unsynced threads: at least 1.0x one thread of Lowtide itself",
                f"{threads.middle:.2f}x",
                threads.middle >= 1,
                "" if threads.middle >= 1 else "threads wait for a lock whose holder waits for Python's global lock",
            )
        )
    return found
