"""The ``_id`` of a document: which values may be one, its key, and new ones."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from lowtide.documents.ordering import encode
from lowtide.errors import InvalidDocument

MAX_ID: Final = 200
"""Bytes of an encoded ``_id``."""

ID_TYPES: Final = frozenset((str, int, bytes, UUID))


def id_key(value: Any) -> bytes:
    """The key of the document with this ``_id``.

    >>> id_key(7) == id_key(7) < id_key(8) < id_key("7")
    True
    """
    if type(value) not in ID_TYPES:
        raise InvalidDocument("_id", f"an _id is a str, int, bytes or UUID, not {type(value).__name__} {value!r}")
    try:
        key = encode(value)
    except UnicodeEncodeError as error:
        raise InvalidDocument("_id", f"no Unicode text: {error}") from error
    if len(key) > MAX_ID:
        raise InvalidDocument("_id", f"it takes {len(key)} bytes as a key, {MAX_ID} are allowed: {value[:40]!r}...")
    return key


class IdSource:
    """Makes UUIDs of version 7: 48 bits of milliseconds, then chance. Those of one source ascend, and are unique across
    processes. Written under a lock of its own."""

    def __init__(self, now: Callable[[], int], chance: Callable[[int], bytes]) -> None:
        self._now = now
        self._chance = chance
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> UUID:
        milliseconds = self._now() // 1_000_000
        bits = int.from_bytes(self._chance(10), "big")
        with self._lock:
            # 48 bits of time over 74 bits of chance; within a millisecond, or if the clock goes back, a small step on.
            number = (milliseconds & 0xFFFFFFFFFFFF) << 74 | bits >> 6
            if number <= self._last:
                number = self._last + 1 + (bits & 0xFFFFFFFF)
            self._last = number
        high = number >> 62
        top = (high >> 12) << 16 | 0x7000 | high & 0xFFF
        return UUID(int=top << 64 | 1 << 63 | number & 0x3FFFFFFFFFFFFFFF)


new_id: Final = IdSource(time.time_ns, os.urandom)
