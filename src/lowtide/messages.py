"""Messages between processes: length-prefixed bytes over a pipe or a socket."""

from __future__ import annotations

from struct import Struct
from typing import Protocol

_LENGTH = Struct("<I")


class Stream(Protocol):
    """A blocking stream of bytes: a pipe's file object, or a socket's."""

    def read(self, size: int, /) -> bytes | None: ...

    def write(self, data: bytes, /) -> int | None: ...

    def flush(self) -> None: ...


def send(stream: Stream, data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: Stream) -> bytes | None:
    """The next message; None when the other end is gone."""
    head = stream.read(_LENGTH.size)
    if head is None or len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return data if data is not None and len(data) == length else None
