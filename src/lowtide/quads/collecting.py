"""Collects terms: removes the rows of the dictionary that no statement refers to.

First all ids in the indexes are compared with all rows, in order, at one snapshot. Then the rows that are not used are
removed in small transactions. Each relies on the four ranges in which a statement with the term would be, and changes
the epoch, see ``dictionary``. So a concurrent transaction that adds such a statement either commits first, and the
removal is retried without its terms; or it fails on the epoch, and its retry writes the row again. Snapshots are not
affected: the engine keeps the versions that they see.

Rows that are marked as passed are kept: without them, the terms behind them would not be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Final

from lowtide.engine import (
    AutocommitStatements,
    EngineSnapshot,
    PrefixOf,
    Range,
    ReadView,
    Writes,
    WriteView,
    after_prefix,
)
from lowtide.quads.dictionary import decode_epoch, encode_epoch
from lowtide.quads.hashing import ID_BYTES
from lowtide.quads.indexes import PASSED, QUADS, QuadPrefixes, prefixes_of

STEP: Final = 256
"""Terms that one transaction removes."""
_key = itemgetter(0)


def collect_terms(statements: AutocommitStatements, name: str) -> int:
    """Remove the terms of a quad store that no statement has; returns how many there were. O(statements), unless no
    statement was added or removed since the last time."""
    engine = statements.engine
    collected_at = (collect_terms, name)
    with EngineSnapshot(engine, None) as snapshot:
        changed = snapshot.unchanged_since(f"{QUADS}{name}/spoc")
        if changed is not None and statements.caches.get(collected_at, -1) >= changed:
            return 0
        unused = unused_terms(snapshot, prefixes_of(engine.catalog.prefix_of, name))
        collected = 0
        while part := list(islice(unused, STEP)):

            def remove(writing: WriteView, prefix_of: PrefixOf, part: list[bytes] = part) -> int:
                return remove_terms(writing, prefix_of, name, part)

            collected += statements.write(remove)
        statements.caches[collected_at] = snapshot.ts
    return collected


def unused_terms(reading: ReadView, prefixes: QuadPrefixes) -> Iterator[bytes]:
    """The ids that have a row, but no statement, in order."""
    used = (each for each, _ in groupby(merge(*(_leading_ids(reading, prefix) for prefix in prefixes[:4]))))
    current = next(used, None)
    for key in _keys(reading, prefixes.terms):
        if len(key) == ID_BYTES:
            while current is not None and current < key:
                current = next(used, None)
            if current != key:
                yield key


def _keys(reading: ReadView, prefix: bytes) -> Iterator[bytes]:
    for chunk in reading.chunks(Range(prefix, after_prefix(prefix))):
        yield from map(_key, chunk)


def _leading_ids(reading: ReadView, prefix: bytes) -> Iterator[bytes]:
    """The distinct ids that the keys of an index begin with, in order."""
    for chunk in reading.chunks(Range(prefix, after_prefix(prefix))):
        yield from dict.fromkeys(key[:ID_BYTES] for key, _ in chunk)


def remove_terms(writing: WriteView, prefix_of: PrefixOf, name: str, ids: list[bytes]) -> int:
    """Remove the rows of terms, except those that are used or marked by now."""
    prefixes = prefixes_of(prefix_of, name)
    full_keys = [prefixes.terms + each for each in ids]
    marks = [key + PASSED for key in full_keys]
    rows, marked = writing.read_many(full_keys), writing.read_many(marks)
    removed: Writes = {}
    relied_on = [prefixes.epoch]
    for id, row, mark, full_key in zip(ids, rows, marked, full_keys, strict=True):
        ranges = [Range(low, after_prefix(low), False, 2) for low in (prefix + id for prefix in prefixes[:4])]
        if row is None or mark is not None or any(next(iter(writing.scan(each)), None) for each in ranges):
            continue
        removed[full_key] = None
        relied_on.append(full_key + PASSED)
        for each in ranges:
            writing.rely_on(each)
    if removed:
        epoch = decode_epoch(writing.read_many([prefixes.epoch])[0])
        writing.apply({**removed, prefixes.epoch: encode_epoch(epoch + 1)}, relied_on)
    return len(removed)
