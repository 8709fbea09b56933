"""Fills the new generation of a bulk load directly in the base, in key order, without the log or versions in memory.

``engine/base/direct.py`` explains why no reader misses a row or sees one too early. Staged documents and those of the
collection, as of one instant, are both read in the order of their keys and joined. One pass over both writes the new
documents, with their index entries; a second one writes the difference (``feed/differences.py``). So each keyspace is
written from its first key to its last, and LMDB can fill its pages. Concurrent writes of the application are caught up
with in transactions, as in any bulk load.

Each put into LMDB releases the GIL. Next to a busy Python thread, each would wait to get it back, and a load would take
far longer than through the log. So only a process that has opened the store for the load writes directly to the base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby, pairwise
from typing import Final, NamedTuple

from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.isolation import SNAPSHOT
from lowtide.engine.transaction.transaction import EngineTransaction, begin
from lowtide.engine.types import KEYSPACE_PREFIX, Writes
from lowtide.feed.differences import difference, encode_difference, encode_inserted
from lowtide.sharing.loading.apply import duplicate, twice
from lowtide.sharing.loading.beside import Beside
from lowtide.sharing.loading.job import Counts, Job
from lowtide.sharing.loading.runs import Batch, Head

CHUNK_ROWS: Final = 100_000
CHUNK_BYTES: Final = 16 << 20
"""The approximate number of bytes written in one LMDB transaction. Checkpoints and pins wait for it."""


class OldAndNew(NamedTuple):
    """The documents in a range of keys: the staged ones, and those of the collection. For a job that deletes, the
    staged documents are None."""

    staged: dict[bytes, bytes]
    stored: dict[bytes, bytes]


class NewGeneration:
    """The content of the new generation of a collection, computed from the job and from the old generation. Each call
    of ``staged`` and ``stored`` reads these again, in the order of their keys."""

    def __init__(
        self, job: Job, staged: Callable[[], Iterator[Batch]], stored: Callable[[], Iterator[Batch]], *, images: bool
    ) -> None:
        self._job = job
        self._staged = staged
        self._stored = stored
        self._images = images

    def documents(self) -> Iterator[OldAndNew]:
        """Yield the documents, in the order of their keys: those of the job, and those that stay."""
        how = self._job.how
        for staged, stored in self._joined(iter(()) if how == "overwrite" else self._stored()):
            if staged and stored:
                if how == "append" and not staged.keys().isdisjoint(stored):
                    raise duplicate(self._job.collection, next(key for key in staged if key in stored))
                stored = {key: value for key, value in stored.items() if key not in staged}
            yield OldAndNew({} if how == "delete" else staged, stored)

    def differences(self, counts: Counts) -> Iterator[Batch]:
        """Yield the difference, in the order of its keys. Adds the changes that the job makes to ``counts``."""
        how = self._job.how
        for staged, stored in self._joined(self._stored()):
            if not stored and how != "delete":
                counts.inserted += len(staged)
                yield list(staged), encode_inserted(staged.values())
                continue
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
            yield affected, list(map(encode_difference, rows))

    def _joined(self, stored: Iterator[Batch]) -> Iterator[OldAndNew]:
        """Join the staged documents and those of the collection, a range of keys at a time."""
        new, old = Head(self._staged()), Head(stored)
        is_new, is_old = new.more(), old.more()
        while is_new or is_old:
            bound = min(head.keys[-1] for head in (new, old) if head.keys)
            keys, documents = new.take(bound) if is_new else ([], [])
            found = dict(zip(keys, documents, strict=True))
            if len(found) < len(keys) and self._job.how != "delete":
                raise twice(self._job.collection, _first_again(keys))
            yield OldAndNew(found, dict(zip(*old.take(bound), strict=True)) if is_old else {})
            is_new, is_old = new.more(), old.more()


def fill(engine: Engine, beside: Beside, generation: NewGeneration, put: Callable[[bytes, Batch], None]) -> Counts:
    """Write the new generation and the difference to their keyspaces, which ``put`` takes by prefix. Returns the counts
    of the job."""
    prefix_of, counts = engine.catalog.prefix_of, Counts()
    if beside.is_plain:
        for part in chunks(in_order(generation.documents())):
            put(prefix_of(beside.row.keyspace), part)
    else:
        for staged, kept in generation.documents():
            for prefix, part in _checked(engine, beside, staged, kept):
                put(prefix, part)
    for part in chunks(generation.differences(counts)):
        put(prefix_of(beside.changes), part)
    return counts


def _checked(
    engine: Engine, beside: Beside, staged: dict[bytes, bytes], kept: dict[bytes, bytes]
) -> list[tuple[bytes, Batch]]:
    """The rows that documents add to each keyspace, in a collection with indexes or a schema. A transaction that is
    never committed validates them as any other would. It reads the rows already in the base, so a duplicate value in a
    unique index is found."""
    tx = begin(engine, SNAPSHOT, False)
    try:
        beside.filled(tx, staged, kept)
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


def in_order(documents: Iterable[OldAndNew]) -> Iterator[Batch]:
    """The documents of a generation in key order, whether they are staged or of the collection."""
    for staged, kept in documents:
        found = dict(sorted(chain(staged.items(), kept.items()))) if staged and kept else staged or kept
        yield list(found), list(found.values())


def chunks(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Combine batches into larger ones, each of the size that one LMDB transaction should have, or one batch more."""
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for more, given in batches:
        keys += more
        values += given
        size += sum(map(len, given))
        if size >= CHUNK_BYTES or len(keys) >= CHUNK_ROWS:
            yield keys, values
            keys, values, size = [], [], 0
    if keys:
        yield keys, values


def by_keyspace(writes: Writes) -> Iterator[tuple[bytes, Batch]]:
    """The rows that a transaction has put, by the prefix of the keyspace."""
    rows = sorted((key, value) for key, value in writes.items() if value is not None)
    for prefix, part in groupby(rows, key=_prefix):
        found = list(part)
        yield prefix, ([key[KEYSPACE_PREFIX:] for key, _ in found], [value for _, value in found])


def _prefix(row: tuple[bytes, bytes]) -> bytes:
    return row[0][:KEYSPACE_PREFIX]
