"""The connection from another process to the owner of a store."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from lowtide import errors
from lowtide.sharing.answer import Ask, decode_answer, encode_ask
from lowtide.sharing.connection import Connection
from lowtide.sharing.service import is_trusted, socket_address
from lowtide.sharing.spin import Spin
from lowtide.system.messages import UNDECODABLE

_CONNECT = 2.0
"""Seconds within which a live owner accepts a connection."""

_LONGEST_ANSWER: Final = (1 << 32) - 1
"""The longest answer, in bytes: an owner is trusted. It is read piece by piece."""

_KINDS: Final[dict[str, Callable[[str], errors.Error]]] = {
    "UsageError": errors.UsageError,
    "OperationFailure": errors.OperationFailure,
    "WriteError": errors.WriteError,
    "DuplicateKeyError": errors.WriteError,
    "DocumentRefused": errors.WriteError,
    "TransientError": errors.TransientError,
    "SnapshotExpired": errors.SnapshotExpired,
    "StoreFailed": errors.StoreFailed,
    "DiskFull": errors.DiskFull,
}


class OwnerGone(errors.Error):
    """The owner ended, or was killed, before it answered. Retry: the next owner answers, or the store can be opened."""


class OwnerSilent(errors.Error):
    """The owner is alive but does not answer in time: it is stopped, or hangs. Resume or end it, then retry."""


class Owner:
    """A connection to the owner; used by one thread at a time."""

    def __init__(self, path: Path, connection: socket.socket) -> None:
        self._path = path
        self._socket = connection
        self._connection = Connection(connection, _LONGEST_ANSWER)
        self._timeout: float | None = -1.0  # not known yet

    def ask(self, operation: str, *, timeout: float | None = None, **arguments: Any) -> Any:
        """Send the owner a request, and wait up to ``timeout`` seconds for its answer."""
        return self.send(encode_ask(Ask(operation, msgspec.Raw(msgspec.msgpack.encode(arguments)))), timeout)

    def send(self, request: bytes, timeout: float | None = None, spin: Spin | None = None) -> Any:
        """The same as ``ask``, with an encoded ``Ask``. An answer that is likely to come soon is waited for by
        ``spin``."""
        try:
            if timeout != self._timeout:
                self._socket.settimeout(timeout)
                self._timeout = timeout
            self._connection.send(request)
            data = self._connection.receive() if spin is None else spin.receive(self._connection)
        except TimeoutError as error:
            self.close()
            raise OwnerSilent(f"the owner of {self._path} did not answer within {timeout:g} seconds") from error
        except (OSError, ValueError) as error:
            raise OwnerGone(f"the owner of {self._path} cannot be reached: {error}") from error
        if data is None:
            raise OwnerGone(f"the owner of {self._path} ended before it answered")
        try:
            answer = decode_answer(data)
        except UNDECODABLE as error:
            self.close()
            raise OwnerGone(f"the owner of {self._path} sent an answer that cannot be decoded: {error}") from error
        if answer.error is not None:
            raise _error(*answer.error, answer.value)
        return answer.value

    def wait_for_end(self) -> None:
        """Wait until the owner ends, or closes the store, or this connection is hung up."""
        with contextlib.suppress(OSError):
            self._socket.settimeout(None)
            self._socket.recv(1)
        self.close()

    def hang_up(self) -> None:
        """Close the connection. A thread that waits for an answer gets OwnerGone."""
        self._connection.hang_up()

    def close(self) -> None:
        self._connection.close()

    def abandon(self) -> None:
        """Close the copy of the connection in a forked child; the parent's goes on."""
        self._connection.abandon()

    def __enter__(self) -> Owner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def reach_owner(path: Path) -> Owner | None:
    """A connection to the process that owns the store in ``path``; None if no process listens there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_CONNECT)
        connection.connect(socket_address(path))
        if is_trusted(connection, path.stat().st_uid):
            return Owner(path, connection)
    except OSError:
        pass
    connection.close()
    return None


def _error(kind: str, words: str, value: Any = None) -> errors.Error:
    """The error that the owner reported. An error that is built from more than a message becomes its base class, except
    a conflict, whose parts are in ``value``."""
    if kind == "ConflictError":
        try:
            keyspace, key, seen, committed, read = msgspec.convert(value, tuple[str, bytes, int, int, bool])
            return errors.ConflictError(keyspace, key, seen, committed, read=read)
        except UNDECODABLE:
            return errors.TransientError(words)
    return _KINDS.get(kind, errors.Error)(words)
