"""A job as one bulk load: a new generation of the collection is filled beside it, in many small transactions, and takes
its place in one.

First the collection's row names the new keyspaces (``loading``), so that whatever ends the load, they are known and can
be emptied. Then the staged documents are entered, and after them, unless all are to be replaced, the documents that the
collection has. What others write meanwhile is caught up with: keys that were changed after the instant that was copied
are looked at again, and again, until few enough are left to go into the last transaction itself. That one relies on the
row and on everything in the old keyspace, so that it fails rather than lose anything; it names the new keyspaces in the
row, dooms the old ones, and writes the receipt.

Keys of documents to be replaced or deleted are kept in a keyspace of their own beside: so it is known of a document
that others change meanwhile that the job comes after that change.

A transaction that only reads is registered as a writer at the instant that was copied: so a deletion after it leaves a
trace until it was caught up with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import uniform
from time import sleep
from typing import Final, Protocol

from lowtide.base.codec import after_prefix
from lowtide.base.environment import Base
from lowtide.documents.catalog import Row, encode_row
from lowtide.documents.codec import decode_document
from lowtide.documents.look import Look
from lowtide.documents.management import put_row
from lowtide.documents.source import OfStore, PrefixOf
from lowtide.documents.unit import Unit
from lowtide.errors import OperationFailure, SnapshotExpired, TransientError
from lowtide.feed.feed import Feed
from lowtide.loading.apply import duplicate, insert_new, twice
from lowtide.loading.job import Counts, Job, Receipt
from lowtide.loading.receipts import receipt_rows
from lowtide.loading.staged import check_wanted, claim, give_up_claim, staged_batches
from lowtide.transaction.engine import Engine
from lowtide.transaction.isolation import SNAPSHOT
from lowtide.transaction.statement import Writing
from lowtide.transaction.transaction import Transaction
from lowtide.versions.changed import all_changed_since
from lowtide.versions.layers import VersionStore
from lowtide.versions.visibility import Range

STEP: Final = 5000
"""Documents of one small transaction."""
STEP_BYTES: Final = 8 << 20
"""Bytes of one, about."""
FEW: Final = 200
"""Changes of others that go into the last transaction."""
ROUNDS: Final = 500
"""How often the last transaction is tried beside others who write."""
_ATTEMPTS: Final = 3
"""How often a load begins anew because the collection itself was changed under it."""

Batch = tuple[list[bytes], list[bytes]]
_Work = Callable[[Writing], tuple[Row, Counts]]


class Owned(Protocol):
    """The parts of an open store that jobs need."""

    @property
    def engine(self) -> Engine: ...

    @property
    def feed(self) -> Feed: ...

    @property
    def versions(self) -> VersionStore: ...

    @property
    def base(self) -> Base: ...


class _Displaced(Exception):
    """The collection was dropped or renamed, or its indexes or schema were changed."""


class BulkLoad:
    """One bulk load. Used by one thread."""

    def __init__(self, parts: Owned, name: str, job: Job, directory: Path) -> None:
        self._parts = parts
        self._engine = parts.engine
        self._prefix_of = parts.engine.catalog.prefix_of
        self._source = OfStore(parts)
        self._name = name
        self._job = job
        self._directory = directory
        self._row = Row(keyspace="")
        """The new generation, as it will be."""
        self._keys: str | None = None
        """The keyspace for the keys of what is replaced or deleted."""
        self._counts = Counts()

    def run(self) -> Receipt:
        """Do the job. Whatever it raises, the collection is as it was, and what was built is doomed."""
        for _ in range(_ATTEMPTS):
            try:
                return self._build()
            except _Displaced:
                pass
        raise OperationFailure(
            f"collection {self._job.collection!r} was dropped, renamed or given other indexes or another schema "
            f"{_ATTEMPTS} times while a load was going on; nothing was changed, try again"
        )

    def _build(self) -> Receipt:
        self._counts = Counts()
        self._row = self._source.change(self._announce)
        try:
            for batch in self._staged():
                self._small(lambda tx, batch=batch: self._enter(tx, *batch))  # type: ignore[misc]
            return self._finish()
        except BaseException:
            give_up_claim(self._directory)
            self._source.change(self._give_up)
            raise

    # The row

    def _announce(self, writing: Writing, prefix_of: PrefixOf) -> Row:
        """Name the new keyspaces in the row; what an earlier load has left in its own is doomed."""
        look = Look(writing, prefix_of, self._job.collection)
        row = look.row
        fresh = row.beside(look.name)
        self._keys = f"{fresh.keyspace}~keys" if self._job.how in ("upsert", "delete") else None
        loading = (*fresh.keyspaces[1:], *((self._keys,) if self._keys is not None else ()))
        exists = row.exists and writing.read(look.row_key) is not None
        doomed = (*row.doomed, *row.loading)
        put_row(look, writing, row.having(generation=fresh.generation, loading=loading, doomed=doomed, exists=exists))
        return fresh

    def _give_up(self, writing: Writing, prefix_of: PrefixOf) -> None:
        look = Look(writing, prefix_of, self._job.collection)
        row = look.row
        if self._row.keyspace in row.loading:
            put_row(look, writing, row.having(loading=(), doomed=(*row.doomed, *row.loading)))

    def _checked(self, look: Look) -> Row:
        """The row of now, if the load still fits it."""
        row, mine = look.row, self._row
        same = (
            self._row.keyspace in row.loading
            and row.schema == mine.schema
            and len(row.indexes) == len(mine.indexes)
            and all((other := mine.index(each.name)) is not None and other.same_as(each) for each in row.indexes)
        )
        if not same:
            raise _Displaced
        return row

    # Small transactions

    def _small(self, work: _Work) -> None:
        """Do a part of the building in a transaction of its own."""
        check_wanted(self._directory)

        def change(writing: Writing, prefix_of: PrefixOf) -> tuple[Row, Counts]:
            self._checked(Look(writing, prefix_of, self._job.collection))
            return work(writing)

        self._row, counts = self._source.change(change)
        self._counts.inserted += counts.inserted
        self._counts.replaced += counts.replaced
        self._counts.deleted += counts.deleted

    def _unit(self, writing: Writing, *, checked: bool) -> Unit:
        """A unit of the new generation. What the collection has already is not asked whether it fits the schema."""
        row = self._row if checked else self._row.having(schema=None)
        return Unit(writing, self._prefix_of, self._job.collection, row)

    def _taken(self, unit: Unit) -> Row:
        return unit.apply_beside().having(schema=self._row.schema)

    def _staged(self) -> Iterator[Batch]:
        """The staged documents, in parts for one step each."""
        for keys, documents in staged_batches(self._directory, self._job.files):
            start = 0
            while start < len(keys):
                size, end = 0, start
                while end < len(keys) and end - start < STEP and size < STEP_BYTES:
                    size += len(keys[end]) + len(documents[end] or b"")
                    end += 1
                yield keys[start:end], documents[start:end]
                start = end

    def _enter(self, writing: Writing, keys: list[bytes], documents: list[bytes]) -> tuple[Row, Counts]:
        """Staged documents, or the keys of those to delete."""
        if self._keys is not None:
            prefix = self._prefix_of(self._keys)
            writing.apply({prefix + key: b"\x01" for key in keys}, ())
        if self._job.how == "delete":
            return self._row, Counts()
        unit = self._unit(writing, checked=True)
        known = unit.known_ids(keys)
        seen: set[bytes] = set()
        for key in keys:
            if key in known or key in seen:
                raise twice(self._job.collection, key)
            seen.add(key)
        insert_new(unit, keys, documents)
        return self._taken(unit), Counts(inserted=len(keys))

    # The documents that are there

    def _finish(self) -> Receipt:
        """Copy what the collection has, catch up with what others do, and swap."""
        anchor = Transaction(self._engine, SNAPSHOT, False)
        try:
            look = Look(anchor, self._prefix_of, self._job.collection)
            self._checked(look)
            everything = Range(look.prefix, after_prefix(look.prefix))
            stored = anchor.scan(everything)
            if self._job.how == "overwrite":
                self._counts.deleted = sum(1 for _ in stored)
            else:
                while batch := _part(stored):
                    self._small(lambda tx, batch=batch: self._copy(tx, batch))  # type: ignore[misc]
            for attempt in range(ROUNDS):
                check_wanted(self._directory)
                swap = Transaction(self._engine, SNAPSHOT, False)
                try:
                    receipt = self._swap(anchor, swap, everything)
                except TransientError as error:
                    _end(swap)
                    if isinstance(error, SnapshotExpired):  # the anchor stays so
                        raise
                    give_up_claim(self._directory)
                    sleep(uniform(0, min(0.0005 * (attempt + 1), 0.02)))
                    continue
                except BaseException:
                    _end(swap)
                    raise
                if receipt is not None:
                    return receipt
                _end(anchor)
                anchor = swap
        finally:
            _end(anchor)
        raise TransientError(
            f"a bulk load of collection {self._job.collection!r} found no moment between the writes of others in "
            f"{ROUNDS} attempts; nothing was changed, try again when there is less to do"
        )

    def _copy(self, writing: Writing, batch: list[tuple[bytes, bytes]]) -> tuple[Row, Counts]:
        """Documents of the collection, but for those that the job replaces or deletes."""
        unit, counts = self._unit(writing, checked=False), Counts()
        there = self._known(writing, unit, [key for key, _ in batch])
        if there and self._job.how == "append":
            raise duplicate(self._job.collection, next(key for key, _ in batch if key in there))
        if self._job.how == "upsert":
            counts.replaced += len(there)
            counts.inserted -= len(there)
        elif self._job.how == "delete":
            counts.deleted += len(there)
        kept = [(key, stored) for key, stored in batch if key not in there]
        insert_new(unit, [key for key, _ in kept], [stored for _, stored in kept])
        return self._taken(unit), counts

    def _known(self, writing: Writing, unit: Unit, keys: list[bytes]) -> frozenset[bytes]:
        """Those of the keys that the job has."""
        if self._keys is None:
            return unit.known_ids(keys)
        prefix = self._prefix_of(self._keys)
        values = writing.read_many([prefix + key for key in keys])
        return frozenset(key for key, value in zip(keys, values, strict=True) if value is not None)

    def _swap(self, anchor: Transaction, swap: Transaction, everything: Range) -> Receipt | None:
        """Catch up with what was changed between two instants, and let the new generation take the collection's place.
        If there was much to catch up with, that is done for itself: None."""
        look = Look(swap, self._prefix_of, self._job.collection)
        row = self._checked(look)
        if self._job.how != "overwrite":
            slowly = anchor.ts < self._parts.versions.boundary
            changed = all_changed_since(self._parts.versions, self._parts.base, everything, anchor.ts)
            anchor._open_ts()  # after the look: once it is expired, deletions need leave no trace
            keys = [full_key[len(everything.low) :] for full_key in changed]
            is_unique = any(each.unique for each in self._row.indexes)
            steps = (self._removed, self._caught_up) if is_unique else (self._caught_up,)
            if slowly or len(keys) > FEW:
                for step in steps:
                    for start in range(0, len(keys), STEP):
                        part = keys[start : start + STEP]
                        self._small(lambda tx, step=step, part=part: (step(anchor, swap, tx, part), Counts()))  # type: ignore[misc]
                return None
            for step in steps:
                self._row = step(anchor, swap, swap, keys)
            swap.rely_on(everything)
        swap.apply({look.row_key: encode_row(self._swapped(row))}, (look.row_key,))
        swap.apply(receipt_rows(self._prefix_of, self._name, self._job, self._counts), ())
        claim(self._directory)
        return Receipt(swap.commit(), self._counts)

    def _swapped(self, row: Row) -> Row:
        """The collection's row, with the new keyspaces in the place of its own."""
        indexes = []
        for each in row.indexes:
            mine = self._row.index(each.name)
            assert mine is not None
            indexes.append(mine.having(building=each.building, build=each.build))
        doomed = (*row.doomed, *row.keyspaces[1:], *((self._keys,) if self._keys is not None else ()))
        return row.having(keyspace=self._row.keyspace, indexes=tuple(indexes), doomed=doomed, loading=(), exists=True)

    def _removed(self, before: Transaction, after: Transaction, writing: Writing, keys: list[bytes]) -> Row:
        """Remove from the new generation the documents that are not the same at a later instant as they were at one;
        all of them before any is entered again, so that what a unique index held is free."""
        unit = self._unit(writing, checked=False)
        changed = self._changed(before, after, writing, unit, keys)
        stored = unit.stored_of([key for key, _, _ in changed])
        for (key, was, _), here in zip(changed, stored, strict=True):
            if here is not None:
                if was is None:
                    raise duplicate(self._job.collection, key)
                unit.delete((key, here, decode_document(here)))
        return self._taken(unit)

    def _caught_up(self, before: Transaction, after: Transaction, writing: Writing, keys: list[bytes]) -> Row:
        """Bring documents of the new generation from what one instant had to what a later one has."""
        unit = self._unit(writing, checked=False)
        changed = self._changed(before, after, writing, unit, keys)
        stored = unit.stored_of([key for key, _, _ in changed])
        for (key, was, now), here in zip(changed, stored, strict=True):
            if was is None and here is not None:
                raise duplicate(self._job.collection, key)
            if here is None and now is not None:
                insert_new(unit, [key], [now])
            elif here is not None and now is None:
                unit.delete((key, here, decode_document(here)))
            elif here is not None and now is not None:
                unit.replace((key, here, decode_document(here)), decode_document(now), now)
        return self._taken(unit)

    def _changed(
        self, before: Transaction, after: Transaction, writing: Writing, unit: Unit, keys: list[bytes]
    ) -> list[tuple[bytes, bytes | None, bytes | None]]:
        """The documents that the job does not have, and that differ between two instants."""
        prefix = Look(after, self._prefix_of, self._job.collection).prefix
        full_keys = [prefix + key for key in keys]
        old, new = before.read_many(full_keys), after.read_many(full_keys)
        mine = self._known(writing, unit, keys) if self._keys is not None else frozenset()
        pairs = zip(keys, old, new, strict=True)
        return [(key, was, now) for key, was, now in pairs if was != now and key not in mine]


def _part(stored: Iterator[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The next documents, for one step."""
    found: list[tuple[bytes, bytes]] = []
    size = 0
    for key, value in islice(stored, STEP):
        found.append((key, value))
        size += len(key) + len(value)
        if size >= STEP_BYTES:
            break
    return found


def _end(tx: Transaction) -> None:
    """Let go of a transaction that is not to be committed, if it has not ended."""
    if not tx._state:
        tx.rollback()
