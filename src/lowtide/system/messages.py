"""Messages between processes: length-prefixed bytes over a pipe or a socket."""

from __future__ import annotations

from struct import Struct
from typing import Protocol

import msgspec

_LENGTH = Struct("<I")
_PIECE = 1 << 16

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors that msgspec raises for bytes it cannot decode."""


class ByteStream(Protocol):
    """A blocking stream of bytes: a pipe's file object, or a socket's."""

    def read(self, size: int, /) -> bytes | None: ...

    def write(self, data: bytes, /) -> int | None: ...

    def flush(self) -> None: ...


def send(stream: ByteStream, data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: ByteStream, limit: int | None = None) -> bytes | None:
    """Return the next message, or None when the other end is closed. Raises ValueError before it reads a message that
    announces more than ``limit`` bytes."""
    head = stream.read(_LENGTH.size)
    if head is None or len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if limit is not None and length > limit:
        raise ValueError(f"a message of {length} bytes is too long; the limit is {limit}")
    data = stream.read(min(length, _PIECE)) or b""
    while len(data) < length:  # piece by piece: a sender makes us allocate no more than it has sent
        more = stream.read(min(length - len(data), len(data))) if data else None
        if not more:
            return None
        data += more
    return data
