"""The loader: applies jobs in the process that owns the store, each exactly once.

Any thread may call it. ``_locks`` is changed under ``_lock``. The lock of a collection is held during a whole job, so
that jobs of one collection run one after the other, and a job that is requested twice at once is done once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from lowtide.documents.catalog import CATALOG, check_collection_name
from lowtide.documents.management import doom_outdated, finish_drops, outdated, put_row
from lowtide.documents.reader import CollectionReader
from lowtide.documents.write_batch import WriteBatch
from lowtide.engine.base.direct import note_filled
from lowtide.engine.garbage.emptying import empty_keyspace
from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.statements.runners import AutocommitStatements, PrefixOf
from lowtide.engine.statements.statement import ReadView, WriteView
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.isolation import SNAPSHOT
from lowtide.engine.transaction.retry import pauses
from lowtide.engine.transaction.transaction import begin
from lowtide.engine.types import Range, after_prefix
from lowtide.errors import TransientError
from lowtide.sharing.loading import bulk
from lowtide.sharing.loading.apply import TooLarge, apply_batches, keep_types
from lowtide.sharing.loading.bulk import BulkLoad, Owned
from lowtide.sharing.loading.job import Job, Receipt
from lowtide.sharing.loading.receipts import prune_receipts, receipt_of, receipt_rows
from lowtide.sharing.loading.staged import (
    announced,
    check_wanted,
    claim,
    give_up_claim,
    staged_batches,
    staging_of,
    sweep,
)
from lowtide.sharing.loading.statements import apply_statements
from lowtide.system.clock import SYSTEM_CLOCK

logger = logging.getLogger("lowtide")

ATTEMPTS: Final = 20
"""The number of attempts of one transaction that conflicts with transactions that change the same documents."""
LEAST_ATTEMPTS: Final = 2
IMPATIENCE: Final = 1.0
"""Seconds after which there is no further attempt, except for the first LEAST_ATTEMPTS."""
LARGE: Final = 10_000
"""The approximate number of rows from which a keyspace is emptied directly in the base, if possible."""
SMALL_ROWS: Final = 200
SMALL_BYTES: Final = 256 << 10
"""If all attempts fail, a job of at most this size is applied under the commit lock, rather than as a bulk load. Other
commits wait for it, a few milliseconds."""


class Loader:
    """Applies the jobs that are staged beside one open store."""

    def __init__(self, path: Path, parts: Owned) -> None:
        self._path = path
        self._parts = parts
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._emptying: dict[str, threading.Thread] = {}
        """By collection, the thread that empties the keyspaces that loads left; changed under ``_lock``."""
        self._to_empty: set[str] = set()
        """The collections that have such keyspaces, until their thread looks for them; changed under ``_lock``."""
        self._tidied = 0
        """The first commit in the log when ``tidy`` last searched for differences; written only by ``tidy``."""

    def load(self, job: str) -> dict[str, Any]:
        """Apply a job, by its name, for another process."""
        found: dict[str, Any] = msgspec.to_builtins(self.apply(job, direct=False))
        return found

    def apply(self, name: str, *, direct: bool = True) -> Receipt:
        """Apply a job that is ready, unless it was done before. The receipt has its commit. ``direct``: this process
        has nothing else to do, so many documents may go straight to the base; see ``direct.py``."""
        directory = staging_of(self._path, name)
        job = announced(directory)
        if job.quads is None:
            check_collection_name(job.collection)
        sweep(self._path)
        with self._lock_of(job.target):
            receipt = self._receipt(name, job)
            if receipt is None:
                give_up_claim(directory)  # a killed owner's claim: the waiting process may cancel the job again
                try:
                    receipt = self._apply(name, job, directory, direct)
                except BaseException:
                    give_up_claim(directory)
                    raise
                finally:
                    if job.quads is None:
                        self._empty(job.collection)
        self._prune()
        return receipt

    def tidy(self) -> None:
        """Empty the differences of loads whose commits are no longer in the log. One thread calls this now and then;
        cheap if there is nothing to do."""
        try:
            kept = self._parts.feed.first_kept()
            if kept <= self._tidied or CATALOG not in self._parts.engine.catalog.prefixes:
                return
            names = AutocommitStatements(self._parts).read(
                lambda reading, prefix_of: outdated(reading, prefix_of, kept)
            )
            for each in names:
                self._empty(each)
            self._tidied = kept
        except Exception as error:
            if not self._parts.engine.closed:
                logger.warning("%s: leftovers of loads are not removed yet: %s", self._path, error)

    def _empty(self, collection: str) -> None:
        """Empty, in the background, the keyspaces that this or an interrupted load left, and differences that the
        change feed can no longer show."""
        source = AutocommitStatements(self._parts)
        try:
            kept = self._parts.feed.first_kept()
            row = source.write(
                lambda writing, prefix_of: doom_outdated(
                    CollectionReader(writing, prefix_of, collection), writing, kept
                )
            )
            if not row.doomed:
                return
            with self._lock:
                self._to_empty.add(collection)
                busy = self._emptying.get(collection)
                if busy is None or not busy.is_alive():
                    self._emptying[collection] = threading.Thread(
                        target=self._finish_drops, args=(source, collection), name="lowtide-emptying", daemon=True
                    )
                    self._emptying[collection].start()
        except Exception as error:  # this does not affect the job, which is done or has failed
            logger.warning("%s: leftovers of a load are not removed yet: %s", self._path, error)

    def _finish_drops(self, source: AutocommitStatements, collection: str) -> None:
        """Empty what loads of a collection left, until there is nothing more. The thread decides to end under ``_lock``
        and is forgotten there, so what a load leaves after that gets another thread."""
        while True:
            with self._lock:
                if collection not in self._to_empty:
                    del self._emptying[collection]
                    return
                self._to_empty.remove(collection)
            try:
                self._empty_directly(source, collection)
                finish_drops(source, collection)
            except Exception as error:
                if not self._parts.engine.closed:
                    logger.warning("%s: leftovers of a load are not removed yet: %s", self._path, error)

    def _empty_directly(self, source: AutocommitStatements, collection: str) -> None:
        """Empty large keyspaces in the base, if no reader uses them and the log has none of their commits."""
        engine, base = self._parts.engine, self._parts.base
        with begin(engine, SNAPSHOT, False) as tx:
            since, kept = tx.ts, self._parts.feed.first_kept()
            doomed = CollectionReader(tx, engine.catalog.prefix_of, collection).row.doomed
            prefixes = {each: engine.catalog.prefix_of(each) for each in doomed}
            large = [
                name for name, prefix in prefixes.items() if tx.about(Range(prefix, after_prefix(prefix))) >= LARGE
            ]
        if not large:
            return

        def sample() -> Exact:
            bound = engine.registry.published  # read before the live snapshots, see garbage/horizon.py
            return make_horizon("exact", engine.registry.timestamps(), bound)

        self._parts.checkpointer.run(upto=since)
        emptied = [name for name in large if empty_keyspace(base, prefixes[name], since, kept, sample)]

        def forget(writing: WriteView, prefix_of: PrefixOf) -> None:
            look = CollectionReader(writing, prefix_of, collection)
            put_row(
                look, writing, look.row.having(doomed=tuple(each for each in look.row.doomed if each not in emptied))
            )

        if emptied:
            note_filled(base)  # a backup must not keep the rows without their keyspaces
            source.write(forget)

    def finish(self) -> None:
        """Wait until the leftovers of loads are emptied."""
        with self._lock:
            busy = list(self._emptying.values())
        for each in busy:
            each.join()

    def _lock_of(self, target: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(target, threading.Lock())

    def _receipt(self, name: str, job: Job) -> Receipt | None:
        source = AutocommitStatements(self._parts)
        return source.read(lambda reading, prefix_of: receipt_of(reading, prefix_of, self._parts, name, job))

    def _apply(self, name: str, job: Job, directory: Path, direct: bool) -> Receipt:
        """Apply a job in one transaction, retried a few times on conflict. After that, a small job runs in turn, and a
        larger one as a bulk load, which completes despite any number of concurrent writers. Many documents for an empty
        collection are a bulk load from the start."""
        if job.quads is not None:
            return self._statements(name, job, directory)
        if job.bytes <= job.bulk_bytes and not (direct and self._fills_empty(job)):
            try:
                return self._in_one(name, job, directory)
            except TooLarge:
                pass
            except TransientError as error:
                if job.rows <= SMALL_ROWS and job.bytes <= SMALL_BYTES and job.how != "overwrite":
                    return self._in_turn(name, job, directory)
                logger.info(
                    "%s: a write to collection %r continues as a bulk load: %s", self._path, job.collection, error
                )
        return BulkLoad(self._parts, name, job, directory, direct=direct).run()

    def _fills_empty(self, job: Job) -> bool:
        """Whether a job has many documents for an empty collection. Then a bulk load, which writes straight to the
        base, has nothing to copy and nothing to empty afterwards, and is faster than one transaction."""
        if job.rows < bulk.DIRECT_ROWS or job.how not in ("append", "upsert", "overwrite"):
            return False

        def is_empty(reading: ReadView, prefix_of: PrefixOf) -> bool:
            prefix = CollectionReader(reading, prefix_of, job.collection).prefix
            return next(reading.scan(Range(prefix, after_prefix(prefix))), None) is None

        return AutocommitStatements(self._parts).read(is_empty)

    def _statements(self, name: str, job: Job, directory: Path) -> Receipt:
        """Apply a job of statements in one transaction, whatever its size. Adds conflict only with removals of the same
        statements. If these are frequent, the job runs in turn."""
        try:
            return self._in_one(name, job, directory)
        except TransientError as error:
            logger.info("%s: a write to quads %r runs in turn: %s", self._path, job.quads, error)
            return self._in_turn(name, job, directory)

    def _in_one(self, name: str, job: Job, directory: Path) -> Receipt:
        """Apply the whole job in one transaction, retried on conflict for a limited time."""
        begun = SYSTEM_CLOCK.monotonic()
        for attempt, pause in enumerate(pauses(), 1):
            try:
                return self._attempt(self._parts.engine, name, job, directory)
            except TransientError:
                give_up_claim(directory)
                if attempt >= ATTEMPTS or (attempt >= LEAST_ATTEMPTS and SYSTEM_CLOCK.monotonic() - begun > IMPATIENCE):
                    raise
            SYSTEM_CLOCK.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _in_turn(self, name: str, job: Job, directory: Path) -> Receipt:
        """Apply the whole job while no other transaction commits."""
        with self._parts.engine.in_turn() as engine:
            return self._attempt(engine, name, job, directory)

    def _attempt(self, engine: Engine, name: str, job: Job, directory: Path) -> Receipt:
        prefix_of = engine.catalog.prefix_of
        with begin(engine, SNAPSHOT, False) as tx:
            if job.quads is not None:
                counts = apply_statements(tx, prefix_of, job.quads, job.how, _watched(job, directory))
            else:
                unit = WriteBatch(tx, prefix_of, job.collection)
                counts = apply_batches(unit, job.how, _watched(job, directory), job.bulk_bytes)
                unit.apply()
                keep_types(tx, prefix_of, job)
            rows = receipt_rows(prefix_of, name, job, counts)
            # The old values of all keys are known, so that the commit need not look them up.
            tx.apply(rows, (), {full_key: tx.read(full_key) for full_key in rows})
            claim(directory)
            return Receipt(tx.commit(), counts)

    def _prune(self) -> None:
        """Remove old receipts. If that fails, the next job does it."""

        def work(writing: WriteView, prefix_of: PrefixOf) -> int:
            return prune_receipts(writing, prefix_of, lambda name: not staging_of(self._path, name).exists())

        try:
            AutocommitStatements(self._parts).write(work, attempts=3)
        except Exception as error:
            logger.warning("%s: old receipts of loads are not removed yet: %s", self._path, error)


def _watched(job: Job, directory: Path) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The staged batches, until the job is cancelled."""
    for batch in staged_batches(directory, job.files):
        check_wanted(directory)
        yield batch
