"""A store: an open directory. It wires the parts and decides nothing."""

from __future__ import annotations

import contextlib
import os
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar, Unpack

from lowtide.checkpoint.checkpointer import Checkpointer
from lowtide.errors import Error, TransientError, UsageError
from lowtide.garbage.account import held_alone, superseded
from lowtide.garbage.collector import Collector
from lowtide.garbage.horizon import Exact, make_horizon
from lowtide.log.syncer import Syncer
from lowtide.maintenance import Maintenance, logger
from lowtide.options import OpenOptions, Options, parse_options
from lowtide.recovery.opening import LOCK, Opened, check_directory, open_files
from lowtide.recovery.ownership import Ownership
from lowtide.stats import SnapshotStats, Stats
from lowtide.transaction.autocommit import Autocommit
from lowtide.transaction.catalog import Catalog
from lowtide.transaction.commit import Committer
from lowtide.transaction.engine import Engine
from lowtide.transaction.isolation import SNAPSHOT, Isolation, policy_of
from lowtide.transaction.keyspace import Keyspace
from lowtide.transaction.registry import Registry
from lowtide.transaction.snapshot import Snapshot
from lowtide.transaction.transaction import Transaction
from lowtide.transaction.validate import Validator
from lowtide.versions.layers import VersionStore
from lowtide.versions.visibility import Reader

_Result = TypeVar("_Result")
_FIRST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.1


class Store:
    """An open store; made by :func:`open`. Any number of threads may use it."""

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self._options = options
        self._parts = parts = Parts(path, options)
        try:
            self._engine = parts.engine
            self._autocommit = Autocommit(parts.engine)
            self._finalizer = weakref.finalize(self, Parts.close, parts)
        except BaseException:
            parts.close()
            raise

    # Transactions

    def begin(self, isolation: Isolation | str = "snapshot", read_only: bool = False) -> Transaction:
        """Begin a transaction; end it with ``commit`` or ``rollback``.

        >>> tx = store.begin("serializable")
        >>> tx.keyspace("fruit").get(b"apple")
        b'red'
        >>> tx.rollback()
        """
        return Transaction(self._engine, SNAPSHOT if isolation == "snapshot" else policy_of(isolation), read_only, 2)

    def transaction(self, isolation: Isolation | str = "snapshot", read_only: bool = False) -> Transaction:
        """A transaction for a ``with`` statement: it commits at the end, and rolls back on an error.

        >>> with store.transaction() as tx:
        ...     tx.keyspace("fruit").put(b"pear", b"green")
        """
        return Transaction(self._engine, SNAPSHOT if isolation == "snapshot" else policy_of(isolation), read_only, 2)

    def run(
        self, fn: Callable[[Transaction], _Result], isolation: Isolation | str = "snapshot", attempts: int = 10
    ) -> _Result:
        """Run ``fn(tx)`` in a transaction and commit it, beginning anew when another one committed first.

        ``fn`` may run up to ``attempts`` times, so it should do nothing that cannot be repeated. The pauses in between
        grow and are random, so that those who collided do not collide again. The last error is raised.

        >>> def ripen(tx):
        ...     tx.keyspace("fruit").put(b"banana", b"brown")
        >>> store.run(ripen)
        """
        if attempts < 1:
            raise UsageError(f"attempts must be at least 1, not {attempts}")
        pause = _FIRST_PAUSE
        while True:
            attempts -= 1
            tx = Transaction(self._engine, SNAPSHOT if isolation == "snapshot" else policy_of(isolation), False, 2)
            try:
                with tx:
                    return fn(tx)
            except TransientError:
                if attempts == 0:
                    raise
            self._options.clock.sleep(random.uniform(0, pause))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def snapshot(self, at: int | None = None) -> Snapshot:
        """The state of the last commit, or of commit ``at`` if a live snapshot holds it, read-only.

        >>> with store.snapshot() as snapshot:
        ...     len(list(snapshot.keyspace("fruit").scan()))
        3
        """
        return Snapshot(self._engine, at, 2)

    def keyspace(self, name: str) -> Keyspace:
        """The keyspace ``name``, where each call is a transaction of its own: the fast path for one read or write.

        >>> store.keyspace("fruit").get(b"apple")
        b'red'
        """
        return Keyspace(self._autocommit, name, self._engine.catalog.prefix_of(name))

    def keyspaces(self) -> list[str]:
        """The names of the keyspaces that were ever written to.

        >>> store.keyspaces()
        ['fruit']
        """
        return self._engine.catalog.names()

    # Upkeep, which the background does by itself

    def checkpoint(self) -> None:
        """Bring everything committed so far to the base. Readers and writers go on meanwhile."""
        self._parts.check_open()
        self._parts.checkpointer.run()

    def collect_garbage(self) -> int:
        """Drop every version that no snapshot sees; returns how many went. The background does it by itself."""
        self._parts.check_open()
        return self._parts.collector.collect(thorough=True)

    def stats(self) -> Stats:
        """The store's figures now. O(superseded versions).

        >>> store.stats().snapshots
        []
        """
        self._parts.check_open()
        return self._parts.stats()

    def close(self) -> None:
        """Make a last checkpoint and give the directory back. Open transactions end; harmless when repeated."""
        self._parts.close()
        self._finalizer.detach()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lowtide store {str(self.path)!r}{', closed' if self._engine.closed else ''}>"


class Parts:
    """Everything behind an open store. Holds no reference to the :class:`Store`, so one that is dropped is closed."""

    def __init__(self, path: Path, options: Options) -> None:
        self._options = options
        self._ownership = Ownership(path / LOCK)
        self._given_back = False
        with contextlib.ExitStack() as undo:
            undo.callback(self._ownership.release)
            opened = open_files(path, options)
            undo.callback(opened.base.close)
            undo.callback(opened.log.close)
            self._wire(path, options, opened, undo)
            undo.pop_all()
        _open_stores.add(self)

    def _wire(self, path: Path, options: Options, opened: Opened, undo: contextlib.ExitStack) -> None:
        self.case, self.replayed = opened.case, opened.replayed
        self.log, self.base = opened.log, opened.base
        self.versions = VersionStore(opened.last_ts)
        self.registry = Registry(opened.last_ts)
        self.reader = Reader(self.versions, self.base, self.registry, options.cache_rows)
        catalog = Catalog(self.base.saved_keyspaces())
        validator = Validator(self.versions, self.base, self.reader, opened.last_ts)
        self.committer = Committer(
            self.log, self.versions, self.registry, validator, options.collector, catalog, self._after_commit
        )
        self._checkpoint_versions = options.checkpoint_versions
        self.maintenance = Maintenance(self._maintain)
        undo.callback(self.maintenance.close)
        self.checkpointer = Checkpointer(
            options,
            opened.store_id,
            path / "log",
            self.log,
            self.versions,
            self.base,
            self.committer.exclusive,
            self.registry.last_published,
            self._sample_at,
            self._checkpoint_applied,
        )
        self.collector = Collector(
            self.versions,
            self.base,
            options.collect_threshold,
            self._prune,
            self._sample,
            self.registry.oldest_writer,
            self.maintenance.wake,
        )
        durable = options.durability == "full"
        self.syncer = None if durable else Syncer(self.log, options.sync_interval)
        if self.syncer is not None:
            undo.callback(self.syncer.close)
        self.engine = Engine(
            options.clock.monotonic,
            options.clock.time,
            catalog,
            self.registry,
            self.reader,
            self.committer,
            durable,
            self.log.sync,
            self._released,
            self.collector.dropped,
            options.read_only,
        )

    # What the parts ask of each other

    def _sample(self) -> Exact:
        """The horizon now. ``published`` is read before the live snapshots are: see garbage.horizon."""
        return self._sample_at(self.registry.published)[0]

    def _sample_at(self, bound: int) -> tuple[Exact, int | None]:
        horizon = make_horizon(self._options.collector, self.registry.timestamps(), bound)
        return horizon, self.registry.oldest_writer()

    def _prune(self, budget: int, wait: bool) -> int | None:
        if wait:
            with self.committer.exclusive():
                return self.committer.collect(budget)
        return self.committer.try_exclusive(lambda: self.committer.collect(budget, newest=True))

    def _checkpoint_applied(self, live: tuple[int, ...]) -> None:
        """Those for whom a checkpoint kept versions, and who ended while it did, are released now."""
        for ts in set(live) - set(self.registry.timestamps()):
            self._released(ts)

    def _released(self, ts: int) -> None:
        if not self.engine.closed:
            oldest = min(self.registry.timestamps(), default=ts) >= ts
            self.collector.released(ts, self.registry.published, oldest)

    def _after_commit(self) -> None:
        """Under the commit lock, after each group: have the background do what is due."""
        log = self.log
        if self.syncer is not None and log.durable_ts < log.last_ts and not self.syncer.dirty.is_set():
            self.syncer.dirty.set()
        if (
            log.position > log.spare_mark
            or log.appended >= self.checkpointer.due_at
            or self.versions.active.versions >= self._checkpoint_versions
        ):
            self.maintenance.wake()

    def _checkpoint_due(self) -> bool:
        return (
            self.log.appended >= self.checkpointer.due_at or self.versions.active.versions >= self._checkpoint_versions
        )

    def _maintain(self) -> None:
        self.log.prepare_spare()
        if self._checkpoint_due() and self.checkpointer.may_try() and self.log.failure is None:
            self.base.clear_dead_readers()
            with contextlib.suppress(Exception):  # counted, reported and tried again by the checkpointer
                self.checkpointer.run(wait=False)
        if self.collector.wanted:
            self.collector.collect()

    def stats(self) -> Stats:
        bound = self.registry.published
        entries = self.registry.entries()
        live = tuple(sorted({entry.ts for entry in entries}))
        held = held_alone(live, superseded(self.versions, self.base)) if live else {}
        now = self._options.clock.monotonic()
        layers = self.versions.layers
        return Stats(
            last_commit=bound,
            low_water_mark=live[0] if live else bound,
            boundary=self.versions.boundary,
            versions=sum(layer.versions for layer in layers),
            chains=sum(len(layer.chains) for layer in layers),
            version_bytes=sum(layer.bytes for layer in layers),
            history=self.base.count_history(),
            log_bytes=self.log.bytes_kept,
            snapshots=[
                SnapshotStats(entry.ts, now - entry.begun, str(entry.origin), held.get(entry.ts, 0))
                for entry in entries
            ],
            pins=[],
            collected=self.committer.collected + self.collector.swept,
            checkpoints=self.checkpointer.count,
            checkpoint_failures=self.checkpointer.failures,
            last_checkpoint_failure=self.checkpointer.last_failure,
            collect_failures=self.committer.collect_failures + self.collector.failures,
            failure=str(self.log.failure) if self.log.failure is not None else None,
        )

    def check_open(self) -> None:
        if self.engine.closed:
            raise UsageError(self.engine.closed)

    def close(self) -> None:
        """Refuse commits, checkpoint what is left, and give everything back, whatever fails on the way. Every step may
        be repeated, for a close that was interrupted."""
        if self._given_back:
            return
        with contextlib.ExitStack() as stack:
            for step in (
                self._ownership.release,
                self.base.close,
                self.log.close,
                self.checkpointer.close,
                self._last_checkpoint,
                self.syncer.close if self.syncer is not None else lambda: None,
                self.maintenance.close,
            ):
                stack.callback(step)
            with self.committer.exclusive():
                self._refuse_everything("the store is closed")
        self._given_back = True
        _open_stores.discard(self)

    def _last_checkpoint(self) -> None:
        """Leave the base up to date. Not needed for safety: the log has everything."""
        try:
            if self.log.failure is None and not self.base.closed:
                self.log.mark()
                self.checkpointer.run()
        except (Error, OSError) as error:
            logger.warning("closed without a last checkpoint, the log has everything: %s", error)

    def _refuse_everything(self, reason: str) -> None:
        self.engine.closed = reason
        self.committer.closed = UsageError(reason)
        self.versions.close(reason)

    def abandon(self) -> None:
        """In a forked child: the parent owns the store, and this process must neither touch nor hold its files."""
        self._given_back = True
        self._refuse_everything("this store was opened before a fork; use it in the parent, or open it anew there")
        self.base.abandon()
        self.checkpointer.abandon()
        self._ownership.abandon()


_open_stores: weakref.WeakSet[Parts] = weakref.WeakSet()


def _abandon_after_fork() -> None:
    for parts in list(_open_stores):
        parts.abandon()


os.register_at_fork(after_in_child=_abandon_after_fork)


def open_store(path: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> Store:
    """Open the store in the directory ``path``, making it if it does not exist.

    See :class:`lowtide.Options` for the options. One process owns a store at a time: a second ``open`` raises
    StoreLocked, which says who holds it.

    >>> import lowtide, tempfile
    >>> with lowtide.open(tempfile.mkdtemp()) as fresh:
    ...     fresh.keyspace("greetings").put(b"hello", b"world")
    """
    parsed = parse_options(options)
    directory = Path(path).absolute()
    try:
        check_directory(directory)
        if parsed.read_only and not directory.exists():
            raise UsageError(f"{directory} does not exist, and a read-only store is not made")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Store(directory, parsed)
    except (PermissionError, NotADirectoryError) as error:
        raise UsageError(
            f"cannot open a store in {directory}: {error.strerror}; it must be a writable directory"
        ) from error
