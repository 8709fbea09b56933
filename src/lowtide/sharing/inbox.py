"""The owner's inbox: the connections through which joined processes commit, emptied by the first thread that comes by.

A dedicated thread waits for messages, and commits those that have arrived as one group. That is not enough next to an
owner that commits unsynced without pause. The waiting thread needs the GIL when it wakes up, and again after each
system call and each read of LMDB. The committing thread makes no system call, so each time it keeps the GIL for the
whole switch interval of 5 ms: 300 of its own commits. A committing thread therefore polls here itself before it
commits, every ``_LOOK`` seconds, takes the commits that have arrived into its own group, and answers them. That needs
no other thread. Each connection has at most one commit in a group, and so does each thread, so all get the same share.

While the owner's threads poll that often, the waiting thread stays away: each message would wake it for nothing.

If a sync takes long (``_LONG``), a synced group waits a moment for the processes that were in the last groups and have
just been answered; otherwise they would miss every other sync. The wait is at most a fraction (``_SHARE``) of a sync.
If a sync takes no longer than a process needs for its next commit, waiting would gain nothing.

Who writes: everything here belongs to the thread that holds ``_turn``, from ``take`` until ``answer``, except that any
thread of the service adds a connection. A connection is in the inbox (``_connections`` and the epoll set) or belongs to
a thread of the service, never both: that thread adds it as its last act, and gets it back by ``serve``.

A thread that holds the turn may be interrupted anywhere, since it may be the main thread. Connections whose message was
taken are in ``_in_hand`` until they are answered. If that fails, they are closed. Their processes then send the commits
again, and each is committed once: see ``joined_commits``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from typing import Final, Protocol

from lowtide.engine.transaction.commit import Committer
from lowtide.engine.transaction.request import Request
from lowtide.sharing.answer import COMMIT, Answer, decode_ask, encode_answer, refusal
from lowtide.sharing.connection import Connection
from lowtide.sharing.joined_commits import JoinedCommits
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.system.messages import UNDECODABLE
from lowtide.system.threads import join

logger = logging.getLogger("lowtide")

_LOOK: Final = 20e-6
"""Seconds between two looks of the owner's committing threads."""

_REST: Final = 0.005
"""Seconds for which the waiting thread stays away while they look."""

_OFTEN: Final = 20
"""So many looks within one rest are many."""

_LARGE: Final = 1 << 16
"""Bytes of a message from which on it is left to a thread of the service, if it does not arrive at once."""

_PATIENCE: Final = 1.0
"""Seconds for which a thread that holds the turn may keep the inbox from being closed."""

_SHARE, _LONG, _LONGEST = 1 / 4, 0.001, 0.002
"""What part of a synced commit's time is spent on waiting for others to join it; from how many seconds on; and the most
seconds."""


class Host(Protocol):
    """The service, to which a connection returns if it sends anything but a commit."""

    def serve(self, connection: Connection, first: bytes | None = None) -> None:
        """Answer what a connection sends, from the message ``first`` on, in a thread of its own."""

    def end(self, connection: Connection) -> None:
        """Close a connection."""


class Inbox:
    """The connections of one owner that send commits."""

    def __init__(self, commits: JoinedCommits, committer: Committer) -> None:
        self._commits = commits
        self._committer = committer
        self.host: Host
        self._turn = threading.Lock()
        self._connections: dict[int, Connection] = {}
        self._in_hand: dict[Connection, Request | None] = {}
        self._epoll: select.epoll | None = None
        self._bell = -1
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="lowtide-commits", daemon=True)
        self.look_at = 0.0
        """When a committing thread looks next, on the monotonic clock."""
        self._looks = 0
        self._expected = 0
        """How many connections are likely to send a commit that is synced; and what such a group takes, in seconds."""
        self._duration = 0.0
        self._begun = 0.0
        self._synced = False

    def start(self) -> None:
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._bell, select.EPOLLIN)
        self._thread.start()

    def add(self, connection: Connection) -> None:
        """Take over a connection that has sent a commit. Called by the thread to which it belongs, as its last act.
        Raises ValueError if the inbox is closed."""
        if self._closed or self._epoll is None:
            raise ValueError("the inbox is closed")
        self._connections[connection.fileno()] = connection
        self._committer.guests = self
        self._epoll.register(connection.fileno(), select.EPOLLIN)

    # Taking and answering

    def take(
        self, requests: list[Request], *, durably: bool = False, arrived: list[tuple[int, int]] | None = None
    ) -> None:
        """Add the commits that have arrived to ``requests``, which is empty. If there are any, the caller has the turn
        until it calls ``answer``. ``durably``: the caller is about to sync its own commit. ``arrived`` is what epoll
        reported to the caller; another thread may have taken it since."""
        taken: list[bool] = []
        try:
            # One call into C: no interrupt comes between taking the turn and noting that it was taken.
            taken.extend(map(self._turn.acquire, (False,)))
            if taken[0]:
                self._looks += 1
                if self._in_hand:
                    self._drop()  # an interrupted thread could not
                self._begun = SYSTEM_CLOCK.monotonic()
                self._collect(requests, durably, arrived)
                self.look_at = SYSTEM_CLOCK.monotonic() + _LOOK
        except BaseException as error:
            requests.clear()
            if True in taken:
                self._drop()
            if not isinstance(error, Exception):
                raise
            # The caller's own commit does not depend on it.
            logger.exception("commits of other processes could not be taken, and are sent again")
        finally:
            if True in taken and not requests:
                self._turn.release()

    def _collect(self, requests: list[Request], durably: bool, arrived: list[tuple[int, int]] | None) -> None:
        self._receive(requests, 0.0, arrived)
        durably = durably or any(request.durably for request in requests)
        self._synced = durably
        if durably and self._duration > _LONG and len(requests) < self._expected:
            until = self._begun + min(self._duration * _SHARE, _LONGEST)
            while len(requests) < self._expected and (left := until - SYSTEM_CLOCK.monotonic()) > 0:
                self._receive(requests, left)
        if durably:
            self._expected = max(len(requests), self._expected - 1)

    def _receive(self, requests: list[Request], seconds: float, arrived: list[tuple[int, int]] | None = None) -> None:
        """Take what arrives within some seconds. A connection whose message was taken sends no other one before it is
        answered; if it does, that waits."""
        epoll = self._epoll
        if epoll is None:
            return
        for descriptor, _ in epoll.poll(seconds) if arrived is None else arrived:
            connection = self._connections.get(descriptor)
            if connection is None or connection in self._in_hand:
                continue
            self._in_hand[connection] = None
            request = self._received(connection)
            if request is not None:
                self._in_hand[connection] = request
                requests.append(request)
            else:
                self._in_hand.pop(connection, None)

    def _received(self, connection: Connection) -> Request | None:
        """The commit that a connection has sent; None if it sent anything else, which is handled here."""
        try:
            message = connection.receive_now()
            if message is None:
                if connection.size > _LARGE:
                    self._give_back(connection)
                return None
            ask = decode_ask(message)
            if ask.operation == COMMIT:
                try:
                    request = self._commits.taken(ask.arguments)
                except UNDECODABLE:
                    raise
                except Exception as error:
                    self._send(connection, refusal(error))
                    return None
                if request is not None:
                    return request
            self._give_back(connection, message)
        except (EOFError, OSError):
            self._end(connection)
        except (ValueError, *UNDECODABLE) as error:
            logger.warning("a connection was closed, because of a malformed message: %s", error)
            self._end(connection)
        return None

    def answer(self) -> None:
        """Answer the commits that were taken, and release the turn. A connection whose commit is undecided is closed;
        its process sends the commit again."""
        try:
            try:
                for connection, request in list(self._in_hand.items()):
                    if request is not None and request.done:
                        self._send(connection, self._commits.answer_to(request))
                        self._in_hand.pop(connection, None)
            except Exception:
                logger.exception("commits of other processes could not be answered, and are sent again")
            else:
                if self._synced:
                    self._duration += (SYSTEM_CLOCK.monotonic() - self._begun - self._duration) / 4
            finally:
                if self._in_hand:
                    self._drop()
        finally:
            self._turn.release()

    def _send(self, connection: Connection, answer: Answer) -> None:
        try:
            if not connection.send_now(encode_answer(answer)) or connection.has_message:
                self._give_back(connection)
        except (OSError, ValueError):
            self._end(connection)

    def _give_back(self, connection: Connection, first: bytes | None = None) -> None:
        self._remove(connection)
        self.host.serve(connection, first)

    def _end(self, connection: Connection) -> None:
        self._remove(connection)
        self.host.end(connection)

    def _remove(self, connection: Connection) -> None:
        descriptor = connection.fileno()
        self._connections.pop(descriptor, None)
        if self._epoll is not None:
            with contextlib.suppress(OSError, ValueError):
                self._epoll.unregister(descriptor)
        if not self._connections:
            self._committer.guests = None
            if self._connections:  # one was added meanwhile
                self._committer.guests = self

    def _drop(self) -> None:
        """Close the connections in hand."""
        for connection in list(self._in_hand):
            self._end(connection)
            self._in_hand.pop(connection, None)

    # The waiting thread

    def _run(self) -> None:
        epoll = self._epoll
        assert epoll is not None
        while not self._closed:
            arrived = epoll.poll()
            try:
                served = self._closed or self._serve(arrived)
            except Exception:
                logger.exception("commits of other processes failed, and are sent again")
                served = False
            if not served:
                self._rest()

    def _serve(self, arrived: list[tuple[int, int]]) -> bool:
        """Commit what has arrived, as one group. Returns whether that was anything."""
        requests: list[Request] = []
        self.take(requests, arrived=arrived)
        if not requests:
            return False
        try:
            self._committer.submit_all(requests)
        finally:
            self.answer()
        return True

    def _rest(self) -> None:
        """Stay away while the owner's threads look here themselves."""
        while not self._closed:
            looks = self._looks
            SYSTEM_CLOCK.sleep(_REST)
            if self._looks - looks < _OFTEN:
                return

    def close(self) -> None:
        """End the thread and the connections. A second call does nothing."""
        self._closed = True
        self._committer.guests = None
        if self._bell >= 0:
            os.eventfd_write(self._bell, 1)
        join(self._thread)
        if self._bell >= 0 and self._turn.acquire(timeout=_PATIENCE):  # for good: nothing is taken any more
            for each in list(self._connections.values()):
                self._end(each)
            self._close_descriptors()

    def _close_descriptors(self) -> None:
        bell, self._bell = self._bell, -1
        if self._epoll is not None:
            self._epoll.close()
        if bell >= 0:
            os.close(bell)

    def abandon(self) -> None:
        """Close the copies of the descriptors in a forked child."""
        self._closed = True
        self._committer.guests = None
        self._close_descriptors()
