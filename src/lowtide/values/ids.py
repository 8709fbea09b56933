"""The ``_id`` of a document: allowed types, conversion to and from keys, and generation."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from lowtide.errors import InvalidDocument, shown
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.values.ordering import encode, encode_column, inverted

MAX_ID: Final = 200
"""Maximum size of an encoded ``_id`` in bytes."""

_double: Final = struct.Struct(">d").unpack

ID_TYPES: Final = frozenset((str, int, bytes, UUID))


def id_key(value: Any) -> bytes:
    """Return the key of the document with this ``_id``.

    >>> id_key(7) == id_key(7) < id_key(8) < id_key("7")
    True
    """
    if type(value) not in ID_TYPES:
        raise InvalidDocument("_id", f"an _id is a str, int, bytes or UUID, not {type(value).__name__} {shown(value)}")
    try:
        key = encode(value)
    except UnicodeEncodeError as error:
        raise InvalidDocument("_id", f"no Unicode text: {error}") from error
    if len(key) > MAX_ID:
        raise InvalidDocument(
            "_id", f"it takes {len(key)} bytes as a key; the limit is {MAX_ID}: {shown(value)[:30]}..."
        )
    return key


def id_keys(values: Sequence[Any]) -> list[bytes] | None:
    """Return the keys of many documents by their ``_id``; None if these are of several types, or one is invalid.

    >>> id_keys([7, 8]) == [id_key(7), id_key(8)]
    True
    """
    kinds = set(map(type, values))
    if len(kinds) != 1 or not kinds <= ID_TYPES:
        return None
    try:
        keys = encode_column(kinds.pop(), values)
    except UnicodeEncodeError:
        return None
    return keys if max(map(len, keys)) <= MAX_ID else None


def id_of(key: bytes) -> Any:
    """Return the ``_id`` of a key.

    >>> [id_of(id_key(each)) for each in (7, -(10**30), "seven", b"7")]
    [7, -1000000000000000000000000000000, 'seven', b'7']
    """
    body = key[1:]
    match key[0]:
        case 0x20:
            return _integer(body) if body[0] & 0x80 else -_integer(inverted(body))
        case 0x30:
            return body[:-2].replace(b"\x00\xff", b"\x00").decode()
        case 0x60:
            return UUID(bytes=body[5:]) if body[4] else body[5:]
    raise ValueError(f"not the key of an _id: {key.hex()}")


def _integer(body: bytes) -> int:
    """Decode a non-negative number that ``ordering`` encoded."""
    if body[8] == 1:
        return int(-_double(body[:8])[0])
    power = int.from_bytes(body[9:17], "big") - (1 << 63)
    return int(body[17:-1].ljust(power, b"0"))


class IdSource:
    """Generates UUIDs of version 7: 48 bits of milliseconds, then random bits.

    The ids of one source ascend. They are unique across processes. The state is written under the source's own lock.
    """

    def __init__(self, now: Callable[[], int], chance: Callable[[int], bytes]) -> None:
        self._now = now
        self._chance = chance
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> UUID:
        milliseconds = self._now() // 1_000_000
        bits = int.from_bytes(self._chance(10), "big")
        with self._lock:
            # 48 bits of time above 74 random bits. Within a millisecond, or if the clock goes back, increment the last.
            number = (milliseconds & 0xFFFFFFFFFFFF) << 74 | bits >> 6
            if number <= self._last:
                number = self._last + 1 + (bits & 0xFFFFFFFF)
            self._last = number
        high = number >> 62
        top = (high >> 12) << 16 | 0x7000 | high & 0xFFF
        return UUID(int=top << 64 | 1 << 63 | number & 0x3FFFFFFFFFFFFFFF)


new_id: Final = IdSource(SYSTEM_CLOCK.time_ns, os.urandom)
"""Generates the ``_id`` of a document that has none. It needs no store, so it uses the machine's clock."""
