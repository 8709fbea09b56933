"""A joined store: a follower whose transactions may commit, opened by ``lowtide.open`` while another process owns it.

It reads like a follower, without asking the owner. A commit is one message to the owner. Every read and transaction
that begins after the answer sees that commit, in every process: the owner writes it to the shared page before it
answers, and each read, or begin of a transaction, checks that page once.

The lease of a generation, its pin, keeps what the owner's validation needs about keys that were deleted since: see
``engine.base.pin_table``. It lasts for as long as a transaction of the generation is open, or a commit of it is
unanswered.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lowtide.engine.log.cursor import Released
from lowtide.engine.recovery.members import Members
from lowtide.engine.recovery.opening import LOCK, MANIFEST, read_manifest
from lowtide.engine.recovery.ownership import holder_of
from lowtide.engine.recovery.replay import Followed
from lowtide.engine.transaction.catalog import NOWHERE, Catalog
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.keyspace import Keyspace
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.versions.visibility import Reader
from lowtide.errors import ConflictError, SnapshotExpired, UsageError
from lowtide.observe.stats import SnapshotStats, Stats
from lowtide.options import Options
from lowtide.sharing.channel import Channel, LocalOwner
from lowtide.sharing.follower import Follower
from lowtide.sharing.generation import LEASE, Generation
from lowtide.sharing.newest import Newest, NewestEngine
from lowtide.sharing.page import TS, Page
from lowtide.sharing.remote_commits import CommitSession, RemoteCommits
from lowtide.sharing.remote_line import RemoteLine

logger = logging.getLogger("lowtide")

_Report = TypeVar("_Report")


class Joined(Follower):
    """The object behind a store that another process owns. ``seek`` finds the next owner, see ``channel``; ``access``
    has the engine of now, after this process has taken the store over as well."""

    def __init__(
        self,
        path: Path,
        options: Options,
        *,
        members: Members,
        seek: Callable[[], LocalOwner | None],
        access: NewestEngine,
        explained: Callable[[ConflictError, Any], ConflictError],
        open_keyspace: Callable[[Newest, str, bytes, Callable[[bytes], bytes | None] | None], Keyspace],
    ) -> None:
        self._channel = Channel(path, seek)
        self._members = members
        self._access = access
        self._explained = explained
        self._open_keyspace = open_keyspace
        self._line = RemoteLine(options.clock, members, self._channel.ask)
        self._waited: set[int] = set()
        self._told = False
        """What waited for an answer at the last renewal, and whether that was logged; written by the renewing
        thread."""
        self._session = CommitSession(
            self._channel,
            members,
            catalog=lambda: self._catalog,
            published=lambda: self._page.published,
        )
        super().__init__(path, options)

    def _find_store(self) -> bytes:
        return read_manifest(self._path / MANIFEST)[0]

    def _make_catalog(self) -> Catalog:
        def assign(name: str) -> bytes:
            catalog = self.engine.catalog  # up to date: the log may have the name, and a read does not ask the owner
            return catalog.prefixes.get(name) or bytes(self._channel.ask("keyspace", name=name))

        return Catalog(self._base.saved_keyspaces(), fixed=True, assign=assign)

    def _make_generation(self, joined: object = None) -> Generation:
        return super()._make_generation(_Joining(self))

    def make_engine(self, generation: Generation, registry: Registry, reader: Reader) -> Engine:
        """The engine of the transactions that begin in a generation."""
        options = self._options
        return Engine(
            now=options.clock.monotonic,
            time=options.clock.time,
            catalog=self._catalog,
            registry=registry,
            reader=reader,
            committer=RemoteCommits(self._session, registry, lambda: generation.lease),
            durable=options.durability == "full",
            sync=lambda: self.ask("sync"),
            released=_nothing,
            read_only=False,
            before_images=options.before_images,
            origins=options.snapshot_origins,
            line=self._line,
            explained=self._explained,
            anchor=lambda: registry.register((False, options.clock.monotonic(), None)),
        )

    def follow(self, generation: Generation) -> None:
        """Read newly published commits into a generation."""
        target = self._page.published
        if generation.registry.published >= target:
            return
        try:
            with self._lock:
                generation.catch_up(max(target, generation.registry.published))
        except Released as error:
            raise SnapshotExpired(f"{error}; retry") from error

    def keyspace(self, name: str, keep: object = None) -> Keyspace:
        """A keyspace where each call reads the newest state, or is a commit."""
        prefix = self._catalog.prefix_of(name)  # raises if the name is not valid
        newest = Newest(self._access, name, keep)
        if prefix in self._catalog.unlogged:  # it may still get another number
            return self._open_keyspace(newest, name, NOWHERE, None)
        return self._open_keyspace(newest, name, prefix, self._latest_of(newest.read))

    def _latest_of(self, otherwise: Callable[[bytes], bytes | None]) -> Callable[[bytes], bytes | None]:
        """Reads the newest value of a full key: with one check of the shared page if the current generation is up to
        date, and by ``otherwise`` if it is not, or has ended. No claim is needed: the chains of a generation that ends
        meanwhile raise UsageError, and reads of its base SnapshotExpired."""
        page = self._page

        def latest(full_key: bytes) -> bytes | None:
            generation = self._current
            if generation is not None and generation.registry.published >= page.words[TS]:
                generation.used = True
                try:
                    return generation.latest(full_key)
                except (UsageError, SnapshotExpired):
                    pass
            return otherwise(full_key)

        return latest

    # What the owner does for it

    def ask(self, operation: str, *, timeout: float | None = None, **arguments: Any) -> Any:
        """Have the owner do something that can be repeated, even if that is this process by now."""
        self.check_open()
        return self._channel.ask(operation, timeout=timeout, **arguments)

    def checkpoint(self) -> None:
        self.ask("checkpoint")

    def collect(self) -> int:
        return int(self.ask("collect"))

    def report(self, operation: str, kind: type[_Report], **arguments: Any) -> _Report:
        """The report of something that the owner does."""
        return msgspec.convert(self.ask(operation, **arguments)["data"], kind, dec_hook=_path)

    def stats(self) -> Stats:
        """The statistics of the store, from its owner, and the snapshots of this process."""
        found = msgspec.convert(self.ask("stats"), Stats)
        now = self._options.clock.monotonic()
        with self._lock:
            generations = [*self._old, *filter(None, [self._current])]
        entries = [entry for each in generations for entry in each.registry.entries()]
        found.snapshots.extend(SnapshotStats.of(entry, now) for entry in entries)
        return found

    @property
    def page(self) -> Page:
        """The shared page."""
        return self._page

    def _renew(self) -> None:
        super()._renew()
        waiting = self._members.waiting
        stuck, self._waited = bool(waiting & self._waited), waiting
        if stuck and not self._told:
            logger.warning(
                "%s: a commit waits for the owner of the store, %s, for %.0f seconds or longer: it is stopped or "
                "hangs. Resume it, or end it, and another process takes the store over; the commit is made once",
                self._path,
                holder_of(self._path / LOCK),
                LEASE / 3,
            )
        self._told = stuck

    def followed(self) -> Followed | None:
        """What this process has read of the log, for when it takes the store over."""
        with self._lock:
            generation = self._current
            return generation.followed() if generation is not None else None

    def retire(self) -> None:
        """Begin nothing here any more: this process owns the store now. Open transactions continue."""
        with self._lock:
            self._retire()

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._channel.close, "the store is closed")
            super().close()

    def abandon(self) -> None:
        super().abandon()
        self._channel.abandon(self.closed)


class _Joining:
    """What a generation needs of the joined store that it belongs to."""

    def __init__(self, joined: Joined) -> None:
        self.page = joined.page
        self.engine = joined.make_engine
        self.follow = joined.follow


def _path(kind: type[Any], value: Any) -> Any:
    """A path in a report, which was sent as text."""
    return kind(value)


def _nothing(ts: int) -> None:
    """Called when a snapshot ends here. Nothing is collected: only the lease keeps versions."""
