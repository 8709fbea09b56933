"""The owner of a store, as another process reaches it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from lowtide import errors
from lowtide.sharing.service import Answer, Ask, is_trusted, socket_address
from lowtide.system.messages import UNDECODABLE, receive, send

_CONNECT = 2.0
"""Seconds within which a live owner accepts a connection."""

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
        self._connection = connection
        self._stream = connection.makefile("rwb")

    def ask(self, operation: str, *, timeout: float | None = None, **arguments: Any) -> Any:
        """Send the owner a request, and wait up to ``timeout`` seconds for its answer."""
        try:
            self._connection.settimeout(timeout)
            send(self._stream, msgspec.msgpack.encode(Ask(operation, arguments)))
            data = receive(self._stream)
        except TimeoutError as error:
            self.close()
            raise OwnerSilent(f"the owner of {self._path} did not answer within {timeout:g} seconds") from error
        except (OSError, ValueError) as error:
            raise OwnerGone(f"the owner of {self._path} cannot be reached: {error}") from error
        if data is None:
            raise OwnerGone(f"the owner of {self._path} ended before it answered")
        try:
            answer = msgspec.msgpack.decode(data, type=Answer)
        except UNDECODABLE as error:
            self.close()
            raise OwnerGone(f"the owner of {self._path} sent an answer that cannot be decoded: {error}") from error
        if answer.error is not None:
            raise _error(*answer.error)
        return answer.value

    def hang_up(self) -> None:
        """End the connection under the thread that waits for an answer; it gets OwnerGone."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()

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


def _error(kind: str, words: str) -> errors.Error:
    """The error that the owner reported. An error that is built from more than a message becomes its base class."""
    return _KINDS.get(kind, errors.Error)(words)
