"""Applies a job as one bulk load: small transactions fill a new generation of the collection, and one swaps it in.

First the collection's row names the new keyspaces (``loading``), so that they can be emptied however the load ends.
Then the staged documents are written and, unless all are replaced, the documents of the collection are copied. Then the
load catches up with concurrent writes: keys that changed after the copied commit are copied again, in rounds, until few
are left. These go into the transaction that names the new keyspaces in the row, dooms the old ones and writes the
receipt. That transaction runs in turn (``Engine.in_turn``): no other transaction commits between its reads and its
commit, so it cannot conflict. If concurrent writes are faster than the load, the number of keys that may be left grows
with each round, so the load always ends.

A load of many documents writes them straight to the base (``direct``), rather than in small transactions. The first
transaction then also names the keyspaces in the log, and a checkpoint brings the names to the base, before any row.

Another keyspace has the difference from the old generation (``feed/differences.py``): a row for each document that the
job affects. The row records that the job comes after any concurrent change of the document. After the load, the change
feed shows these rows.

A read-only transaction is registered as a writer at the copied instant, so that a later deletion leaves a tombstone
until the load has caught up with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, count, islice
from pathlib import Path
from typing import Final, Protocol

from lowtide.documents.catalog import CatalogRow, Former, encode_row
from lowtide.documents.management import put_row
from lowtide.documents.reader import CollectionReader
from lowtide.engine.base.direct import note_filled, put_entries
from lowtide.engine.base.environment import Base
from lowtide.engine.checkpoint.checkpointer import Checkpointer
from lowtide.engine.statements.runners import AutocommitStatements, PrefixOf
from lowtide.engine.statements.statement import WriteView
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.isolation import SNAPSHOT
from lowtide.engine.transaction.transaction import EngineTransaction, begin
from lowtide.engine.types import Range, Writes, after_prefix
from lowtide.engine.versions.changed import all_changed_since
from lowtide.engine.versions.layers import VersionStore
from lowtide.errors import ChangesLost, OperationFailure, SnapshotExpired
from lowtide.feed.feed import Feed
from lowtide.feed.ranges import commits_in
from lowtide.sharing.loading.apply import types_kept
from lowtide.sharing.loading.beside import Beside, Step
from lowtide.sharing.loading.direct import NewGeneration, ended, fill
from lowtide.sharing.loading.job import Counts, Job, Receipt
from lowtide.sharing.loading.receipts import receipt_rows
from lowtide.sharing.loading.runs import MOST_RUNS, Batch, StagedRun, merged, runs_of
from lowtide.sharing.loading.staged import check_wanted, claim, give_up_claim, staged_batches
from lowtide.system.cycles import adding, without_collector

STEP: Final = 5000
"""The number of documents in one small transaction."""
STEP_BYTES: Final = 8 << 20
"""The approximate number of bytes in one small transaction."""
FEW: Final = 50
"""The number of concurrent changes that the last transaction may apply. All commits wait for it, a few milliseconds."""
PATIENCE: Final = 8
"""The number of rounds after which ``FEW`` doubles with each further round."""
DIRECT_ROWS: Final = 50_000
"""The minimum number of staged documents for writing them straight to the base, which costs a checkpoint."""
_MOST_COMMITS: Final = 2000
"""The maximum number of commits that the last transaction reads from the log."""
_ATTEMPTS: Final = 3
"""The number of attempts, if the collection itself is changed during each of them."""

_Work = Callable[[WriteView], tuple[CatalogRow, Counts]]


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

    @property
    def checkpointer(self) -> Checkpointer: ...


class _Displaced(Exception):
    """Raised if the collection was dropped or renamed, or its indexes or schema were changed."""


class _Expired(Exception):
    """Raised if a snapshot of the load has expired, with that error. Retrying a small transaction would not help."""

    def __init__(self, error: SnapshotExpired) -> None:
        self.error = error


class BulkLoad:
    """One bulk load. Used by one thread."""

    def __init__(self, parts: Owned, name: str, job: Job, directory: Path, *, direct: bool = False) -> None:
        """``direct``: many documents may go straight to the base."""
        self._direct = direct and job.how != "changes" and job.rows >= DIRECT_ROWS
        self._parts = parts
        self._engine = parts.engine
        self._prefix_of = parts.engine.catalog.prefix_of
        self._source = AutocommitStatements(parts)
        self._name = name
        self._job = job
        self._directory = directory
        self._beside = Beside(job, CatalogRow(keyspace=""), self._prefix_of, self._engine.before_images)
        """The new generation."""
        self._runs: list[StagedRun] | None = None
        """The staged documents in the order of their keys; None if they do not go straight to the base."""
        self._counts = Counts()

    def run(self) -> Receipt:
        """Run the job. If it raises, the collection is unchanged, and the new generation is doomed."""
        if self._direct:
            runs = runs_of(self._directory, self._job.files)
            self._runs = runs if len(runs) <= MOST_RUNS else None
        for _ in range(_ATTEMPTS):
            try:
                return self._build()
            except _Displaced:
                pass
        raise OperationFailure(
            f"collection {self._job.collection!r} was dropped, renamed or given other indexes or another schema "
            f"{_ATTEMPTS} times during a load; nothing was changed: retry"
        )

    def _build(self) -> Receipt:
        self._counts = Counts()
        self._beside = self._source.write(self._announce)
        try:
            if self._runs is not None:
                return self._finish()
            enter = self._beside.note_changes if self._job.how == "changes" else self._beside.enter
            for batch in self._staged():
                self._small(lambda tx, batch=batch: enter(tx, *batch))  # type: ignore[misc]
            if self._job.how == "changes":
                self._enter_noted()
            return self._finish()
        except BaseException:
            give_up_claim(self._directory)
            self._source.write(self._give_up)
            raise

    # The row

    def _announce(self, writing: WriteView, prefix_of: PrefixOf) -> Beside:
        """Name the new keyspaces in the row, and doom the keyspaces that an earlier load left."""
        look = CollectionReader(writing, prefix_of, self._job.collection)
        row = look.row
        fresh = Beside(self._job, row.beside(look.name), prefix_of, self._engine.before_images)
        exists = row.exists and writing.read(look.row_key) is not None
        doomed = (*row.doomed, *row.loading)
        put_row(
            look,
            writing,
            row.having(generation=fresh.row.generation, loading=fresh.keyspaces, doomed=doomed, exists=exists),
        )
        if self._runs is not None:
            # Deleting a key that no document has records the name of its keyspace in the log, and the checkpoint
            # records it in the base.
            names: Writes = {prefix_of(each): None for each in fresh.keyspaces}
            writing.apply(names, (), dict.fromkeys(names))
        return fresh

    def _give_up(self, writing: WriteView, prefix_of: PrefixOf) -> None:
        look = CollectionReader(writing, prefix_of, self._job.collection)
        row = look.row
        if self._beside.row.keyspace in row.loading:
            put_row(look, writing, row.having(loading=(), doomed=(*row.doomed, *row.loading)))
        elif self._runs is not None:
            # Another transaction has doomed the keyspaces, and may have emptied them before the last rows were written.
            more = tuple(each for each in self._beside.keyspaces if each not in row.doomed)
            put_row(look, writing, row.having(doomed=(*row.doomed, *more)))

    def _checked(self, look: CollectionReader) -> CatalogRow:
        """The current row of the collection, if the load still fits it."""
        row, mine = look.row, self._beside.row
        same = (
            mine.keyspace in row.loading
            and row.schema == mine.schema
            and len(row.indexes) == len(mine.indexes)
            and all((other := mine.index(each.name)) is not None and other.same_as(each) for each in row.indexes)
        )
        if not same:
            raise _Displaced
        return row

    # Small transactions

    def _small(self, work: _Work) -> None:
        """Do one step of the load in its own transaction."""
        check_wanted(self._directory)

        def change(writing: WriteView, prefix_of: PrefixOf) -> tuple[CatalogRow, Counts]:
            self._checked(CollectionReader(writing, prefix_of, self._job.collection))
            return work(writing)

        with adding(STEP):
            self._beside.row, counts = self._source.write(change)
        self._counts.inserted += counts.inserted
        self._counts.replaced += counts.replaced
        self._counts.deleted += counts.deleted

    def _staged(self) -> Iterator[Batch]:
        """The staged documents, in batches of one step."""
        for keys, documents in staged_batches(self._directory, self._job.files):
            sizes = [len(key) + len(document or b"") for key, document in zip(keys, documents, strict=True)]
            start = 0
            while start < len(keys):
                end = start + STEP
                if sum(sizes[start:end]) > STEP_BYTES:
                    until = accumulate(sizes[start:end])
                    end = start + 1 + next(place for place, size in enumerate(until) if size >= STEP_BYTES)
                yield keys[start:end], documents[start:end]
                start = end

    def _enter_noted(self) -> None:
        """Write the documents of all changes, once the last change of each document is known."""
        prefix = self._prefix_of(self._beside.changes)
        with begin(self._engine, SNAPSHOT, False) as noted:
            rows = noted.scan(Range(prefix, after_prefix(prefix)))
            while batch := _part(rows):
                self._small(lambda tx, batch=batch: self._beside.enter_noted(tx, batch))  # type: ignore[misc]

    def _finish(self) -> Receipt:
        """Copy the collection, catch up with concurrent writes, and swap."""
        if self._runs is not None:
            self._parts.checkpointer.run()
        anchor = begin(self._engine, SNAPSHOT, False)
        try:
            look = CollectionReader(anchor, self._prefix_of, self._job.collection)
            self._checked(look)
            everything = Range(look.prefix, after_prefix(look.prefix))
            if self._runs is not None:
                self._fill(anchor, everything, self._runs)
            else:
                stored = anchor.scan(everything)
                while batch := _part(stored):
                    self._small(lambda tx, batch=batch: self._beside.copy(tx, batch))  # type: ignore[misc]
            for attempt in count():
                check_wanted(self._directory)
                later = begin(self._engine, SNAPSHOT, False)
                try:
                    self._catch_up(anchor, later, everything, quickly=attempt > 0 or self._runs is not None)
                except BaseException:
                    ended(later)
                    raise
                ended(anchor)
                anchor = later
                receipt = self._swap(anchor, everything, FEW << max(0, attempt - PATIENCE))
                if receipt is not None:
                    return receipt
        finally:
            ended(anchor)
        raise AssertionError("the last round returns")

    # Straight to the base

    def _fill(self, anchor: EngineTransaction, everything: Range, runs: list[StagedRun]) -> None:
        """Write the documents of the new generation and the difference, as of the instant of ``anchor``."""

        def stored() -> Iterator[Batch]:
            found = anchor.scan(everything)
            while part := _part(found):
                yield [key for key, _ in part], [document for _, document in part]

        def put(prefix: bytes, batch: Batch) -> None:
            self._check_still_wanted()
            put_entries(self._parts.base, prefix, *batch)

        images = self._engine.before_images
        generation = NewGeneration(self._job, merged(self._directory, runs), stored(), images=images)
        with without_collector():
            self._counts = fill(self._engine, self._beside, generation, put)
        note_filled(self._parts.base)

    def _check_still_wanted(self) -> None:
        check_wanted(self._directory)
        self._source.read(
            lambda reading, prefix_of: self._checked(CollectionReader(reading, prefix_of, self._job.collection))
        )

    def _catch_up(
        self, anchor: EngineTransaction, later: EngineTransaction, everything: Range, *, quickly: bool
    ) -> None:
        """Update the new generation from one instant to a later one, in small transactions. If ``quickly``, which
        assumes few commits, the changed keys come from the log, unless it no longer has them; otherwise from the
        versions."""
        keys = self._logged(everything, anchor.ts, later.ts) if quickly else None
        if keys is None:
            keys = all_changed_since(self._parts.versions, self._parts.base, everything, anchor.ts)
            anchor.open_ts()  # after the read: once it has expired, deletions may leave no tombstone
        keys = [full_key[len(everything.low) :] for full_key in keys]
        for step in self._beside.steps:
            for start in range(0, len(keys), STEP):
                part = keys[start : start + STEP]
                try:
                    self._small(lambda tx, step=step, part=part: (_step(step, anchor, later, tx, part), Counts()))  # type: ignore[misc]
                except _Expired as expired:
                    raise expired.error from None

    def _logged(self, everything: Range, since: int, until: int) -> list[bytes] | None:
        """The full keys of a range that the commits after ``since`` up to ``until`` wrote; None if the log no longer
        has these commits."""
        found: dict[bytes, None] = {}
        try:
            for commit in commits_in(self._parts.feed.commits(since, until)):
                found.update(dict.fromkeys(key for key in commit.writes if everything.covers(key)))
        except ChangesLost:
            return None
        return list(found)

    def _swap(self, anchor: EngineTransaction, everything: Range, few: int) -> Receipt | None:
        """Replace the collection by the new generation, including the last concurrent changes; None if there are more
        than ``few`` of them."""
        claim(self._directory)
        with self._engine.in_turn() as engine:  # no other transaction commits from here on
            swap = begin(engine, SNAPSHOT, False)
            try:
                receipt = self._swapped(anchor, swap, everything, few)
            finally:
                ended(swap)
        if receipt is None:
            give_up_claim(self._directory)
        return receipt

    def _swapped(
        self, anchor: EngineTransaction, swap: EngineTransaction, everything: Range, few: int
    ) -> Receipt | None:
        look = CollectionReader(swap, self._prefix_of, self._job.collection)
        row = self._checked(look)
        if swap.ts - anchor.ts > max(few, _MOST_COMMITS):
            return None
        keys = self._logged(everything, anchor.ts, swap.ts)
        if keys is None or len(keys) > few:
            return None
        keys = [full_key[len(everything.low) :] for full_key in keys]
        for step in self._beside.steps:
            self._beside.row = step(anchor, swap, swap, keys)
        swap.apply({look.row_key: encode_row(self._named(row, swap.ts + 1))}, (look.row_key,))
        swap.apply(receipt_rows(self._prefix_of, self._name, self._job, self._counts), ())
        return Receipt(swap.commit(), self._counts)

    def _named(self, row: CatalogRow, ts: int) -> CatalogRow:
        """The collection's row with the new keyspaces, as commit ``ts`` will have it."""
        indexes = []
        for each in row.indexes:
            mine = self._beside.row.index(each.name)
            assert mine is not None
            indexes.append(mine.having(building=each.building, build=each.build))
        return types_kept(row, self._job).having(
            keyspace=self._beside.row.keyspace,
            indexes=tuple(indexes),
            doomed=(*row.doomed, *row.keyspaces[1:]),
            loading=(),
            exists=True,
            former=(*row.former, Former(ts, row.keyspace, self._beside.changes)),
            loaded=ts,
        )


def _step(
    step: Step, before: EngineTransaction, after: EngineTransaction, writing: WriteView, keys: list[bytes]
) -> CatalogRow:
    """Do a step between two instants. Raises _Expired if one of their snapshots has expired."""
    try:
        return step(before, after, writing, keys)
    except SnapshotExpired as error:
        for each in (before, after):
            try:
                each.open_ts()
            except SnapshotExpired:
                raise _Expired(error) from error
        raise


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
