"""The channel from a joined process to the owner of the store, whichever process that is at the moment.

An owner may end, or be killed, at any time. A request is then sent to the next owner, which ``seek`` finds; this
process itself may take the store over. A request must therefore be repeatable. A commit is repeatable because it has an
identity; see ``joined_commits``.

Who writes: any thread takes a connection out of ``_committing`` or ``_asking`` and puts it back, so each is used by one
thread at a time (``deque`` operations are atomic). A connection is used for commits only, or for everything else only:
the owner handles the two differently, see ``inbox``.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from lowtide.errors import UsageError
from lowtide.sharing.answer import Ask, commit_ask, encode_ask
from lowtide.sharing.commit_message import CommitMessage, encode_message
from lowtide.sharing.joined_commits import Committed, JoinedCommits
from lowtide.sharing.owner import Owner, OwnerGone, OwnerSilent, reach_owner
from lowtide.sharing.service import Handler
from lowtide.sharing.spin import Spin
from lowtide.system.clock import SYSTEM_CLOCK

_MOST_IDLE: Final = 64
_LEAST: Final = 0.1
"""Seconds that an owner gets in any case."""


class LocalOwner(Protocol):
    """This process, after it has taken the store over."""

    @property
    def joined(self) -> JoinedCommits:
        """What commits messages of joined processes."""

    def handler(self, operation: str) -> Handler:
        """What answers an operation."""


class Channel:
    """Sends requests to the owner of one store. ``seek`` is called when no owner can be reached. It returns when that
    may have changed, with this process if it owns the store now; or raises, if the store cannot be recovered."""

    def __init__(self, path: Path, seek: Callable[[], LocalOwner | None]) -> None:
        self._path = path
        self._seek = seek
        self._committing: deque[Owner] = deque(maxlen=_MOST_IDLE)
        self._asking: deque[Owner] = deque(maxlen=_MOST_IDLE)
        self._spin = Spin()
        self._local: LocalOwner | None = None
        self._closed = ""

    def commit(self, message: CommitMessage, since: int) -> Committed:
        """Have the owner commit a message; ``since`` is a commit from before it was first sent. The owner that answers
        may not be the first one that it was sent to. Waits for as long as a live owner does not answer."""
        encoded = commit_ask(encode_message(message))
        while True:
            owner = self._reach(self._committing)
            if owner is None:
                assert self._local is not None
                return self._local.joined.commit(message)
            try:
                # A sync takes longer than any spin.
                spin = None if message.durably else self._spin
                ts, left_out = self._send(self._committing, owner, encoded, spin=spin)
                return Committed(ts, left_out)
            except OwnerGone:
                message = msgspec.structs.replace(message, unanswered=since)
                encoded = commit_ask(encode_message(message))

    def ask(self, operation: str, *, timeout: float | None = None, **arguments: Any) -> Any:
        """Have the owner do something that can be repeated; return its answer. Raises OwnerSilent if it does not answer
        within ``timeout`` seconds, from the first of several owners on."""
        encoded = encode_ask(Ask(operation, msgspec.Raw(msgspec.msgpack.encode(arguments))))
        deadline = None if timeout is None else SYSTEM_CLOCK.monotonic() + timeout
        while True:
            owner = self._reach(self._asking)
            if owner is None:
                assert self._local is not None
                return self._local.handler(operation)(**arguments)
            left = None if deadline is None else max(deadline - SYSTEM_CLOCK.monotonic(), _LEAST)
            with contextlib.suppress(OwnerGone):
                return self._send(self._asking, owner, encoded, left)

    def _send(
        self,
        idle: deque[Owner],
        owner: Owner,
        request: bytes,
        timeout: float | None = None,
        spin: Spin | None = None,
    ) -> Any:
        """Send a request. The connection is kept for the next one, unless it is in an unknown state."""
        reusable = False
        try:
            answer = owner.send(request, timeout, spin)
            reusable = True
            return answer
        except (OwnerGone, OwnerSilent):
            raise
        except Exception:
            reusable = True  # the owner has answered with an error
            raise
        finally:
            if reusable and not self._closed:
                idle.append(owner)
            else:
                owner.close()

    def _reach(self, idle: deque[Owner]) -> Owner | None:
        """An ``idle`` or a new connection to the owner; None if this process owns the store."""
        while self._local is None:
            if self._closed:
                raise UsageError(self._closed)
            with contextlib.suppress(IndexError):
                return idle.pop()
            owner = reach_owner(self._path)
            if owner is not None:
                return owner
            self._local = self._seek()
        return None

    def close(self, reason: str) -> None:
        """Close the connections. A thread that waits for an answer gets one, or finds that this is closed."""
        self._closed = reason
        for idle in (self._committing, self._asking):
            while idle:
                with contextlib.suppress(IndexError):
                    idle.pop().close()

    def abandon(self, reason: str) -> None:
        """Close the copies of the connections in a forked child."""
        self._closed = reason
        self._local = None
        for idle in (self._committing, self._asking):
            for owner in list(idle):
                owner.abandon()
            idle.clear()
