"""A follower: a read-only view of a store that another process may own, opened by ``lowtide.open(path,
read_only=True)``.

A transaction sees every commit that was published when it begins, without asking the owner. The shared page has the
timestamp of the last commit, and the log has the commits. They are read into memory, above the base as it was at a pin;
that is one *generation* (see ``generation``). When a generation has become large, or the log was released before it was
read, the next generation starts at a new pin. Snapshots of the old one stay valid until they end.

Who writes: ``_current`` and ``_old`` under ``_lock``, by threads that begin a transaction and by the renewing thread.
The engine of the current generation is read without a lock if it is up to date. Between that and the registration of a
snapshot there, the generation must not end. So a thread first writes the generation that it took into ``_claims``, and
then checks that it is still the current one; a thread that ends a generation makes another one current before it reads
the claims. A thread's claim is replaced by its next one, and is dropped after one to two renewals.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.documents.lineage import CollectionGenerations
from lowtide.engine.base.borrowing import borrow, give_back
from lowtide.engine.base.codec import is_tombstone, row_value
from lowtide.engine.base.leases import Leases
from lowtide.engine.log.cursor import Released
from lowtide.engine.log.segment import segment_paths
from lowtide.engine.recovery.members import members_of
from lowtide.engine.transaction.catalog import NOWHERE, Catalog
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.keyspace import Keyspace
from lowtide.errors import ChangesLost, Error, SnapshotExpired, UsageError
from lowtide.feed.consumers import Consumers
from lowtide.feed.feed import Feed
from lowtide.observe.stats import PinStats, ProcessStats, SnapshotStats, Stats
from lowtide.options import Options
from lowtide.sharing.generation import Generation, Joining
from lowtide.sharing.newest import Newest
from lowtide.sharing.owner import Owner, reach_owner
from lowtide.sharing.page import TS, Page
from lowtide.sharing.pins.follower import FollowerPins
from lowtide.sharing.pins.snapshot import Renewer
from lowtide.sharing.takeover import check_store, refresh, tell_of_pins
from lowtide.sharing.waiting import RemoteWaiters
from lowtide.upkeep.basis import Running

if TYPE_CHECKING:
    from lowtide.engine.base.types import Txn
_BEHIND = 1000
"""The number of commits by which the base may be ahead of a generation. Beyond it a new generation starts there."""

_FEW = 16
"""The number of commits that are read into a generation before its size is checked."""

_ATTEMPTS = 100
"""The number of attempts to start a generation, if the log is released during each."""


class Follower:
    """The object behind a read-only store; the counterpart of ``OwnedStore``."""

    def __init__(self, path: Path, options: Options) -> None:
        self._path = path
        self._options = options
        self._store_id = self._find_store()
        self._lock = threading.RLock()
        self._current: Generation | None = None
        self._old: list[Generation] = []
        self._claims: dict[int, tuple[Generation, int]] = {}
        self._round = 0
        self._given_back = False
        self.closed = ""
        undo = contextlib.ExitStack()
        try:
            self._base = borrow(path / "base", options.map_size)
            undo.callback(give_back, self._base)
            self._page = Page(path, self._store_id, owner=False)
            self._catalog = self._make_catalog()
            self._leases = Leases(self._base, options.clock.time)
            self._waiters = RemoteWaiters(path, self._page)
            self.feed = Feed(
                log=path / "log",
                store_id=self._store_id,
                names=self._catalog,
                published=self._last_published,
                waiting=self._waiters,
                check_open=self.check_open,
                saved=self._base.named_upto,
                generations=CollectionGenerations(lambda: self.engine, lambda: self.feed),
            )
            self.consumers = Consumers(self._base, self.feed, options.clock.time)
            self.pinning = FollowerPins(
                path=path,
                options=options,
                base=self._base,
                leases=self._leases,
                engine=lambda: self.engine,
                older=self._engines,
                published=self._last_published,
            )
            self._renewer = Renewer(self._renew)
            undo.callback(self._renewer.close)
            self._renewer.start()
            _followers.add(self)
        except BaseException:
            undo.close()
            raise

    def _find_store(self) -> bytes:
        """Ensure that the store can be read; return its id."""
        store_id = check_store(self._path, self._options)
        refresh(self._path, self._options, checkpoint=False)
        return store_id

    def _make_catalog(self) -> Catalog:
        return Catalog(self._base.saved_keyspaces(), fixed=True)

    def _last_published(self) -> int:
        return self._page.published

    # Reading

    @property
    def engine(self) -> Engine:
        """The engine of a generation that has every published commit."""
        generation = self._current
        if generation is not None and generation.registry.published >= self._page.words[TS] and not generation.lost:
            generation.used = True
            self._claims[threading.get_ident()] = generation, self._round
            if self._current is generation:  # point: follower.claimed
                return generation.engine
        self.check_open()
        with self._lock:
            self.check_open()  # the store may have been closed while this waited
            generation = self._up_to_date()
            self._claims[threading.get_ident()] = generation, self._round
            return generation.engine

    def _engines(self) -> list[Engine]:
        """The engines of the generations that still have snapshots."""
        with self._lock:
            return [each.engine for each in self._old]

    def _up_to_date(self) -> Generation:
        """The current generation, caught up, or a new one. The caller holds the lock."""
        for _ in range(_ATTEMPTS):
            generation = self._current
            try:
                if generation is None or generation.lost or self._is_outgrown(generation):
                    generation = self._begin()
                upto = self._page.published
                # A few commits do not make it large, or the next call notices.
                stop = self._stop_at(generation) if upto > generation.registry.published + _FEW else bool
                if generation.catch_up(upto, stop):
                    generation.used = True
                    return generation
                self._retire()
            except Released:
                self._retire()
        raise Error(f"the log of {self._path} is released faster than it can be read; set feed_bytes higher")

    def _begin(self) -> Generation:
        self._retire()
        self._catalog.learn(self._base.saved_keyspaces())
        self._current = self._make_generation()
        return self._current

    def _make_generation(self, joined: Joining | None = None) -> Generation:
        return Generation(
            log=self._path / "log",
            store_id=self._store_id,
            base=self._base,
            leases=self._leases,
            catalog=self._catalog,
            options=self._options,
            joined=joined,
        )

    def _is_outgrown(self, generation: Generation) -> bool:
        """Whether so much is in memory, or would have to be read, that it is better to start at the base's later
        boundary."""
        large = self._is_large(generation)
        if not large and not self._is_behind(generation):
            return False
        boundary = self._base.read_boundary() or 0
        return (large and boundary > generation.ts) or boundary > generation.registry.published + _BEHIND

    def _is_behind(self, generation: Generation) -> bool:
        """Whether enough was published since that the base may be ahead. The base is never ahead of what was
        published."""
        return self._page.published > generation.registry.published + _BEHIND

    def _is_large(self, generation: Generation) -> bool:
        return (
            generation.bytes >= self._options.checkpoint_bytes
            or generation.versions.active.versions >= self._options.checkpoint_versions
        )

    def _stop_at(self, generation: Generation) -> Callable[[], bool]:
        """A function that says whether a generation that is catching up has become large, while the base is ahead of
        it."""
        boundary = cache(self._base.read_boundary)  # not read unless the generation becomes large
        return lambda: self._is_large(generation) and generation.registry.published < (boundary() or 0)

    def _retire(self) -> None:
        """End the current generation as soon as its last snapshot ends."""
        generation, self._current = self._current, None
        if generation is not None:
            self._old.append(generation)
        self._drop_unused()

    def _drop_unused(self) -> None:
        here = threading.get_ident()
        claimed = [each for thread, (each, _) in list(self._claims.items()) if thread != here]
        for each in [each for each in self._old if not each.registry.live and each not in claimed]:
            self._old.remove(each)
            each.end("this reader was superseded by a later one; retry")

    def _renew(self) -> None:
        """Renew the pins of the generations that are in use, and end the other generations."""
        with self._lock:
            self._round += 1
            for thread, (_, begun) in list(self._claims.items()):
                if begun < self._round - 1:
                    self._claims.pop(thread, None)
            current = self._current
            for each in [*self._old, *filter(None, [current])]:
                each.registry.reap()
            if current is not None and not current.used and not current.registry.live:
                self._retire()
            elif current is not None:
                current.used = False
            self._drop_unused()
            in_use = [*self._old, *filter(None, [self._current])]
        for each in in_use:
            try:
                each.renew()  # without the lock: it may have to wait for a checkpoint
            except SnapshotExpired:  # this process was stopped for too long; reads raise SnapshotExpired
                with self._lock:
                    if each is self._current:
                        self._current = None
                    elif each in self._old:
                        self._old.remove(each)

    def newest(self, full_key: bytes) -> bytes | None:
        """The newest value of a key, from the base and the log above it, without reading the log into memory."""

        def look(txn: Txn) -> tuple[int, bytes | None]:
            return self._base.boundary_in(txn) or 0, txn.get(full_key, db=self._base.rows)

        for _ in range(_ATTEMPTS):
            boundary, row = self._base.read(look)
            value = None if row is None or is_tombstone(row) else row_value(row)
            try:
                for commit in self.feed.writes_of(full_key, boundary, max(boundary, self._page.published)):
                    value = commit.writes[full_key]
                return value
            except ChangesLost:
                continue  # the base has advanced meanwhile
        raise Error(f"the log of {self._path} is released faster than it can be read; set feed_bytes higher")

    def keyspace(self, name: str, keep: object = None) -> Keyspace:
        """A keyspace where each call reads the newest state."""
        self._catalog.prefix_of(name)  # raises if the name is not valid
        newest = Newest(self, name, keep)
        return Keyspace(name, NOWHERE, newest.read, newest)

    # What the store offers

    def checkpoint(self) -> None:
        """Have the owner make a checkpoint; without an owner, recover the store, which makes one."""
        self.check_open()
        refresh(self._path, self._options, checkpoint=True)

    def collect(self) -> int:
        with self._owner() as owner:
            return int(owner.ask("collect"))

    @contextlib.contextmanager
    def _owner(self) -> Iterator[Owner]:
        self.check_open()
        owner = reach_owner(self._path)
        if owner is None:
            raise UsageError("no process owns the store, and this one opened it read-only; open it for writing")
        with owner:
            yield owner

    @property
    def running(self) -> Running:
        raise UsageError("the store was opened read-only; only the process that owns it can do this")

    def stats(self) -> Stats:
        """The statistics of this process: its own snapshots and memory, and the store's files."""
        generation = self._current
        with self._lock:
            generations = [*self._old, *filter(None, [generation])]
        entries = [entry for each in generations for entry in each.registry.entries()]
        layer = generation.versions.active if generation is not None else None
        now, time = self._options.clock.monotonic(), self._options.clock.time()
        pins = self._leases.all()
        last = self._page.published
        return Stats(
            last_commit=last,
            low_water_mark=min([entry.ts for entry in entries] + [row.ts for _, row in pins], default=last),
            boundary=self._base.read_boundary() or 0,
            versions=layer.versions if layer is not None else 0,
            chains=len(layer.chains) if layer is not None else 0,
            version_bytes=layer.bytes if layer is not None else 0,
            history=self._base.count_history(),
            log_bytes=sum(path.stat().st_size for path in segment_paths(self._path / "log")),
            snapshots=[SnapshotStats.of(entry, now) for entry in entries],
            pins=[PinStats.of(name, row, time) for name, row in pins],
            collected=0,
            checkpoints=0,
            checkpoint_failures=0,
            last_checkpoint_failure=None,
            collect_failures=0,
            failure=None,
            commits=0,
            conflicts=0,
            expired=0,
            last_checkpoint_seconds=None,
            processes=[ProcessStats.of(each) for each in members_of(self._path)],
        )

    def check_open(self) -> None:
        if self.closed:
            raise UsageError(self.closed)

    def close(self) -> None:
        """Release everything. Open snapshots end. Calling it again has no effect."""
        if self._given_back:
            return
        self.closed = "the store is closed"
        with contextlib.ExitStack() as stack:
            for step in (
                self._give_back,
                self._page.close,
                lambda: tell_of_pins(self._path),
                self._end_generations,
                self._renewer.close,
                self._waiters.close,
            ):
                stack.callback(step)

    def _give_back(self) -> None:
        """Return the base: the last step of closing, which must not be repeated, since others in this process may use
        it."""
        self._given_back = True
        give_back(self._base)
        _followers.discard(self)

    def _end_generations(self) -> None:
        with self._lock:
            for each in (*self._old, *filter(None, [self._current])):
                with contextlib.suppress(Error):  # a pin that cannot be removed expires
                    each.end(self.closed)
            self._current, self._old = None, []

    def abandon(self) -> None:
        """Let go of everything in a forked child: it belongs to the parent."""
        self._given_back = True
        self.closed = "this was opened before a fork, and belongs to the parent: open it again here"
        for each in (*self._old, *filter(None, [self._current])):
            each.engine.closed = self.closed
            each.versions.close(self.closed)
        self._current = None


_followers: weakref.WeakSet[Follower] = weakref.WeakSet()


def _abandon_after_fork() -> None:
    for follower in list(_followers):
        follower.abandon()


os.register_at_fork(after_in_child=_abandon_after_fork)
