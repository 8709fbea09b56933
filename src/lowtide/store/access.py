"""How this process has a store open: as its owner, joined to the owner, or read-only; and how that changes.

The first process that opens a store owns it, by the lock of the directory. The others join it. When the owner ends, or
is killed, one of them takes the store over, by the same lock and the ordinary recovery. Open transactions continue, and
commit through the new owner. A forked child joins when it first uses the store that its parent opened.

Who writes: ``backend`` under ``_lock``, by the thread that takes the store over, or that first uses it after a fork. A
reader of ``backend`` sees the old one or the new one. The old one stays open: transactions that were begun there still
read from it, and their commits reach the new one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from lowtide.engine.recovery.members import Members
from lowtide.engine.recovery.opening import MANIFEST
from lowtide.engine.transaction.engine import Engine
from lowtide.errors import StoreLocked, UsageError
from lowtide.options import Options
from lowtide.sharing.follower import Follower
from lowtide.sharing.joined import Joined
from lowtide.sharing.newest import Newest
from lowtide.sharing.owner import reach_owner
from lowtide.sharing.watching import OwnerWatch
from lowtide.store.kinds import explained, open_keyspace
from lowtide.store.owned import OwnedStore
from lowtide.system.clock import SYSTEM_CLOCK

logger = logging.getLogger("lowtide")

Backend: TypeAlias = OwnedStore | Joined | Follower

PATIENCE: Final = 10.0
"""Seconds to wait, when a store is opened, for an owner that holds the lock and does not listen: it is opening or
closing the store, or cannot create a socket."""

_PAUSE: Final = 0.005
"""Seconds between two attempts."""


class StoreAccess:
    """One opening of a store in this process. ``backend`` is what is behind the store now."""

    def __init__(self, path: Path, options: Options, patience: float = PATIENCE) -> None:
        self._path = path
        self._options = options
        self._patience = patience
        self._alone = options.exclusive or options.record is not None
        self._lock = threading.RLock()
        self._closed = ""
        self._members: Members | None = None
        self._joined: Joined | None = None
        self._watch: OwnerWatch | None = None
        self.backend: Backend = self._open()
        _accesses.add(self)

    @property
    def engine(self) -> Engine:
        """The engine of now."""
        return self.backend.engine

    def check_open(self) -> None:
        """Raise UsageError if the store is closed."""
        self.backend.check_open()

    def _open(self) -> Backend:
        if self._options.read_only:
            return Follower(self._path, self._options)
        self._members = Members(self._path, exclusive=self._alone)
        try:
            return self._own_or_join(self._members)
        except BaseException:
            self._members.close()
            raise

    def _own_or_join(self, members: Members) -> Backend:
        """Own the store or, if another process does, join it."""
        deadline = SYSTEM_CLOCK.monotonic() + self._patience
        while True:
            try:
                owned = OwnedStore(self._path, self._options, members)
                owned.again = self._keyspace
                return owned
            except StoreLocked:
                if self._alone or SYSTEM_CLOCK.monotonic() > deadline:
                    raise
            owner = reach_owner(self._path)
            if owner is not None and (self._path / MANIFEST).exists():
                owner.close()
                return self._join(members)
            SYSTEM_CLOCK.sleep(_PAUSE)

    def _keyspace(self, name: str) -> Newest:
        """A keyspace that was opened before a fork, in the store as this process has it open."""
        return Newest(self, name)

    def _join(self, members: Members) -> Joined:
        joined = Joined(
            self._path,
            self._options,
            members=members,
            seek=self._seek,
            access=self,
            explained=explained,
            open_keyspace=open_keyspace,
        )
        self._joined = joined
        self._watch = OwnerWatch(self._path, weakref.WeakMethod(self._seek))
        self._watch.start()
        return joined

    def _seek(self) -> OwnedStore | None:
        """Find an owner: another process that listens or, if there is none, this one, which then takes the store over
        and returns it. One thread at a time."""
        with self._lock:
            if self._closed:
                raise UsageError(self._closed)
            if isinstance(self.backend, OwnedStore):
                return self.backend
            owner = reach_owner(self._path)
            if owner is not None:
                owner.close()
                return None
            assert self._members is not None
            assert self._joined is not None
            try:
                owned = OwnedStore(
                    self._path, self._options, self._members, taking_over=True, followed=self._joined.followed
                )
            except StoreLocked:
                SYSTEM_CLOCK.sleep(_PAUSE)  # another process is taking it over, or closing it
                return None
            owned.again = self._keyspace
            self.backend = owned
            logger.info("%s: this process owns the store now", self._path)
            self._joined.retire()
            return owned

    def close(self) -> None:
        """Close everything. An owner hands the store over. A second call does nothing."""
        with self._lock:
            self._closed = "the store is closed"
            backend = self.backend
        with contextlib.ExitStack() as stack:
            if self._members is not None:
                stack.callback(self._members.close)
            stack.callback(backend.close)
            if self._joined is not None:
                stack.callback(self._joined.close)
            if self._watch is not None:
                stack.callback(self._watch.close)

    # Fork

    def after_fork(self) -> None:
        """In a forked child: join on the next use, unless this store is open for one process only."""
        self._lock = threading.RLock()
        if self._members is not None:
            self._members.abandon()
        self._members = self._joined = self._watch = None
        if not self._alone and not self._options.read_only and not self._closed:
            self.backend = cast(Backend, _Forked(self))

    def open_again(self) -> Backend:
        """Open the store in this process, for a store that was opened before a fork."""
        with self._lock:
            if self._closed:
                raise UsageError(self._closed)
            if isinstance(self.backend, _Forked):
                self.backend = self._open()
            return self.backend


class _Forked:
    """Stands for the backend in a forked child until the store is used there."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def __getattr__(self, name: str) -> Any:
        return getattr(self._access.open_again(), name)

    @property
    def closed(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing is open here."""


_accesses: weakref.WeakSet[StoreAccess] = weakref.WeakSet()


def _after_fork() -> None:
    for access in list(_accesses):
        access.after_fork()


os.register_at_fork(after_in_child=_after_fork)
