"""One generation of a follower: the base at its own pin and, in memory, the commits since then.

The pin is taken at the boundary, so the log has everything above it. ``catch_up`` reads the growing log into chains,
exactly as the owner did when it committed. The same code then reads chains first and the base second.

Who writes: ``catch_up`` writes chains and ``published``, under the follower's lock; it may be interrupted anywhere, and
the next call then reads the rest again. ``renew`` writes ``_row``, in the renewing thread. Readers take no lock;
``versions.layers`` says what they may see. The base below does not change, since the pin keeps it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import Leases
from lowtide.engine.base.pinned import PinnedBase
from lowtide.engine.checkpoint.apply import Changes
from lowtide.engine.garbage.horizon import make_horizon
from lowtide.engine.garbage.prune import prune
from lowtide.engine.log.cursor import LogCursor
from lowtide.engine.log.frame import Commit
from lowtide.engine.recovery.replay import Followed
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.engine import Engine, NoCommits
from lowtide.engine.transaction.registration import Details, Registration
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.types import Names
from lowtide.engine.versions.layers import VersionStore
from lowtide.engine.versions.visibility import Reader
from lowtide.options import Options
from lowtide.sharing.page import TS, Page
from lowtide.system.identity import identify

LEASE = 30.0
"""Seconds after which a follower's pin expires if it is not renewed."""


_TOGETHER: Final = 16
"""Up to so many commits are published together. More are not: one that stops in between must not have read too many."""


class Generation:
    """The state of a store from one pin on. ``joined`` is set if the transactions that begin here may commit; it makes
    their engine."""

    def __init__(
        self,
        log: Path,
        store_id: bytes,
        base: Base,
        leases: Leases,
        catalog: Catalog,
        options: Options,
        joined: Joining | None = None,
    ) -> None:
        self._log = log
        self._store_id = store_id
        self._leases = leases
        self._catalog = catalog
        self._time = options.clock.time
        kind, where = ("reader", "opened read-only") if joined is None else ("joined", "joined")
        self.name = f"{kind} {os.getpid()}-{os.urandom(4).hex()}"
        process = None if joined is None else identify(os.getpid())
        self._row = leases.take(self.name, LEASE, where=where, process=process, writer=joined is not None)
        self.ts = self._row.ts
        self.versions = VersionStore(self.ts)
        self._names: Names = {}
        self.used = True
        """Whether it was used since the last renewal."""
        self._pinned = PinnedBase(base, self.name, self._row, None)
        self._cursor = LogCursor(log, store_id, self.ts)
        self._bytes_before = 0
        """Bytes that earlier cursors have read."""
        self._ahead = False
        """Whether the cursor may have read commits that are not published here."""
        self.registry: Registry
        if joined is None:
            self.registry = Registry(self.ts)
            reader = Reader(self.versions, self._pinned, self.registry, options.cache_rows)
            self.engine = read_only_engine(options, catalog, self.registry, reader)
        else:
            self.registry = FollowingRegistry(self.ts, joined.page, lambda: joined.follow(self))
            reader = FollowingReader(self.versions, self._pinned, self.registry, options.cache_rows)
            self.engine = joined.engine(self, self.registry, reader)
        self.latest: Callable[[bytes], bytes | None] = partial(Reader.get_latest, reader)
        """The newest value of a key in this generation, without reading commits published since."""

    @property
    def lease(self) -> tuple[str, bytes]:
        """The name and the id of its pin."""
        return self.name, self._row.id

    def catch_up(self, upto: int, stop: Callable[[], bool] = bool) -> bool:
        """Read the log up to commit ``upto``. Returns False if ``stop`` ended it early. Raises Released if the log no
        longer has all commits."""
        versions, registry = self.versions, self.registry
        repeated = self._ahead
        if repeated:
            self._rewind()
        self._ahead = True
        for commits in self._cursor.read_many(upto):
            if 1 < len(commits) <= _TOGETHER:
                self._publish(commits)
                if stop():
                    return False
                continue
            for commit in commits:
                if commit.names is not None:
                    self._names.update(commit.names)
                    self._catalog.learn(commit.names.items())
                grown = versions.publish(commit.ts, commit.writes)
                registry.published = commit.ts
                if grown and registry.live:
                    horizon = make_horizon("exact", registry.timestamps(), registry.published)
                    versions.prune(grown, partial(prune, horizon=horizon))
                elif grown:
                    versions.keep_newest(grown)
                if stop():
                    return False
        if repeated:
            versions.active.recount()
        self._ahead = False
        return True

    def _publish(self, commits: list[Commit]) -> None:
        """Publish a few commits together, as the owner does with a group: no snapshot is between them."""
        versions, registry = self.versions, self.registry
        grown: list[bytes] = []
        for commit in commits:
            if commit.names is not None:
                self._names.update(commit.names)
                self._catalog.learn(commit.names.items())
            grown += versions.publish(commit.ts, commit.writes)
        registry.published = commits[-1].ts
        if grown and registry.live:
            horizon = make_horizon("exact", registry.timestamps(), registry.published)
            versions.prune(grown, partial(prune, horizon=horizon))
        elif grown:
            versions.keep_newest(grown)

    def _rewind(self) -> None:
        """Read again what was read but not published here, because the last call was interrupted or ended early."""
        cursor, self._cursor = self._cursor, LogCursor(self._log, self._store_id, self.registry.published)
        self._bytes_before += cursor.bytes
        cursor.close()

    def followed(self) -> Followed:
        """What was read of the log. The caller holds the lock under which it is read."""
        changes = Changes(self.versions.active.chains.copy(), self._names.copy())
        return Followed(self.ts, self.registry.published, changes)

    @property
    def lost(self) -> bool:
        """Whether the pin is gone or has expired, so nothing new may begin here. It is renewed long before, unless the
        process was stopped or the machine slept, and the renewing thread may be the last to notice."""
        return self._pinned.lost or self._row.expires <= self._time()

    @property
    def bytes(self) -> int:
        """Bytes of log that were read into memory."""
        return self._bytes_before + self._cursor.bytes

    def renew(self) -> None:
        self._row = self._leases.renew(self.name, self._row.id)

    def end(self, reason: str) -> None:
        """Release the pin and everything in memory."""
        self.engine.closed = reason
        self.versions.close(reason)
        self._cursor.close()
        self._leases.remove(self.name, self._row.id)


class Joining(Protocol):
    """A joined store, whose generations these are, and its shared page."""

    page: Page

    def engine(self, generation: Generation, registry: Registry, reader: Reader) -> Engine:
        """The engine of the transactions that begin in a generation."""

    def follow(self, generation: Generation) -> None:
        """Read newly published commits into a generation, for a transaction that begins or reads the latest state."""


class FollowingRegistry(Registry):
    """The registry of a generation in which transactions begin: each sees everything that was published."""

    def __init__(self, published: int, page: Page, follow: Callable[[], None]) -> None:
        super().__init__(published)
        self.page = page
        self.follow = follow

    def register(self, details: Details, tracks_reads: bool = False) -> Registration:
        if self.published < self.page.words[TS]:
            self.follow()
        return super().register(details, tracks_reads)


class FollowingReader(Reader):
    """Reads the latest published state, not only the commits already in memory."""

    __slots__ = ("_following",)

    def __init__(self, versions: VersionStore, base: PinnedBase, registry: FollowingRegistry, cache_rows: int) -> None:
        super().__init__(versions, base, registry, cache_rows)
        self._following = registry

    def get_latest(self, full_key: bytes) -> bytes | None:
        registry = self._following
        if registry.published < registry.page.words[TS]:
            registry.follow()
        return Reader.get_latest(self, full_key)


def read_only_engine(options: Options, catalog: Catalog, registry: Registry, reader: Reader) -> Engine:
    """The engine of snapshots and transactions that can only read."""
    return Engine(
        now=options.clock.monotonic,
        time=options.clock.time,
        catalog=catalog,
        registry=registry,
        reader=reader,
        committer=NoCommits(),
        durable=False,
        sync=_nothing,
        released=_nothing,
        read_only=True,
        before_images=False,
        origins=options.snapshot_origins,
    )


def _nothing(*_: object) -> None:
    """Called when a snapshot ends here. Nothing is collected: only the pin keeps versions."""
