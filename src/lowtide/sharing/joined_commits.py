"""The owner's side of joined processes: their commits, in the same queue as its own, and the numbers of keyspaces.

A commit reaches the same queue in one of two ways. ``taken`` and ``answer_to`` are for the inbox, which brings many at
a time. ``commit`` waits for one. It is for slower cases: a commit that was sent again, or that names new keyspaces.

A commit that was sent again may already have been committed: by this owner, which ended the connection or could not
answer, or by the previous owner, which was killed. Its identity in the log tells. No commit may be in the queue while
the log is searched for it. So each identity is handled by one thread at a time, see ``_underway``; and one that an
interrupted thread has left behind, see ``_taken``, is decided first.

Who writes: any thread of the service, the thread that empties the inbox, and, if this process has joined the store
before it owned it, the threads that commit what they had begun then. ``_underway`` is changed under ``_lock``.
``_taken`` is changed by the thread that empties the inbox, one operation at a time, and an entry is there before its
request is in the queue; a process sends a commit again only after its connection has ended, so after that.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lowtide.engine.base.leases import Leases
from lowtide.engine.log.cursor import LogCursor, Released
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.commit import Committer
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.transaction.request import Request
from lowtide.engine.types import KEYSPACE_PREFIX
from lowtide.errors import ConflictError, Error, SnapshotExpired, TransientError, UsageError
from lowtide.sharing.answer import Answer, refusal
from lowtide.sharing.commit_message import CommitMessage, Guarded, Lease, decode_message, request_of


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that is done: its timestamp, and the keys at which it gave way."""

    ts: int
    left_out: list[bytes]


class JoinedCommits:
    """Commits what joined processes send."""

    def __init__(
        self,
        *,
        log: Path,
        store_id: bytes,
        committer: Committer,
        catalog: Catalog,
        registry: Registry,
        leases: Leases,
        keep_before: bool,
        check_open: Callable[[], None],
    ) -> None:
        self._log = log
        self._store_id = store_id
        self._committer = committer
        self._catalog = catalog
        self._registry = registry
        self._leases = leases
        self._keep_before = keep_before
        self._check_open = check_open
        self._lock = threading.Condition()
        self._underway: set[bytes] = set()
        self._taken: dict[bytes, Request] = {}
        self.commits = 0
        self.conflicts = 0
        """How many of the owner's commits and conflicts are those of other processes; hints that may lose an update."""

    def answer(self, message: msgspec.Raw) -> Any:
        """Commit an encoded message."""
        done = self.commit(decode_message(message))
        return done.ts, done.left_out

    def taken(self, encoded: msgspec.Raw) -> Request | None:
        """The request of an encoded message, to be put into the queue now; ``answer_to`` has its answer when it is
        done. None if the message is one for ``answer``. Raises what the commit raises before it is queued."""
        message = decode_message(encoded)
        if message.unanswered is not None:
            return None
        request = request_of(message, keep_before=self._keep_before)
        if request.names is not None:
            return None
        self._check(message, request)
        self._taken[message.identity] = request
        return request

    def answer_to(self, request: Request) -> Answer:
        """The answer to a request that was ``taken`` and is done."""
        assert request.identity is not None
        self._taken.pop(request.identity, None)
        if request.error is None:
            self.commits += 1
            return Answer((request.ts, _left_out(request)))
        self.conflicts += isinstance(request.error, ConflictError)
        assert isinstance(request.error, Exception)
        return refusal(request.error)

    def commit(self, message: CommitMessage) -> Committed:
        """Commit a message, unless that was done before, and return its timestamp when it is as durable as requested.
        Raises the same errors as the commit of a transaction."""
        request = request_of(message, keep_before=self._keep_before)
        self._check(message, request)
        with self._one_at_a_time(message.identity):
            if (left := self._taken.pop(message.identity, None)) is not None:
                self._committer.settle(left)
            if message.unanswered is not None and (found := self._found(message, message.unanswered)) is not None:
                return found
            try:
                ts = self._committer.submit(request)
            except ConflictError:
                self.conflicts += 1
                raise
            self.commits += 1
        return Committed(ts, _left_out(request))

    def _check(self, message: CommitMessage, request: Request) -> None:
        """Check what the owner knows better than the sender, and set the request's lease."""
        if message.seen > self._registry.published:
            raise UsageError(f"commit {message.seen} does not exist yet; the last one is {self._registry.published}")
        if request.names is not None:
            self._catalog.adopt(request.names)
        if not self._catalog.has({key[:KEYSPACE_PREFIX] for key in request.writes}):
            raise TransientError("a keyspace was created by another transaction meanwhile; nothing was written; retry")
        oldest = message.seen if message.guards is None else _oldest(message.seen, message.guards)
        request.lease = lambda: self._gone(message.lease, oldest)

    @contextlib.contextmanager
    def _one_at_a_time(self, identity: bytes) -> Iterator[None]:
        with self._lock:
            while identity in self._underway:
                self._lock.wait()
            self._underway.add(identity)
        try:
            yield
        finally:
            with self._lock:
                self._underway.discard(identity)
                self._lock.notify_all()

    def _gone(self, lease: Lease, oldest: int) -> TransientError | None:
        """Why the traces of deletions after commit ``oldest`` may be gone, on which the validation of a commit relies.
        Called after validation: if the lease exists then, it existed all the time."""
        leased = self._leases.leased_from(lease.name, lease.id)
        if leased is not None and leased <= oldest:
            return None
        return SnapshotExpired(
            "the process of this transaction was stopped for so long that its lease has expired; nothing was written; "
            "retry"
        )

    def _found(self, message: CommitMessage, since: int) -> Committed | None:
        """The commit of a message, if the log has it after commit ``since``."""
        cursor = LogCursor(self._log, self._store_id, since)
        try:
            for commit in cursor.read(self._registry.published):
                if commit.identity == message.identity:
                    yields = message.guards.yields if message.guards is not None else None
                    left_out = [] if yields is None else [key for key in yields[0] if key not in commit.writes]
                    return Committed(commit.ts, left_out)
        except Released as error:
            raise Error(
                f"it is unknown whether this transaction was committed, because the log no longer has it: {error}; "
                "read what it wrote before you retry it"
            ) from error
        finally:
            cursor.close()
        return None

    def keyspace(self, name: str) -> bytes:
        """The prefix of a keyspace, which a joined process wants to use."""
        self._check_open()
        if not isinstance(name, str):
            raise UsageError(f"the name of a keyspace must be a non-empty string, not {name!r}")
        return self._catalog.assign(name)


def _left_out(request: Request) -> list[bytes]:
    """The keys at which a commit gave way."""
    yielding = request.guards.yielding if request.guards is not None else None
    return yielding.left_out if yielding is not None else []


def _oldest(seen: int, guards: Guarded) -> int:
    """The oldest instant at which something was read that the commit relies on."""
    return min(seen, *guards.keys.values(), *(each for _, _, each in guards.ranges), seen)
