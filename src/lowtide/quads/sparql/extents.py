"""Statements as columns, and a cache of the patterns that were read completely."""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple

import numpy as np

from lowtide.quads.reading import IdReader
from lowtide.quads.sparql.graphs import ActiveGraph
from lowtide.quads.sparql.tables import Column, Index

KEPT_ROWS: Final = 1_000_000
"""Statements that are kept, at 32 bytes each."""
KEPT_LOOKUPS: Final = 16 << 20
"""Bytes of lookups that are kept."""
_LOOKUP: Final = 150
"""Bytes that a lookup takes besides the keys that it finds."""
KEPT_SIZES: Final = 10_000
"""Estimates that are kept."""

Place = int | None
"""A place of a pattern: an id, or None for any."""
PatternKey = tuple[Place, Place, Place, ActiveGraph]


class StatementColumns(NamedTuple):
    """Statements as columns of ids."""

    s: Column
    p: Column
    o: Column
    g: Column

    def take(self, rows: Index) -> StatementColumns:
        """The statements at these places."""
        return StatementColumns(self.s[rows], self.p[rows], self.o[rows], self.g[rows])


NO_STATEMENTS: Final = StatementColumns(*(np.zeros(0, np.uint64) for _ in range(4)))


class Extents:
    """The extents of patterns at one commit, those that were used last. Nothing changes a column.

    Shared by all evaluations that read this commit and no writes of their own. Written by any thread under ``_lock``;
    ``get`` and ``size_of`` take none, and no more does a reader of ``lookups``: they find an entry, or miss one that
    is being added.
    """

    def __init__(self, ts: int) -> None:
        self.ts = ts
        self._lock = threading.Lock()
        self._kept: dict[PatternKey, StatementColumns] = {}
        self._rows = 0
        self._sizes: dict[PatternKey, int] = {}
        self.lookups: dict[bytes, bytes] = {}
        """Of prefixes of keys all keys that begin with them, one behind the other. Use ``keep_lookups`` to add some."""
        self._looked_up = 0

    def get(self, key: PatternKey) -> StatementColumns | None:
        """The statements of a pattern, if they are kept."""
        return self._kept.get(key)

    def keep(self, key: PatternKey, found: StatementColumns) -> None:
        """Keep the statements of a pattern, instead of the oldest ones if there are too many."""
        size = len(found.s)
        if size > KEPT_ROWS:
            return
        with self._lock:
            while self._kept and self._rows + size > KEPT_ROWS:
                self._rows -= len(self._kept.pop(next(iter(self._kept))).s)
            replaced = self._kept.pop(key, NO_STATEMENTS)
            self._rows += size - len(replaced.s)
            self._kept[key] = found

    def keep_lookups(self, found: dict[bytes, bytes]) -> None:
        """Keep the keys of some prefixes, and forget all others if there are too many."""
        size = sum(map(len, found.values())) + _LOOKUP * len(found)
        with self._lock:
            if self._looked_up + size > KEPT_LOOKUPS:
                self.lookups, self._looked_up = {}, 0
            self.lookups.update(found)
            self._looked_up += size

    def size_of(self, key: PatternKey) -> int | None:
        """About how many statements a pattern has, if that is known."""
        found = self._kept.get(key)
        return self._sizes.get(key) if found is None else len(found.s)

    def note_size(self, key: PatternKey, size: int) -> None:
        """Remember an estimate."""
        with self._lock:
            if len(self._sizes) >= KEPT_SIZES:
                self._sizes.clear()
            self._sizes[key] = size


def extents_of(reader: IdReader) -> Extents:
    """What is kept for the commit of a reader; of its own, if it shows uncommitted writes, or if it is serializable and
    must read what it asks for, or if other readers are at a later commit."""
    if reader.tracked or not reader.committed:
        return Extents(reader.ts)
    key = (Extents, reader.name)
    caches: dict[Any, Any] = reader.caches
    found: Extents | None = caches.get(key)
    if found is None or found.ts < reader.ts:
        found = caches[key] = Extents(reader.ts)
    return found if found.ts == reader.ts else Extents(reader.ts)
