"""The owner's service: a socket through which other processes send it requests.

It is an abstract Unix socket: nothing listens on the network, and no file is left when the owner is killed. Its name is
the identity of the store's directory. The kernel tells each end the user of the other one. Only the same user and root
are answered and trusted. A request is an operation and its arguments; the answer is a value, or the type and message of
an error. Both are MessagePack.

Who writes: the accepting thread starts one thread for each connection; ``_connections`` is changed under ``_lock``. A
handler runs in its connection's thread, so one that waits does not block other connections. A connection that has sent
a commit goes to the inbox, which takes the further ones, and comes back here if it sends anything else.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lowtide.engine.types import MAX_COMMIT
from lowtide.errors import UsageError
from lowtide.sharing.answer import COMMIT, Answer, Ask, decode_ask, encode_answer, refusal
from lowtide.sharing.connection import Connection
from lowtide.sharing.inbox import Inbox
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.system.messages import UNDECODABLE

logger = logging.getLogger("lowtide")

_LONGEST_ASK = MAX_COMMIT + (1 << 30)
"""The longest request that is read, in bytes: the largest commit with its guards. It is read piece by piece, so a
process makes the owner allocate only what it has sent."""

_PATIENCE, _PAUSE = 1.0, 0.005
"""Seconds to wait for an address that is still in use: the previous owner is closing it."""

Handler = Callable[..., Any]
"""Called with the arguments of a message; returns plain values."""


class _Malformed(Exception):
    """A message that no process of Lowtide sends. It ends its connection, and nothing else."""


class Service:
    """Answers for the owner, from ``start`` until ``close``. Both may be interrupted anywhere; ``close`` then
    completes."""

    def __init__(
        self,
        directory: Path,
        handlers: Mapping[str, Handler],
        commit: Callable[[msgspec.Raw], Any] | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        self._directory = directory
        self._handlers = handlers
        self._commit = commit
        self._inbox = inbox
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._closed = False
        self._listener: socket.socket | None = None
        self._accepting: threading.Thread | None = None

    def start(self) -> None:
        """Start answering. If no socket can be created, that is logged, and the store works without it."""
        try:
            self._listener = _listen(self._directory)
        except OSError as error:
            logger.warning(
                "%s: other processes cannot reach this one: no socket could be created: %s", self._directory, error
            )
            return
        if self._inbox is not None:
            self._inbox.host = self
            self._inbox.start()
        self._accepting = threading.Thread(
            target=self._accept, args=(self._listener,), name="lowtide-service", daemon=True
        )
        self._accepting.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError as error:
                if self._closed:
                    return
                logger.warning("a connection from another process failed; further ones are accepted: %s", error)
                SYSTEM_CLOCK.sleep(_PAUSE)  # descriptors may have run out
                continue
            if not is_trusted(accepted):
                accepted.close()
                continue
            connection = Connection(accepted, _LONGEST_ASK)
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._connections.add(connection)
            self.serve(connection)

    def serve(self, connection: Connection, first: bytes | None = None) -> None:
        """Answer what a connection sends, from the message ``first`` on, in a thread of its own."""
        try:
            threading.Thread(target=self._serve, args=(connection, first), name="lowtide-service", daemon=True).start()
        except RuntimeError as error:
            logger.warning("another process cannot be answered: no thread could be started: %s", error)
            self.end(connection)

    def end(self, connection: Connection) -> None:
        """Close a connection."""
        with self._lock:
            self._connections.discard(connection)
        connection.close()

    def _serve(self, connection: Connection, message: bytes | None) -> None:
        handed_on = False
        try:
            connection.flush()
            while message is not None or (message := connection.receive()) is not None:
                ask = _decoded(message)
                connection.send(encode_answer(self._answer(ask)))
                if ask.operation == COMMIT and self._inbox is not None and not connection.has_message:
                    self._inbox.add(connection)
                    handed_on = True
                    return
                message = None
        except (OSError, ValueError):
            pass  # the other end, or this one, was closed
        except _Malformed as error:
            logger.warning("%s: a connection was closed, because of a malformed message: %s", self._directory, error)
        finally:
            if not handed_on:
                self.end(connection)

    def _answer(self, ask: Ask) -> Answer:
        try:
            return Answer(self._done(ask))
        except _Malformed:
            raise
        except Exception as error:
            return refusal(error)

    def _done(self, ask: Ask) -> Any:
        try:
            if ask.operation == COMMIT and self._commit is not None:
                return self._commit(ask.arguments)
            arguments = msgspec.msgpack.decode(ask.arguments, type=dict[str, Any])
        except UNDECODABLE as error:
            raise _Malformed(error) from error
        handler = self._handlers.get(ask.operation)
        if handler is None:
            raise UsageError(f"the owner of the store does not know {ask.operation!r}")
        return handler(**arguments)

    @property
    def connected(self) -> bool:
        """Whether another process is connected."""
        return bool(self._connections)

    def close(self) -> None:
        """Stop answering, and close the connections. It can be repeated after an interrupt."""
        with self._lock:
            self._closed = True
            connections = list(self._connections)
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
        for each in connections:
            each.hang_up()
        if self._accepting is not None and self._accepting.is_alive():
            # Before the descriptor is closed: another listener may get its number, and this thread accept for it.
            self._accepting.join()
        if self._listener is not None:
            self._listener.close()
        if self._inbox is not None:
            self._inbox.close()

    def abandon(self) -> None:
        """Close the copies of the sockets in a forked child, so that other processes notice when the parent ends."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                os.close(self._listener.detach())
        for each in self._connections:
            each.abandon()
        if self._inbox is not None:
            self._inbox.abandon()
        self._listener = None


def _decoded(message: bytes) -> Ask:
    try:
        return decode_ask(message)
    except UNDECODABLE as error:
        raise _Malformed(error) from error


def socket_address(directory: Path) -> str:
    """The address of the socket of the store in ``directory``."""
    status = directory.stat()
    return f"\0lowtide-{status.st_dev}-{status.st_ino}"


def is_trusted(connection: socket.socket, *users: int) -> bool:
    """Whether the other end is a process of the same user, of root, or of one of ``users``."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return user in (0, os.geteuid(), *users)


def _listen(directory: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        deadline = SYSTEM_CLOCK.monotonic() + _PATIENCE
        while True:
            try:
                listener.bind(socket_address(directory))
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE or SYSTEM_CLOCK.monotonic() > deadline:
                    raise
            SYSTEM_CLOCK.sleep(_PAUSE)
        listener.listen(64)
        return listener
    except BaseException:
        listener.close()
        raise
