"""The owner's service: a socket through which other processes send it requests.

It is an abstract Unix socket: nothing listens on the network, and no file is left when the owner is killed. Its name is
the identity of the store's directory. The kernel reports to each end which user the other one is. Only the same user
and root are answered and trusted. A request is an operation and its arguments; the answer is a value, or the type and
message of an error. Both are MessagePack.

Who writes: the accepting thread starts one thread for each connection; ``_connections`` is changed under ``_lock``. A
handler runs in its connection's thread, so one that waits does not block other connections.
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
from lowtide.errors import ConflictError, Error, UsageError
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.system.messages import UNDECODABLE, receive, send

logger = logging.getLogger("lowtide")

_LONGEST_ASK = MAX_COMMIT + (1 << 30)
"""The longest request that is read, in bytes: the largest commit, and what it relies on. It is read piece by piece, so
a process makes the owner allocate only what it has sent."""

_PATIENCE, _PAUSE = 1.0, 0.005
"""Seconds to wait for an address that is still in use: the previous owner is closing it."""

COMMIT = "commit"
"""The operation that commits a transaction of a joined process."""

Handler = Callable[..., Any]
"""Called with the arguments of a message; returns plain values."""


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """A request of another process: an operation, and its arguments by name. Those of a commit are a
    ``CommitMessage``."""

    operation: str
    arguments: msgspec.Raw = msgspec.Raw(b"\x80")


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a request: ``error`` is the type and the message of an error. For a conflict, ``value`` has what
    the error is made of."""

    value: Any = None
    error: tuple[str, str] | None = None


_decode_ask = msgspec.msgpack.Decoder(Ask).decode


class _Malformed(Exception):
    """A message that no process of Lowtide sends. It ends its connection, and nothing else."""


class Service:
    """Answers for the owner, from ``start`` until ``close``. Both may be interrupted anywhere; ``close`` then
    completes."""

    def __init__(
        self, directory: Path, handlers: Mapping[str, Handler], commit: Callable[[msgspec.Raw], Any] | None = None
    ) -> None:
        self._directory = directory
        self._handlers = handlers
        self._commit = commit
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
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
        self._accepting = threading.Thread(
            target=self._accept, args=(self._listener,), name="lowtide-service", daemon=True
        )
        self._accepting.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError as error:
                if self._closed:
                    return
                logger.warning("a connection from another process failed; further ones are accepted: %s", error)
                SYSTEM_CLOCK.sleep(_PAUSE)  # descriptors may have run out
                continue
            if not is_trusted(connection):
                connection.close()
                continue
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._connections.add(connection)
            try:
                threading.Thread(target=self._serve, args=(connection,), name="lowtide-service", daemon=True).start()
            except RuntimeError as error:
                logger.warning("another process cannot be answered: no thread could be started: %s", error)
                with self._lock:
                    self._connections.discard(connection)
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rwb") as stream:
                while (data := receive(stream, _LONGEST_ASK)) is not None:
                    send(stream, msgspec.msgpack.encode(self._answer(data), enc_hook=str))
        except (OSError, ValueError):
            pass  # the other end, or this one, was closed
        except _Malformed as error:
            logger.warning("%s: a connection was closed, because of a malformed message: %s", self._directory, error)
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _answer(self, data: bytes) -> Answer:
        try:
            return Answer(self._done(data))
        except ConflictError as error:
            conflict = (error.keyspace, error.key, error.snapshot_ts, error.committed_ts, error.read)
            return Answer(conflict, ("ConflictError", str(error)))
        except (Error, TypeError, OSError) as error:
            return Answer(error=(type(error).__name__, str(error)))
        except _Malformed:
            raise
        except Exception as error:
            logger.exception("a request from another process failed")
            return Answer(error=("Error", f"the request failed in the owner of the store: {error!r}"))

    def _done(self, data: bytes) -> Any:
        try:
            ask = _decode_ask(data)
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
        for each in (self._listener, *connections):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        if self._accepting is not None and self._accepting.is_alive():
            # Before the descriptor is closed: another listener may get its number, and this thread accept for it.
            self._accepting.join()
        if self._listener is not None:
            self._listener.close()

    def abandon(self) -> None:
        """Close the copies of the sockets in a forked child, so that other processes notice when the parent ends."""
        for each in (self._listener, *self._connections):
            if each is not None:
                with contextlib.suppress(OSError):
                    os.close(each.detach())
        self._listener = None


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
