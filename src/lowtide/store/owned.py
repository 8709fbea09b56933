"""Everything behind an open store: the parts, wired to each other, opened and closed together."""

from __future__ import annotations

import contextlib
import logging
import os
import weakref
from pathlib import Path

from lowtide.documents.lineage import CollectionGenerations
from lowtide.engine.base.borrowing import give_back
from lowtide.engine.base.leases import Leases
from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.checkpoint.checkpointer import Checkpointer
from lowtide.engine.garbage.account import NOTHING, Holder, HolderId, Holding, account, count_superseded
from lowtide.engine.garbage.collector import Collector
from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.garbage.ledger import Kept
from lowtide.engine.log.syncer import Syncer
from lowtide.engine.maintenance import Maintenance
from lowtide.engine.recovery.opening import LOCK, OpenedFiles, open_files, retained_from
from lowtide.engine.recovery.ownership import Ownership
from lowtide.engine.transaction.autocommit import Autocommit
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.commit import Committer
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.keyspace import Keyspace
from lowtide.engine.transaction.line import Line
from lowtide.engine.transaction.registry import Entry, Registry
from lowtide.engine.transaction.validate import Validator
from lowtide.engine.versions.layers import VersionStore
from lowtide.engine.versions.visibility import Reader
from lowtide.errors import CorruptionError, Error, StoreFailed, UsageError
from lowtide.feed.consumers import Consumers
from lowtide.feed.feed import Feed
from lowtide.feed.waiters import Waiters
from lowtide.observe.monitor import Monitor, SnapshotMonitor
from lowtide.observe.stats import PinStats, SnapshotStats, Stats
from lowtide.options import Options
from lowtide.sharing.loading.loader import Loader
from lowtide.sharing.loading.staged import sweep
from lowtide.sharing.operations import handlers
from lowtide.sharing.page import Page
from lowtide.sharing.pins.owner import OwnerPins
from lowtide.sharing.service import Service
from lowtide.store.kinds import explained, open_keyspace
from lowtide.upkeep.basis import Running

logger = logging.getLogger("lowtide")

_LEAST_LOGGED = 7  # bytes that a version takes in the log at least
_LARGEST_STEP = 1 << 16  # bytes of log after which a commit looks for background work at the latest


class OwnedStore:
    """Everything behind an open store. Holds no reference to the :class:`Store`, so one that is dropped is closed."""

    def __init__(self, path: Path, options: Options) -> None:
        self._options = options
        self._ownership = Ownership(path / LOCK)
        self._given_back = False
        undo = contextlib.ExitStack()
        try:
            undo.callback(self._ownership.release)
            opened = open_files(path, options)
            undo.callback(give_back, opened.base, owner=opened.loan)
            undo.callback(opened.log.close)
            self._wire(path, options, opened, undo)
            _open_stores.add(self)
        except BaseException:
            undo.close()
            raise

    def _wire(self, path: Path, options: Options, opened: OpenedFiles, undo: contextlib.ExitStack) -> None:
        self.case, self.replayed = opened.case, opened.replayed
        self.log, self.base, self._loan = opened.log, opened.base, opened.loan
        self.versions = VersionStore(opened.last_ts)
        self.registry = Registry(opened.last_ts)
        self.reader = Reader(self.versions, self.base, self.registry, options.cache_rows)
        catalog = Catalog(self.base.saved_keyspaces())
        self.committer = Committer(
            log=self.log,
            versions=self.versions,
            registry=self.registry,
            validator=Validator(self.versions, self.base, published=opened.last_ts),
            latest=self.reader.get_latest,
            collector=options.collector,
            keep_before=options.before_images,
            catalog=catalog,
            after_commit=self._after_commit,
            collect_later=lambda: self.collector.look_at_chains(),
        )
        self._checkpoint_versions = options.checkpoint_versions
        self._look_at = 0
        """The length of the log at which a commit looks whether the background has something to do."""
        self.maintenance = Maintenance(self._maintain)
        undo.callback(self.maintenance.close)
        self.checkpointer = Checkpointer(
            options=options,
            store_id=opened.store_id,
            log_directory=path / "log",
            log=self.log,
            versions=self.versions,
            base=self.base,
            exclusive=self.committer.exclusive,
            published=self.registry.last_published,
            sample=self._sample_at,
            applied=self._checkpoint_applied,
            retained_from=lambda boundary: retained_from(self.log, self.base, options, boundary),
        )
        self.collector = Collector(
            versions=self.versions,
            base=self.base,
            threshold=options.collect_threshold,
            prune=self._prune,
            sample=self._sample,
            oldest_writer=self.registry.oldest_writer,
            wake=self.maintenance.wake,
        )
        self.registry.abandoned = self.collector.dropped
        durable = options.durability == "full"
        self.syncer = None if durable else Syncer(self.log, options.sync_interval)
        if self.syncer is not None:
            undo.callback(self.syncer.close)
        self.engine = Engine(
            now=options.clock.monotonic,
            time=options.clock.time,
            catalog=catalog,
            registry=self.registry,
            reader=self.reader,
            committer=self.committer,
            durable=durable,
            sync=self.log.sync,
            released=self._released,
            read_only=options.read_only,
            before_images=options.before_images,
            origins=options.snapshot_origins,
            line=Line(options.clock),
            explained=explained,
        )
        self.pinning = OwnerPins(
            self.engine,
            Leases(self.base, options.clock.time, owner=True),
            lambda ts: self.checkpointer.run(upto=ts),
            self.collector.unpinned,
        )
        self._opened_at = opened.last_ts
        self.loader = Loader(path, self)
        snapshots = SnapshotMonitor(options, self.registry, self._superseded, self._held, self._released)
        holders = (snapshots.expire, lambda now: self.pinning.expire(), snapshots.report)
        hooks = (*holders, lambda now: self.base.clear_dead_readers(), lambda now: self.loader.tidy())
        self.monitor = Monitor(options.monitor_interval, options.clock.monotonic, hooks)
        undo.callback(self.monitor.close)

        self.waiters = Waiters(self.registry.last_published)
        generations = CollectionGenerations(lambda: self.engine, lambda: self.feed)
        published, check = self.registry.last_published, self.check_open
        self.feed: Feed = Feed(
            path / "log", opened.store_id, catalog, published, self.waiters, check, None, generations
        )
        self.consumers = Consumers(self.base, self.feed, options.clock.time)
        self._running = Running(
            path,
            opened.store_id,
            self.log,
            self.base,
            self.versions,
            self.registry,
            catalog,
            self.checkpointer,
            self.collector,
            self.committer.exclusive,
            self.check_open,
            options.clock.monotonic,
        )
        self.base.soundness.on_damage = self._distrust
        self._page = Page(path, opened.store_id, owner=True)
        undo.callback(self._page.close)
        self._page.publish(opened.last_ts)
        if self.base.count_history():
            self.collector.look_everywhere()  # it may hold what the snapshots of an earlier owner saw
        sweep(path)
        self._service = Service(path, handlers(self))
        undo.callback(self._service.close)
        self._service.start()

    # What the parts ask of each other

    def _sample(self) -> Exact:
        """The horizon now. ``published`` is read before the live snapshots are: see garbage.horizon."""
        return self._sample_at(self.registry.published)[0]

    def _sample_at(self, bound: int) -> tuple[Exact, int | None]:
        horizon = make_horizon(self._options.collector, self.registry.timestamps(), bound)
        return horizon, self.registry.oldest_writer()

    @property
    def _failure(self) -> BaseException | None:
        """Why no commit is accepted any more."""
        return self.log.failure or self.base.soundness.damage

    def _distrust(self, error: CorruptionError) -> None:
        """A page of the base is damaged. Reads go on; no commit is accepted that the base might not take."""
        self.committer.closed = self.committer.closed or StoreFailed(f"no commit is accepted: {error}")
        logger.error("no further commit is accepted: %s", error)

    def _prune(self, budget: int, wait: bool) -> int | None:
        if wait:
            with self.committer.exclusive():
                return self.committer.collect(budget)
        return self.committer.try_exclusive(lambda: self.committer.collect(budget, newest=True))

    def _checkpoint_applied(self, kept: Kept | None, live: tuple[int, ...]) -> None:
        """Count what a checkpoint kept. Those for whom it did, and who ended meanwhile, are released now."""
        self.collector.kept(kept)
        for ts in set(live) - set(self.registry.timestamps()):
            self._released(ts)

    def _released(self, ts: int) -> None:
        if not self.engine.closed:
            oldest = min(self.registry.timestamps(), default=ts) >= ts
            self.collector.released(ts, self.registry.published, oldest)

    def _after_commit(self) -> None:
        """Under the commit lock, after each group: have the background do what is due."""
        self._page.publish(self.registry.published)
        if self.waiters.gates:
            self.waiters.wake()
        if self.syncer is not None and not self.syncer.told:
            self.syncer.tell()
        if self.log.appended >= self._look_at:
            self._look()

    def _look(self) -> None:
        """Wake the background if something is due, and say at which length of the log to look again. Under the commit
        lock. What a checkpoint or a new segment changes meanwhile makes the next one early, or late by a small step."""
        log = self.log
        to_spare = log.spare_mark - log.position
        to_checkpoint = self.checkpointer.due_at - log.appended
        to_versions = (self._checkpoint_versions - self.versions.active.versions) * _LEAST_LOGGED
        nearest = min(to_spare + 1, to_checkpoint, to_versions)
        if nearest <= 0:
            self.maintenance.wake()
        self._look_at = log.appended + max(0, min(nearest, _LARGEST_STEP))

    def _checkpoint_due(self) -> bool:
        enough = self.versions.active.versions >= self._checkpoint_versions
        return enough or self.log.appended >= self.checkpointer.due_at

    def _maintain(self) -> None:
        self.log.prepare_spare()
        if self._checkpoint_due() and self.checkpointer.may_try() and self._failure is None:
            self.base.clear_dead_readers()
            self.pinning.expire()
            with contextlib.suppress(Exception):  # counted, reported and tried again by the checkpointer
                self.checkpointer.run(wait=False)
        if self.collector.wanted:
            self.collector.collect()

    def _superseded(self) -> int:
        return count_superseded(self.versions, self.base)

    def _held(self, entries: list[Entry], pins: list[tuple[str, PinRow]] | None = None) -> dict[HolderId, Holding]:
        """What each snapshot holds alone, by token, and each pin, by name. A pin counts as long as its row is there."""
        holders = [Holder(entry.token, entry.ts) for entry in entries]
        for name, row in self.pinning.leases.all() if pins is None else pins:
            holders.append(Holder(name, row.ts, None if row.prefixes is None else frozenset(row.prefixes)))
        return account(holders, self.versions, self.base)

    def stats(self) -> Stats:
        bound = self.registry.published
        entries = self.registry.entries()
        pins = self.pinning.leases.all()
        held = self._held(entries, pins)
        time = self._options.clock.time()
        now = self._options.clock.monotonic()
        layers = self.versions.layers
        return Stats(
            last_commit=bound,
            low_water_mark=min([entry.ts for entry in entries] + [row.ts for _, row in pins], default=bound),
            boundary=self.versions.boundary,
            versions=sum(layer.versions for layer in layers),
            chains=sum(len(layer.chains) for layer in layers),
            version_bytes=sum(layer.bytes for layer in layers),
            history=self.base.count_history(),
            log_bytes=self.log.bytes_kept,
            snapshots=[
                SnapshotStats(entry.ts, now - entry.begun, str(entry.origin), *held.get(entry.token, NOTHING))
                for entry in entries
            ],
            pins=[
                PinStats(name, row.ts, time - row.taken, row.expires - time, row.owner, row.keyspaces, *held[name])
                for name, row in sorted(pins, key=lambda pin: pin[1].ts)
            ],
            collected=self.committer.collected + self.collector.swept,
            checkpoints=self.checkpointer.count,
            checkpoint_failures=self.checkpointer.failures,
            last_checkpoint_failure=self.checkpointer.last_failure,
            collect_failures=self.committer.collect_failures + self.collector.failures,
            failure=str(self._failure) if self._failure is not None else None,
            commits=bound - self._opened_at,
            conflicts=self.committer.conflicts,
            expired=self.registry.expirations,
            last_checkpoint_seconds=self.checkpointer.last_seconds,
        )

    # What the store offers

    @property
    def closed(self) -> str:
        return self.engine.closed

    @property
    def running(self) -> Running:
        self.check_open()
        return self._running

    def keyspace(self, name: str, keep: object = None) -> Keyspace:
        return open_keyspace(Autocommit(self.engine, keep), name, self.engine.catalog.prefix_of(name))

    def checkpoint(self, *, hurry: bool = False) -> None:
        self.check_open()
        self.checkpointer.run(hurry=hurry)

    def collect(self) -> int:
        self.check_open()
        self.registry.reap()
        self.pinning.expire()
        return self.collector.collect(thorough=True)

    def pins_changed(self) -> None:
        """Another process removed pins: collect what they held."""
        self.pinning.expire()

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
                self._page.close,
                lambda: give_back(self.base, owner=self._loan),
                self.log.close,
                self.checkpointer.close,
                self._last_checkpoint,
                self.syncer.close if self.syncer is not None else lambda: None,
                self.maintenance.close,
                self.monitor.close,
                self.waiters.close,
            ):
                stack.callback(step)
            self._service.close()  # first: other processes must find no owner, not one that is closing
            with self.committer.exclusive():
                self._refuse_everything("the store is closed")
        self._given_back = True
        _open_stores.discard(self)

    def _last_checkpoint(self) -> None:
        """Leave the base up to date. Not needed for safety: the log has everything."""
        try:
            if self._failure is None and not self.base.closed:
                self.log.mark()  # point: close.checkpoint
                self.checkpointer.run()
        except (Error, OSError) as error:
            logger.warning("closed without a last checkpoint, the log has everything: %s", error)

    def _refuse_everything(self, reason: str) -> None:
        self.engine.closed = reason
        self.committer.closed = UsageError(reason)
        self.versions.close(reason)  # point: close.versions

    def abandon(self) -> None:
        """In a forked child: the parent owns the store, and this process must neither touch nor hold its files."""
        self._given_back = True
        self._refuse_everything("this store was opened before a fork; use it in the parent, or open it anew there")
        self.base.abandon()
        self.checkpointer.abandon()
        self._service.abandon()
        self._page.close()
        self._ownership.abandon()


_open_stores: weakref.WeakSet[OwnedStore] = weakref.WeakSet()


def _abandon_after_fork() -> None:
    for parts in list(_open_stores):
        parts.abandon()


os.register_at_fork(after_in_child=_abandon_after_fork)
