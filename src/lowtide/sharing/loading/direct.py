"""Fills the new generation of a bulk load directly in the base, in key order, without the log or versions in memory.

``engine/base/direct.py`` explains why no reader misses a row or sees one too early. Staged documents and those of the
collection, as of one instant, are both read in the order of their keys and joined. One pass over both writes the new
documents, with their index entries, and the difference (``feed/differences.py``). The keyspace of the difference is
named before that of the documents (``Beside.keyspaces``), so the documents are always at the end of the table, where
LMDB can fill its pages. Concurrent writes of the application are caught up with in transactions, as in any bulk load.

Each put into LMDB releases the GIL. Next to a busy Python thread, each would wait to get it back, and a load would take
far longer than through the log. So only a process that has opened the store for the load writes directly to the base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, groupby, islice, pairwise
from operator import eq
from typing import Final, NamedTuple

from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.isolation import SNAPSHOT
from lowtide.engine.transaction.transaction import EngineTransaction, begin
from lowtide.engine.types import KEYSPACE_PREFIX, Writes
from lowtide.feed.differences import difference, encode_blocks, encode_difference
from lowtide.sharing.loading.apply import duplicate, twice
from lowtide.sharing.loading.beside import Beside
from lowtide.sharing.loading.job import Counts, Job
from lowtide.sharing.loading.runs import Batch, Head

CHUNK_ROWS: Final = 100_000
CHUNK_BYTES: Final = 16 << 20
"""The approximate number of bytes written in one LMDB transaction. Checkpoints and pins wait for it."""


class OldAndNew(NamedTuple):
    """The documents in a range of keys: those of the job, and those of the collection that stay."""

    staged: Batch
    kept: Batch


class JoinedRange(NamedTuple):
    """The staged documents in a range of keys, and those of the collection. For a job that deletes, the staged
    documents are None."""

    keys: list[bytes]
    documents: list[bytes]
    stored: dict[bytes, bytes]


class NewGeneration:
    """The content of the new generation of a collection, computed from the job and from the old generation, both in the
    order of their keys."""

    def __init__(self, job: Job, staged: Iterator[Batch], stored: Iterator[Batch], *, images: bool) -> None:
        self._job = job
        self._staged = staged
        self._stored = stored
        self._images = images
        self.counts = Counts()
        """The changes that the job makes, so far."""

    def parts(self) -> Iterator[tuple[OldAndNew, Batch]]:
        """Yield the documents and the rows of the difference, both in the order of their keys."""
        for joined in self._joined():
            yield self._documents(joined), self._difference(joined)

    def _documents(self, joined: JoinedRange) -> OldAndNew:
        how, (keys, documents, stored) = self._job.how, joined
        if how == "overwrite" or not stored:
            kept = dict[bytes, bytes]()
        else:
            if how == "append" and (again := next(filter(stored.__contains__, keys), None)) is not None:
                raise duplicate(self._job.collection, again)
            kept = dict(stored)
            for key in keys:
                kept.pop(key, None)
        return OldAndNew(([], []) if how == "delete" else (keys, documents), (list(kept), list(kept.values())))

    def _difference(self, joined: JoinedRange) -> Batch:
        how, counts, (keys, documents, stored) = self._job.how, self.counts, joined
        if not stored and how != "delete":
            counts.inserted += len(keys)
            return encode_blocks(keys, documents)
        staged = dict(zip(keys, documents, strict=True))
        again = sum(key in stored for key in staged)
        affected = list(staged)
        if how == "delete":
            counts.deleted += again
        elif how == "overwrite":
            counts.inserted += len(staged)
            counts.deleted += len(stored)
            affected = sorted({**staged, **stored})
        else:
            counts.inserted += len(staged) - again
            counts.replaced += again
        rows = (difference(stored.get(key), staged.get(key), self._images) for key in affected)
        return affected, list(map(encode_difference, rows))

    def _joined(self) -> Iterator[JoinedRange]:
        """Join the staged documents and those of the collection, a range of keys at a time."""
        new, old = Head(self._staged), Head(self._stored)
        is_new, is_old = new.more(), old.more()
        while is_new or is_old:
            bound = min(head.keys[-1] for head in (new, old) if head.keys)
            keys, documents = new.take(bound) if is_new else ([], [])
            if self._job.how != "delete" and any(map(eq, keys, islice(keys, 1, None))):
                raise twice(self._job.collection, _first_again(keys))
            yield JoinedRange(keys, documents, dict(zip(*old.take(bound), strict=True)) if is_old else {})
            is_new, is_old = new.more(), old.more()


def fill(engine: Engine, beside: Beside, generation: NewGeneration, put: Callable[[bytes, Batch], None]) -> Counts:
    """Write the new generation and the difference to their keyspaces, which ``put`` takes by prefix. Returns the counts
    of the job."""
    prefix_of = engine.catalog.prefix_of
    beside.has_blocks = True
    documents = _Chunk(put, prefix_of(beside.row.keyspace))
    differences = _Chunk(put, prefix_of(beside.changes))
    for new, changes in generation.parts():
        if beside.is_plain:
            documents.add(in_order(new))
        else:
            for prefix, part in _checked(engine, beside, new):
                put(prefix, part)
        differences.add(changes)
    documents.flush()
    differences.flush()
    return generation.counts


class _Chunk:
    """Rows of a keyspace that are put together, in one LMDB transaction of about the size that it should have."""

    def __init__(self, put: Callable[[bytes, Batch], None], prefix: bytes) -> None:
        self._put = put
        self._prefix = prefix
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._size = 0

    def add(self, batch: Batch) -> None:
        keys, values = batch
        self._keys += keys
        self._values += values
        self._size += sum(map(len, values))
        if self._size >= CHUNK_BYTES or len(self._keys) >= CHUNK_ROWS:
            self.flush()

    def flush(self) -> None:
        """Put all rows."""
        if self._keys:
            self._put(self._prefix, (self._keys, self._values))
        self._keys, self._values, self._size = [], [], 0


def _checked(engine: Engine, beside: Beside, new: OldAndNew) -> list[tuple[bytes, Batch]]:
    """The rows that documents add to each keyspace, in a collection with indexes or a schema. A transaction that is
    never committed validates them as any other would. It reads the rows already in the base, so a duplicate value in a
    unique index is found."""
    tx = begin(engine, SNAPSHOT, False)
    try:
        beside.filled(tx, *new)
        return list(by_keyspace(tx.pending))
    finally:
        ended(tx)


def ended(tx: EngineTransaction) -> None:
    """Roll back a transaction, if it has not ended."""
    if not tx.state:
        tx.rollback()


def _first_again(keys: list[bytes]) -> bytes:
    """The first of ascending keys that occurs twice."""
    return next(key for key, after in pairwise(keys) if key == after)


def in_order(new: OldAndNew) -> Batch:
    """The documents of a generation in key order, whether they are staged or of the collection."""
    staged, kept = new
    if not staged[0] or not kept[0]:
        return staged if staged[0] else kept
    found = dict(chain(zip(*staged, strict=True), zip(*kept, strict=True)))
    keys = sorted(found)
    return keys, [found[key] for key in keys]


def by_keyspace(writes: Writes) -> Iterator[tuple[bytes, Batch]]:
    """The rows that a transaction has put, by the prefix of the keyspace."""
    rows = sorted((key, value) for key, value in writes.items() if value is not None)
    for prefix, part in groupby(rows, key=_prefix):
        found = list(part)
        yield prefix, ([key[KEYSPACE_PREFIX:] for key, _ in found], [value for _, value in found])


def _prefix(row: tuple[bytes, bytes]) -> bytes:
    return row[0][:KEYSPACE_PREFIX]
