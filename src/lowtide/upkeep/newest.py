"""The newest state of a store, for checks of the keyspaces of a kind of data: the base, and memory on top of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import TypeAlias

from lowtide.engine.base.codec import is_tombstone, row_value
from lowtide.engine.base.tables import Tables
from lowtide.engine.types import KEYSPACE_PREFIX
from lowtide.upkeep.check_chains import LayerCopy
from lowtide.upkeep.report import Examination

Entries: TypeAlias = "Callable[[bytes], Iterator[tuple[bytes, bytes]]]"
"""Returns what a keyspace holds, by its prefix: keys without the prefix, in order, and values."""

Examiner: TypeAlias = "Callable[[dict[bytes, str], Entries], Examination]"
"""Checks the keyspaces of a kind of data; it is given the names of all keyspaces, by prefix."""


def newest_entries(tables: Tables, layers: Sequence[LayerCopy]) -> Entries:
    """Return what reads the newest state: that of the base if there are no layers."""

    def entries(prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        above: dict[bytes, bytes | None] = {}
        for copy in reversed(layers):
            above.update((key, chain[1]) for key, chain in copy.chains.items() if key.startswith(prefix))
        found = ((key, value) for key, value in sorted(above.items(), key=itemgetter(0)) if value is not None)
        below = ((key, value) for key, value in _rows(tables, prefix) if key not in above)
        return ((key[KEYSPACE_PREFIX:], value) for key, value in merge(found, below, key=itemgetter(0)))

    return entries


def _rows(tables: Tables, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    cursor = tables.txn.cursor(tables.rows)
    if cursor.set_range(prefix):
        for key, row in cursor.iternext():
            if not key.startswith(prefix):
                return
            if not is_tombstone(row):
                yield key, row_value(row)
