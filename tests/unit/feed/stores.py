"""Stores with a short-lived log, for the tests of this folder."""

from __future__ import annotations

from typing import Any

import lowtide
from lowtide.engine.log.cursor import first_kept

SHORT: dict[str, Any] = {
    "segment_bytes": 4096,
    "feed_bytes": 0,
    "checkpointer": "thread",
    "map_size": 1 << 22,
    "sync_interval": 1000,
}
"""Segments fill quickly, and go at the next checkpoint."""


def fill(store: lowtide.Store, commits: int = 60, keyspace: str = "fruit") -> int:
    """Make ``commits`` commits, each of a new key. 60 commits fill about three segments. Returns the last commit."""
    entries = store.keyspace(keyspace)
    for _ in range(commits):
        entries.put(b"%06d" % store.stats().last_commit, b"x" * 150)
    return store.stats().last_commit


def kept_from(store: lowtide.Store) -> int:
    return first_kept(store.path / "log")


def stamps(changes: Any) -> list[int]:
    return [change.ts for change in changes]
