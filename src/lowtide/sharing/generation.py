"""One generation of a follower: the base as it is at a pin of its own, and above it, in memory, the commits since.

The pin is taken at the boundary, so the log above it is there when it is taken. ``catch_up`` reads it as it grows into
chains, exactly as the owner did when it committed; reads then go chains first, base after, by the very same code.

Who writes: chains and ``published`` by ``catch_up``, ``_row`` by ``renew``, under the follower's lock. Readers take no
lock; what they may see is argued in ``versions.layers``. The base below stands still, since the pin holds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import Leases
from lowtide.engine.base.pinned import PinnedBase
from lowtide.engine.garbage.horizon import make_horizon
from lowtide.engine.garbage.prune import prune
from lowtide.engine.log.cursor import LogCursor
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.engine import Engine, NoCommits
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.versions.layers import VersionStore
from lowtide.engine.versions.visibility import Reader
from lowtide.options import Options

LEASE = 30.0
"""Seconds that a follower's pin lives without being renewed."""


class Generation:
    """The store from one pin on."""

    def __init__(
        self, log: Path, store_id: bytes, base: Base, leases: Leases, catalog: Catalog, options: Options
    ) -> None:
        self._leases = leases
        self._catalog = catalog
        self._time = options.clock.time
        self.name = f"reader {os.getpid()}-{os.urandom(4).hex()}"
        self._row = leases.take(self.name, LEASE, where="opened read-only")
        self.ts = self._row.ts
        self.versions = VersionStore(self.ts)
        self.registry = Registry(self.ts)
        self.used = True
        """Whether it was used since the last renewal."""
        self._pinned = PinnedBase(base, self.name, self._row, None)
        reader = Reader(self.versions, self._pinned, self.registry, options.cache_rows)
        self.engine = read_only_engine(options, catalog, self.registry, reader)
        self._cursor = LogCursor(log, store_id, self.ts)

    def catch_up(self, upto: int, stop: Callable[[], bool] = bool) -> bool:
        """Read the log up to commit ``upto``; false if that is given up after some commit, since ``stop`` says so.
        Raises Released if the log no longer has it all."""
        versions, registry = self.versions, self.registry
        for commit in self._cursor.read(upto):
            if commit.names is not None:
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
        return True

    @property
    def lost(self) -> bool:
        """Whether the pin is gone, or its time is over: it is renewed long before, unless the process stood still or
        the machine slept, and the renewing thread may be the last to notice. Nothing new begins here then."""
        return self._pinned.lost or self._row.expires <= self._time()

    @property
    def bytes(self) -> int:
        """Bytes of log that were read into memory."""
        return self._cursor.bytes

    def renew(self) -> None:
        self._row = self._leases.renew(self.name, self._row.id)

    def end(self, reason: str) -> None:
        """Let go of the pin, and of everything in memory."""
        self.engine.closed = reason
        self.versions.close(reason)
        self._cursor.close()
        self._leases.remove(self.name, self._row.id)


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
    """What happens when a snapshot ends here: its pin alone holds something."""
