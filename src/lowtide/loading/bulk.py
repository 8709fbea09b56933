"""A job as one bulk load: a new generation of the collection is filled beside it, in many small transactions, and takes
its place in one.

First the collection's row names the new keyspaces (``loading``), so that whatever ends the load, they are known and can
be emptied. Then the staged documents are entered, and after them, unless all are to be replaced, the documents that the
collection has. What others write meanwhile is caught up with: keys that were changed after the instant that was copied
are looked at again, and again, until few enough are left. The last of them go into the transaction that names the new
keyspaces in the row, dooms the old ones and writes the receipt. That one has its turn (``Engine.in_turn``): nobody
commits between its look and its commit, so it meets no conflict, however many write. If others write faster than is
caught up with, the number of keys that are few enough grows with each round, so the load always ends.

Beside the new generation, a keyspace has the difference to the old one (``feed/differences.py``): a row for each
document that the job is about. It says of a document that others change meanwhile that the job comes after that
change; and after the load it is what the change feed shows of it.

A transaction that only reads is registered as a writer at the instant that was copied: so a deletion after it leaves a
trace until it was caught up with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Final, Protocol

from lowtide.base.codec import after_prefix
from lowtide.base.environment import Base
from lowtide.documents.catalog import Former, Row, encode_row
from lowtide.documents.codec import decode_document
from lowtide.documents.look import Look
from lowtide.documents.management import put_row
from lowtide.documents.source import OfStore, PrefixOf
from lowtide.documents.unit import Unit
from lowtide.errors import ChangesLost, OperationFailure
from lowtide.feed.differences import Difference, decode_difference, difference, encode_difference
from lowtide.feed.feed import Feed
from lowtide.feed.ranges import commits_in
from lowtide.loading.apply import duplicate, insert_new, twice
from lowtide.loading.job import Counts, Job, Receipt
from lowtide.loading.receipts import receipt_rows
from lowtide.loading.staged import check_wanted, claim, give_up_claim, staged_batches
from lowtide.log.frame import Writes
from lowtide.transaction.engine import Engine
from lowtide.transaction.isolation import SNAPSHOT
from lowtide.transaction.statement import Writing
from lowtide.transaction.transaction import Transaction
from lowtide.versions.layers import VersionStore
from lowtide.versions.visibility import Range, all_changed_since

STEP: Final = 5000
"""Documents of one small transaction."""
STEP_BYTES: Final = 8 << 20
"""Bytes of one, about."""
FEW: Final = 50
"""Changes of others that go into the last transaction: a few milliseconds, for which they wait."""
PATIENCE: Final = 8
"""Rounds after which more go into it, twice as many with each further round."""
_MOST_COMMITS: Final = 2000
"""Commits that the last transaction looks through."""
_ATTEMPTS: Final = 3
"""How often a load begins anew because the collection itself was changed under it."""

Batch = tuple[list[bytes], list[bytes]]
_Work = Callable[[Writing], tuple[Row, Counts]]
_Step = Callable[[Transaction, Transaction, Writing, list[bytes]], Row]


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
        self._changes = ""
        """The keyspace for the difference to the generation that is there."""
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
        self._changes = f"{fresh.keyspace}~changes"
        loading = (*fresh.keyspaces[1:], self._changes)
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
        """Staged documents, or the keys of those to delete. Nothing is known yet of what was there."""
        if self._job.how == "delete":
            self._note(writing, dict.fromkeys(keys, Difference(None)))
            return self._row, Counts()
        unit = self._unit(writing, checked=True)
        known = unit.known_ids(keys)
        seen: set[bytes] = set()
        for key in keys:
            if key in known or key in seen:
                raise twice(self._job.collection, key)
            seen.add(key)
        insert_new(unit, keys, documents)
        self._note(writing, dict(zip(keys, map(Difference, documents), strict=True)), fresh=True)
        return self._taken(unit), Counts(inserted=len(keys))

    # The difference

    def _note(self, writing: Writing, found: dict[bytes, Difference], *, fresh: bool = False) -> None:
        """Write down what the load does to documents; ``fresh`` if that was not done for any of them."""
        prefix = self._prefix_of(self._changes)
        rows: Writes = {prefix + key: encode_difference(each) for key, each in found.items()}
        if rows:
            writing.apply(rows, (), dict.fromkeys(rows) if fresh else None)

    def _noted(self, writing: Writing, keys: list[bytes]) -> list[Difference | None]:
        """What was written down of documents; None if the job is not about one. To replace all documents is about
        each of them."""
        prefix = self._prefix_of(self._changes)
        rows = writing.read_many([prefix + key for key in keys])
        without = Difference(None) if self._job.how == "overwrite" else None
        return [without if row is None else decode_difference(row) for row in rows]

    def _compared(self, noted: Difference, stored: bytes | None) -> Difference:
        """The difference of a document that the job is about, to what is stored of it now."""
        return difference(stored, noted.value, self._engine.before_images)

    # The documents that are there

    def _finish(self) -> Receipt:
        """Copy what the collection has, catch up with what others do, and swap."""
        anchor = Transaction(self._engine, SNAPSHOT, False)
        try:
            look = Look(anchor, self._prefix_of, self._job.collection)
            self._checked(look)
            everything = Range(look.prefix, after_prefix(look.prefix))
            stored = anchor.scan(everything)
            while batch := _part(stored):
                self._small(lambda tx, batch=batch: self._copy(tx, batch))  # type: ignore[misc]
            for attempt in count():
                check_wanted(self._directory)
                later = Transaction(self._engine, SNAPSHOT, False)
                try:
                    self._catch_up(anchor, later, everything, quickly=attempt > 0)
                except BaseException:
                    _end(later)
                    raise
                _end(anchor)
                anchor = later
                receipt = self._swap(anchor, everything, FEW << max(0, attempt - PATIENCE))
                if receipt is not None:
                    return receipt
        finally:
            _end(anchor)
        raise AssertionError("the last round returns")

    def _copy(self, writing: Writing, batch: list[tuple[bytes, bytes]]) -> tuple[Row, Counts]:
        """Documents of the collection, but for those that the job replaces or deletes."""
        unit, counts, how = self._unit(writing, checked=False), Counts(), self._job.how
        kept: list[tuple[bytes, bytes]] = []
        found: dict[bytes, Difference] = {}
        for (key, stored), noted in zip(batch, self._noted(writing, [key for key, _ in batch]), strict=True):
            if noted is None:
                kept.append((key, stored))
            elif how == "append":
                raise duplicate(self._job.collection, key)
            else:
                found[key] = self._compared(noted, stored)
        if how == "upsert":
            counts.replaced += len(found)
            counts.inserted -= len(found)
        else:
            counts.deleted += len(found)
        self._note(writing, found)
        insert_new(unit, [key for key, _ in kept], [stored for _, stored in kept])
        return self._taken(unit), counts

    def _catch_up(self, anchor: Transaction, later: Transaction, everything: Range, *, quickly: bool) -> None:
        """Bring the new generation from one instant to a later one, in small transactions. What was changed is told by
        the log, if that is little and it is still there, else by the versions."""
        keys = self._logged(everything, anchor.ts, later.ts) if quickly else None
        if keys is None:
            keys = all_changed_since(self._parts.versions, self._parts.base, everything, anchor.ts)
            anchor._open_ts()  # after the look: once it is expired, deletions need leave no trace
        keys = [full_key[len(everything.low) :] for full_key in keys]
        for step in self._steps:
            for start in range(0, len(keys), STEP):
                part = keys[start : start + STEP]
                self._small(lambda tx, step=step, part=part: (step(anchor, later, tx, part), Counts()))  # type: ignore[misc]

    @property
    def _steps(self) -> tuple[_Step, ...]:
        is_unique = any(each.unique for each in self._row.indexes)
        return (self._removed, self._caught_up) if is_unique else (self._caught_up,)

    def _logged(self, everything: Range, since: int, until: int) -> list[bytes] | None:
        """The full keys of a range that the commits after ``since`` up to ``until`` have written; None if the log no
        longer has those."""
        found: dict[bytes, None] = {}
        try:
            for commit in commits_in(self._parts.feed.commits(since, until)):
                found.update(dict.fromkeys(key for key in commit.writes if everything.covers(key)))
        except ChangesLost:
            return None
        return list(found)

    def _swap(self, anchor: Transaction, everything: Range, few: int) -> Receipt | None:
        """Let the new generation take the collection's place, with the last changes of others in it; None if there are
        more than ``few``."""
        claim(self._directory)
        with self._engine.in_turn() as engine:  # no commit of others from here on
            swap = Transaction(engine, SNAPSHOT, False)
            try:
                receipt = self._swapped(anchor, swap, everything, few)
            finally:
                _end(swap)
        if receipt is None:
            give_up_claim(self._directory)
        return receipt

    def _swapped(self, anchor: Transaction, swap: Transaction, everything: Range, few: int) -> Receipt | None:
        look = Look(swap, self._prefix_of, self._job.collection)
        row = self._checked(look)
        if swap.ts - anchor.ts > max(few, _MOST_COMMITS):
            return None
        keys = self._logged(everything, anchor.ts, swap.ts)
        if keys is None or len(keys) > few:
            return None
        keys = [full_key[len(everything.low) :] for full_key in keys]
        for step in self._steps:
            self._row = step(anchor, swap, swap, keys)
        swap.apply({look.row_key: encode_row(self._named(row, swap.ts + 1))}, (look.row_key,))
        swap.apply(receipt_rows(self._prefix_of, self._name, self._job, self._counts), ())
        return Receipt(swap.commit(), self._counts)

    def _named(self, row: Row, ts: int) -> Row:
        """The collection's row, with the new keyspaces in the place of its own, as commit ``ts`` will have it."""
        indexes = []
        for each in row.indexes:
            mine = self._row.index(each.name)
            assert mine is not None
            indexes.append(mine.having(building=each.building, build=each.build))
        return row.having(
            keyspace=self._row.keyspace,
            indexes=tuple(indexes),
            doomed=(*row.doomed, *row.keyspaces[1:]),
            loading=(),
            exists=True,
            former=(*row.former, Former(ts, row.keyspace, self._changes)),
            loaded=ts,
        )

    def _removed(self, before: Transaction, after: Transaction, writing: Writing, keys: list[bytes]) -> Row:
        """Remove from the new generation the documents that are not the same at a later instant as they were at one;
        all of them before any is entered again, so that what a unique index held is free."""
        unit = self._unit(writing, checked=False)
        copied = [key for key, _, noted in self._changed(before, after, writing, keys) if noted is None]
        for key, here in zip(copied, unit.stored_of(copied), strict=True):
            if here is not None:
                unit.delete((key, here, decode_document(here)))
        return self._taken(unit)

    def _caught_up(self, before: Transaction, after: Transaction, writing: Writing, keys: list[bytes]) -> Row:
        """Bring documents of the new generation from what one instant had to what a later one has."""
        unit = self._unit(writing, checked=False)
        found: dict[bytes, Difference] = {}
        copied: list[tuple[bytes, bytes | None]] = []
        for key, now, noted in self._changed(before, after, writing, keys):
            if noted is None:
                copied.append((key, now))
            elif now is not None and self._job.how == "append":
                raise duplicate(self._job.collection, key)
            else:
                found[key] = self._compared(noted, now)
        self._note(writing, found)
        for (key, now), here in zip(copied, unit.stored_of([key for key, _ in copied]), strict=True):
            if here is None and now is not None:
                insert_new(unit, [key], [now])
            elif here is not None and now is None:
                unit.delete((key, here, decode_document(here)))
            elif here is not None and now is not None:
                unit.replace((key, here, decode_document(here)), decode_document(now), now)
        return self._taken(unit)

    def _changed(
        self, before: Transaction, after: Transaction, writing: Writing, keys: list[bytes]
    ) -> list[tuple[bytes, bytes | None, Difference | None]]:
        """The documents that differ between two instants, as the later one has them, and what was noted of them."""
        prefix = Look(after, self._prefix_of, self._job.collection).prefix
        full_keys = [prefix + key for key in keys]
        old, new = before.read_many(full_keys), after.read_many(full_keys)
        changed = [(key, now) for key, was, now in zip(keys, old, new, strict=True) if was != now]
        noted = self._noted(writing, [key for key, _ in changed])
        return [(key, now, each) for (key, now), each in zip(changed, noted, strict=True)]


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
