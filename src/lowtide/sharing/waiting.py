"""Waiting in a follower for the owner's next commit. It sends the owner a request, which is answered at the commit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from lowtide.errors import Error
from lowtide.sharing.owner import Owner, reach_owner
from lowtide.sharing.page import Page
from lowtide.system.clock import SYSTEM_CLOCK

_SLICE = 5.0
"""Seconds that one request waits in the owner at most, so that a hanging owner is noticed."""

_NO_OWNER = 0.05
"""Seconds between two attempts to reach an owner while there is none; nothing is committed meanwhile."""


class RemoteWaiters:
    """The same as ``feed.waiters.Waiters``, through the owner. Each waiting thread has a connection of its own."""

    def __init__(self, path: Path, page: Page) -> None:
        self._path = path
        self._page = page
        self._lock = threading.Lock()
        self._waiting: set[Owner] = set()
        self._closed = threading.Event()
        self._own = threading.local()

    def wait(self, after: int, timeout: float | None = None, stopped: Callable[[], bool] = bool) -> int:
        """Wait until there is a commit later than ``after``, see ``Waiters.wait``."""
        deadline = None if timeout is None else SYSTEM_CLOCK.monotonic() + timeout
        while (published := self._page.published) <= after and not stopped() and not self._closed.is_set():
            remaining = _SLICE if deadline is None else min(_SLICE, deadline - SYSTEM_CLOCK.monotonic())
            if remaining <= 0:
                break
            owner = self._connection()
            if owner is None:
                self._closed.wait(min(_NO_OWNER, remaining))
                continue
            try:
                with self._listed(owner):
                    if not stopped():
                        owner.ask("wait", after=after, seconds=remaining, timeout=remaining + _SLICE)
            except Error:
                owner.close()
                self._own.owner = None
        return published

    def _connection(self) -> Owner | None:
        """This thread's connection to the owner, or a new one."""
        owner: Owner | None = getattr(self._own, "owner", None)
        if owner is None:
            owner = self._own.owner = reach_owner(self._path)
        return owner

    @contextlib.contextmanager
    def _listed(self, owner: Owner) -> Iterator[None]:
        with self._lock:
            self._waiting.add(owner)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.discard(owner)

    def wake(self) -> None:
        """Have every waiting thread check whether it should stop."""
        with self._lock:
            for owner in self._waiting:
                owner.hang_up()

    def close(self) -> None:
        self._closed.set()
        self.wake()
