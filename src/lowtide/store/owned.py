"""Everything behind an open store: its parts, connected, opened and closed together."""

from __future__ import annotations

import contextlib
import logging
import os
import weakref
from collections.abc import Callable
from pathlib import Path

from lowtide.documents.lineage import CollectionGenerations
from lowtide.engine.base.borrowing import give_back
from lowtide.engine.base.leases import Leases
from lowtide.engine.checkpoint.checkpointer import Checkpointer
from lowtide.engine.garbage.account import Accountant, count_superseded
from lowtide.engine.garbage.collector import Collector
from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.garbage.ledger import Kept
from lowtide.engine.log.syncer import Syncer
from lowtide.engine.maintenance import Maintenance
from lowtide.engine.recovery.members import Members
from lowtide.engine.recovery.opening import LOCK, OpenedFiles, open_files, retained_from
from lowtide.engine.recovery.ownership import Ownership
from lowtide.engine.recovery.replay import Followed
from lowtide.engine.transaction.autocommit import Autocommit
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.commit import Committer
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.keyspace import Keyspace, KeyspaceWrites
from lowtide.engine.transaction.line import Line
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.transaction.validate import Validator
from lowtide.engine.versions.layers import VersionStore
from lowtide.engine.versions.visibility import Reader
from lowtide.errors import CorruptionError, Error, StoreFailed, UsageError
from lowtide.feed.consumers import Consumers
from lowtide.feed.feed import Feed
from lowtide.feed.waiters import Waiters
from lowtide.observe.monitor import Monitor, SnapshotMonitor
from lowtide.observe.stats import Stats
from lowtide.options import Options
from lowtide.quads.opening import collect_unused_terms
from lowtide.sharing.inbox import Inbox
from lowtide.sharing.joined_commits import JoinedCommits
from lowtide.sharing.loading.loader import Loader
from lowtide.sharing.loading.staged import sweep
from lowtide.sharing.operations import handlers
from lowtide.sharing.page import Page
from lowtide.sharing.pins.owner import OwnerPins
from lowtide.sharing.remote_line import JoinedLine
from lowtide.sharing.service import Handler, Service
from lowtide.store.kinds import explained, open_keyspace
from lowtide.store.pace import Pace
from lowtide.store.statistics import held_by, stats_of
from lowtide.upkeep.basis import Running

logger = logging.getLogger("lowtide")


class OwnedStore:
    """Everything behind an open store. It holds no reference to the :class:`Store`, so a dropped store is closed."""

    def __init__(
        self,
        path: Path,
        options: Options,
        members: Members,
        *,
        taking_over: bool = False,
        followed: Callable[[], Followed | None] = lambda: None,
    ) -> None:
        self.path = path
        self.options = options
        self.members = members
        self._ownership = Ownership(path / LOCK)
        self._given_back = False
        self.again: Callable[[str], KeyspaceWrites] | None = None
        """Opens a keyspace in a forked child, where this store is closed; set by ``access``."""
        undo = contextlib.ExitStack()
        try:
            undo.callback(self._ownership.release)
            opened = open_files(path, options, taking_over=taking_over, followed=followed())
            undo.callback(give_back, opened.base, owner=opened.loan)
            undo.callback(opened.log.close)
            self._wire(path, options, opened, undo)
            _open_stores.add(self)
        except BaseException:
            undo.close()
            raise

    def _wire(self, path: Path, options: Options, opened: OpenedFiles, undo: contextlib.ExitStack) -> None:
        self.case, self.replayed, self.opened_at = opened.case, opened.replayed, opened.last_ts
        self.log, self.base, self._loan = opened.log, opened.base, opened.loan
        self.versions, self.registry = VersionStore(opened.boundary, options.cache_rows), Registry(opened.last_ts)
        self.reader = Reader(self.versions, self.base, self.registry, options.cache_rows)
        catalog = Catalog(
            self.base.saved_keyspaces(), reserved=self.base.reserved_number(), reserve=self.base.reserve_numbers
        )
        self._page = Page(path, opened.store_id, owner=True)
        undo.callback(self._page.close)
        self.committer = Committer(
            log=self.log,
            versions=self.versions,
            registry=self.registry,
            validator=Validator(self.versions, self.base, published=opened.last_ts, latest=self.reader.get_latest),
            collector=options.collector,
            keep_before=options.before_images,
            catalog=catalog,
            after_commit=self._after_commit,
            show=self._page.publish,
            collect_later=lambda: self.collector.look_at_chains(),
        )
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
            retained_from=lambda boundary: retained_from(self.log, self.base, path, options, boundary),
        )
        if opened.pending is not None:
            self.versions.resume(opened.pending.changes.chains, opened.pending.changes.names)
            catalog.learn(opened.pending.changes.names.items())
            self.checkpointer.resume(opened.pending.bytes)
        self._pace = Pace(options, self.log, self.versions, self.checkpointer, self.maintenance.wake)
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
        self.accountant = Accountant(self.versions, self.base)
        self.loader = Loader(path, self)
        snapshots = SnapshotMonitor(
            options,
            self.registry,
            lambda: count_superseded(self.versions, self.base),
            lambda entries: held_by(self, entries),
            self._released,
        )
        holders = (snapshots.expire, lambda now: self.pinning.expire(), snapshots.report)
        hooks = (*holders, lambda now: self.base.clear_dead_readers(), lambda now: self.loader.tidy())
        self.monitor = Monitor(options.monitor_interval, options.clock.monotonic, hooks)
        undo.callback(self.monitor.close)

        self.waiters = Waiters(self.registry.last_published)
        generations = CollectionGenerations(lambda: self.engine, lambda: self.feed)
        self.feed: Feed = Feed(
            log=path / "log",
            store_id=opened.store_id,
            names=catalog,
            published=self.registry.last_published,
            waiting=self.waiters,
            check_open=self.check_open,
            generations=generations,
        )
        self.consumers = Consumers(self.base, self.feed, options.clock.time)
        self._running = Running(
            path=path,
            store_id=opened.store_id,
            log=self.log,
            base=self.base,
            versions=self.versions,
            registry=self.registry,
            catalog=catalog,
            checkpointer=self.checkpointer,
            collector=self.collector,
            exclusive=self.committer.exclusive,
            check_open=self.check_open,
            now=options.clock.monotonic,
        )
        self.base.soundness.on_damage = self._distrust
        self._page.publish(opened.last_ts)
        if self.base.count_history() or opened.pending is not None:
            self.collector.look_everywhere()  # the history may hold versions for snapshots of an earlier owner
        sweep(path)
        self.joined = JoinedCommits(
            log=path / "log",
            store_id=opened.store_id,
            committer=self.committer,
            catalog=catalog,
            registry=self.registry,
            leases=self.pinning.leases,
            keep_before=options.before_images,
            check_open=self.check_open,
        )
        self.joined_line = JoinedLine(self.engine.line)
        self.engine.line.notify = self.members.line_up
        self._handlers = handlers(self)
        self._service = Service(path, self._handlers, self.joined.answer, Inbox(self.joined, self.committer))
        undo.callback(self._service.close)
        self.members.owns()
        for each in (self.maintenance, self.syncer, self.monitor, self._service):  # everything is wired by now
            if each is not None:
                each.start()
        if opened.pending is not None:
            self.maintenance.wake()

    # What the parts ask of each other

    def _sample(self) -> Exact:
        """The horizon now. ``published`` is read before the live snapshots are: see garbage.horizon."""
        return self._sample_at(self.registry.published)[0]

    def _sample_at(self, bound: int) -> tuple[Exact, int | None]:
        horizon = make_horizon(self.options.collector, self.registry.timestamps(), bound)
        return horizon, self.registry.oldest_writer()

    @property
    def failure(self) -> BaseException | None:
        """The reason why commits are refused; None if they are accepted."""
        return self.log.failure or self.base.soundness.damage

    def _distrust(self, error: CorruptionError) -> None:
        """Refuse further commits, because a page of the base is damaged. Reads still work."""
        self.committer.closed = self.committer.closed or StoreFailed(f"the store accepts no more commits: {error}")
        logger.error("the store accepts no more commits: %s", error)

    def _prune(self, budget: int, wait: bool) -> int | None:
        if wait:
            with self.committer.exclusive():
                return self.committer.collect(budget)
        return self.committer.try_exclusive(lambda: self.committer.collect(budget, newest=True))

    def _checkpoint_applied(self, kept: Kept | None, live: tuple[int, ...]) -> None:
        """Count what a checkpoint kept, and release the snapshots that it kept it for and that have ended since."""
        self.collector.kept(kept)
        for ts in set(live) - set(self.registry.timestamps()):
            self._released(ts)

    def _released(self, ts: int) -> None:
        if not self.engine.closed:
            self.collector.released(ts, self.registry.published, min(self.registry.timestamps(), default=ts) >= ts)

    def _after_commit(self) -> None:
        """Start background work that is due. Called under the commit lock, after each group."""
        if self.waiters.gates:
            self.waiters.wake()
        if self.syncer is not None and not self.syncer.told:
            self.syncer.tell()
        if self.log.appended >= self._pace.look_at:
            self._pace.look()

    def _maintain(self) -> None:
        self._pace.look_again()
        self.log.prepare_spare()
        if self._pace.checkpoint_due and self.checkpointer.may_try() and self.failure is None:
            self.base.clear_dead_readers()
            self.pinning.expire()
            with contextlib.suppress(Exception):  # the checkpointer counts it, reports it and retries
                self.checkpointer.run(wait=False)
        if self.collector.wanted:
            self.collector.collect()

    def stats(self) -> Stats:
        return stats_of(self)

    # What the store offers

    @property
    def closed(self) -> str:
        return self.engine.closed

    @property
    def running(self) -> Running:
        self.check_open()
        return self._running

    def keyspace(self, name: str, keep: object = None) -> Keyspace:
        source = Autocommit(self.engine, keep, self.again)
        return open_keyspace(source, name, self.engine.catalog.prefix_of(name))

    def checkpoint(self, *, hurry: bool = False) -> None:
        self.check_open()
        self.checkpointer.run(hurry=hurry)

    def collect(self) -> int:
        self.check_open()
        self.registry.reap()
        self.pinning.expire()
        collect_unused_terms(self)
        return self.collector.collect(thorough=True)

    def handler(self, operation: str) -> Handler:
        """What answers an operation of another process."""
        return self._handlers[operation]

    def pins_changed(self) -> None:
        """Collect what pins held that another process removed."""
        self.pinning.expire()

    def check_open(self) -> None:
        if self.engine.closed:
            raise UsageError(self.engine.closed)

    def close(self) -> None:
        """Refuse commits, make a last checkpoint and release everything, even if a step fails. Every step can be
        repeated, so an interrupted close can be called again."""
        if self._given_back:
            return
        if self._service.connected:
            self._hand_over()
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
            self._service.close()  # first, so that other processes find no owner, instead of one that is closing
            with self.committer.exclusive():
                self._refuse_everything("the store is closed")
        self._given_back = True
        _open_stores.discard(self)

    def _hand_over(self) -> None:
        """Make a checkpoint while joined processes still commit here, so that they wait only for a small last one."""
        with contextlib.suppress(Error, OSError):  # the last checkpoint reports it
            self.checkpointer.run(hurry=True)

    def _last_checkpoint(self) -> None:
        """Bring the base up to date. Safety does not need it: the log has everything."""
        try:
            if self.failure is None and not self.base.closed:
                self.log.mark()  # point: close.checkpoint
                self.checkpointer.run()
        except (Error, OSError) as error:
            logger.warning("closed without a last checkpoint; nothing is lost, the log has everything: %s", error)

    def _refuse_everything(self, reason: str) -> None:
        self.engine.closed = reason
        self.committer.closed = UsageError(reason)
        self.versions.close(reason)  # point: close.versions

    def abandon(self) -> None:
        """Let go of the store in a forked child. The parent owns it: the child must not touch its files or keep them
        open."""
        self._given_back = True
        self._refuse_everything("this was opened before a fork, and belongs to the parent: open it again here")
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
