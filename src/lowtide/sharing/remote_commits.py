"""Where the transactions of a joined process commit: in the owner, by one message each."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from heapq import heappop, heappush
from typing import Final

from lowtide.engine.log.frame import identified
from lowtide.engine.recovery.members import Members
from lowtide.engine.transaction.callbacks import Callback, Callbacks
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.transaction.request import Request
from lowtide.engine.types import Writes
from lowtide.errors import ConflictError, TransientError, UsageError
from lowtide.sharing.channel import Channel
from lowtide.sharing.commit_message import IDENTITY, Lease, message_of

_COUNTER: Final = 6
"""Bytes of the counter in a commit's identity. The rest is random, for each joined store."""


class OrderedCallbacks:
    """The callbacks of this process's commits, lined up in commit order although answers come in any order.

    Those of commit ``ts`` are lined up once every commit with callbacks that was sent before must be later: it was sent
    when ``ts`` or a later commit was published. Any thread; under ``_lock``.
    """

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._lock = threading.Lock()
        self._sent: dict[int, int] = {}
        self._answered: list[tuple[int, list[Callback]]] = []
        self._tokens = itertools.count()

    def sent(self, since: int) -> int:
        """A commit with callbacks is about to be sent, after commit ``since`` was published. Returns a token."""
        with self._lock:
            token = next(self._tokens)
            self._sent[token] = since
            return token

    def answered(self, token: int, ts: int, callbacks: list[Callback]) -> None:
        """It was committed as ``ts``, or refused: then ``ts`` is 0."""
        with self._lock:
            self._sent.pop(token, None)
            if ts:
                heappush(self._answered, (ts, callbacks))
            before = min(self._sent.values(), default=None)
            while self._answered and (before is None or self._answered[0][0] <= before):
                self._callbacks.line_up(*heappop(self._answered))


class RemoteCommits:
    """Where the transactions of one generation commit, under its ``lease``.

    Until the commit is answered, the generation must not end: its lease keeps what the validation relies on. A snapshot
    that is registered there keeps it: that of the transaction or, if it has none, one for this purpose.
    """

    def __init__(self, session: CommitSession, registry: Registry, lease: Callable[[], tuple[str, bytes]]) -> None:
        self._session = session
        self._registry = registry
        self._lease_of = lease
        self._lease: Lease | None = None
        self.callbacks = session.callbacks

    def submit(self, request: Request) -> int:
        """Commit ``request``, and return its timestamp when it is as durable as it asked for."""
        held = None if request.token else Registry.register(self._registry, (True, 0.0, None))
        lease = self._lease
        if lease is None:
            lease = self._lease = Lease(*self._lease_of())
        try:
            return self._session.commit(request, lease)
        finally:
            if held is not None:
                held.release(_nothing)
            else:
                self._registry.release(request.token)

    def commit_at_once(self, writes: Writes, payload: bytes, seen: int, token: int, durably: bool) -> int:
        """Do nothing: a request is sent to the owner."""
        return 0

    def exclusive(self) -> AbstractContextManager[None]:
        raise UsageError("only the process that owns the store can hold back the commits of all others")

    def commit_alone(self, request: Request) -> None:
        raise UsageError("only the process that owns the store can hold back the commits of all others")


def _nothing(ts: int) -> None:
    """Called when a snapshot ends here. Nothing is collected: only the lease keeps versions."""


class CommitSession:
    """What all generations of a joined store share. Any thread; the counters are hints that may lose an update."""

    def __init__(
        self,
        channel: Channel,
        members: Members,
        catalog: Callable[[], Catalog],
        published: Callable[[], int],
    ) -> None:
        self._channel = channel
        self._members = members
        self._catalog = catalog
        self._published = published
        self._random = os.urandom(IDENTITY - _COUNTER)
        self._counter = itertools.count()
        self.callbacks = Callbacks()
        self._in_order = OrderedCallbacks(self.callbacks)
        self.commits = 0
        self.conflicts = 0

    def commit(self, request: Request, lease: Lease) -> int:
        """Have the owner commit a request."""
        identity = self._random + next(self._counter).to_bytes(_COUNTER)
        request.payload = identified(request.payload, identity)
        message = message_of(request, identity, lease)
        since = self._published()
        called_back = self._in_order.sent(since) if request.callbacks is not None else None
        ts = 0
        token = self._members.begin_waiting(since)
        try:
            done = self._channel.commit(message, since)
            request.ts = ts = done.ts
        except ConflictError as error:
            self.conflicts += 1
            request.error = error
            raise
        except TransientError as error:
            if request.names is not None:
                self._catalog().forget(request.names)
            request.error = error
            raise
        finally:
            self._members.end_waiting(token)
            self.commits += 1 if ts else 0
            self._members.count(commits=self.commits, conflicts=self.conflicts)
            if called_back is not None:
                self._in_order.answered(called_back, ts, request.callbacks or [])
        if request.names is not None:
            self._catalog().logged(request.names)
        if request.guards is not None and request.guards.yielding is not None:
            request.guards.yielding.left_out.extend(done.left_out)
        if self.callbacks.due:
            self.callbacks.run()
        return ts
