"""A connection between a process and the owner, at either end: whole messages in and out, with and without waiting."""

from __future__ import annotations

import contextlib
import os
import socket
from struct import Struct
from typing import Final

_LENGTH: Final = Struct("<I")
_PIECE: Final = 1 << 16


class Connection:
    """A stream of messages, each preceded by its length. Used by one thread at a time, which may hand it on; only
    ``hang_up`` may be called by any thread.

    A partly received message stays here until the rest arrives. No more is allocated than was received, whatever length
    a message announces. A message longer than ``limit`` raises ValueError.
    """

    def __init__(self, stream: socket.socket, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._received = bytearray()
        self._unsent = b""

    def fileno(self) -> int:
        """The descriptor; -1 after the connection was closed."""
        return self._stream.fileno()

    @property
    def size(self) -> int:
        """The length of the message that is received next; 0 if that is not known yet."""
        received = self._received
        if len(received) < _LENGTH.size:
            return 0
        (length,) = _LENGTH.unpack_from(received)
        if length > self._limit:
            raise ValueError(f"a message of {length} bytes is too long; the limit is {self._limit}")
        return int(length)

    @property
    def has_message(self) -> bool:
        """Whether a whole message was received that is not read yet."""
        return len(self._received) >= _LENGTH.size + self.size if len(self._received) >= _LENGTH.size else False

    def receive(self) -> bytes | None:
        """Wait for the next message; None when the other end is closed."""
        while not self.has_message:
            piece = self._stream.recv(_PIECE)
            if not piece:
                return None
            if self._is_all(piece):
                return piece[_LENGTH.size :]
            self._received += piece
        return self._next()

    def receive_now(self) -> bytes | None:
        """The next message, if it has arrived completely. Raises EOFError when the other end is closed."""
        try:
            piece = self._stream.recv(_PIECE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return self._next() if self._received and self.has_message else None
        if not piece:
            raise EOFError
        if self._is_all(piece):
            return piece[_LENGTH.size :]
        self._received += piece
        return self._next() if self.has_message else None

    def _is_all(self, piece: bytes) -> bool:
        """Whether a piece is one message, and all of it: the common case."""
        start = _LENGTH.size
        return not self._received and len(piece) >= start and _LENGTH.unpack_from(piece)[0] == len(piece) - start

    def _next(self) -> bytes:
        end = _LENGTH.size + self.size
        message = bytes(memoryview(self._received)[_LENGTH.size : end])
        del self._received[:end]
        return message

    def send(self, message: bytes) -> None:
        """Send a message, or the rest of the last one and then this. Waits until the other end takes it."""
        self._stream.sendall(self._unsent + _LENGTH.pack(len(message)) + message)
        self._unsent = b""

    def send_now(self, message: bytes) -> bool:
        """Send a message as far as that is possible without waiting; returns whether that was all of it."""
        data = _LENGTH.pack(len(message)) + message
        sent = 0
        with contextlib.suppress(BlockingIOError):
            sent = self._stream.send(data, socket.MSG_DONTWAIT)
        self._unsent = data[sent:]
        return not self._unsent

    def flush(self) -> None:
        """Send the rest of the last message."""
        if self._unsent:
            self._stream.sendall(self._unsent)
            self._unsent = b""

    def hang_up(self) -> None:
        """End the connection, for both ends. A thread that waits for a message gets None."""
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._stream.close()

    def abandon(self) -> None:
        """Close the copy of the socket in a forked child; the parent's stays open."""
        with contextlib.suppress(OSError):
            os.close(self._stream.detach())
