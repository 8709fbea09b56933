"""The shared page: the last published commit, in memory that other processes share with the owner.

    published   magic, 8 bytes · id of the store, 16 bytes · timestamp, 8 bytes, in the machine's own byte order

Only the owner writes it, under the commit lock, after the commit is published and before it is acknowledged. So every
process that reads the page after an acknowledgement sees that commit there. Eight aligned bytes are stored by one
instruction, so a reader sees the old timestamp or the new one. The page is not durable: while no process owns the
store, it is not trusted, and the next owner writes it again.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from lowtide.errors import CorruptionError

NAME = "published"
_MAGIC = b"LTPUBLSH"
_SIZE = 32
_TS = 3
"""The index of the timestamp, as a word of eight bytes."""


class Page:
    """The mapped page of one store."""

    def __init__(self, directory: Path, store_id: bytes, *, owner: bool) -> None:
        path = directory / NAME
        flags = os.O_RDWR | os.O_CREAT if owner else os.O_RDONLY
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            if owner and os.fstat(descriptor).st_size != _SIZE:
                os.ftruncate(descriptor, _SIZE)
            if os.fstat(descriptor).st_size != _SIZE:
                raise CorruptionError(path, "is not a page of a Lowtide store; open the store for writing once")
            access = mmap.PROT_READ | mmap.PROT_WRITE if owner else mmap.PROT_READ
            mapped = mmap.mmap(descriptor, _SIZE, prot=access)
        finally:
            os.close(descriptor)
        if owner and mapped[: _TS * 8] != _MAGIC + store_id:
            mapped[: _TS * 8] = _MAGIC + store_id
        elif mapped[: _TS * 8] != _MAGIC + store_id:
            raise CorruptionError(path, "is the page of another store")
        self._words = memoryview(mapped).cast("Q")

    @property
    def published(self) -> int:
        return int(self._words[_TS])

    @property
    def shown(self) -> memoryview:
        """The timestamp, as a memoryview of one word: the cheapest look. It stays mapped after ``close``."""
        return self._words[_TS : _TS + 1]

    def publish(self, ts: int) -> None:
        """Make commit ``ts`` known to other processes. Only the owner calls this, under the commit lock."""
        self._words[_TS] = ts

    def close(self) -> None:
        """Release the memory and its descriptor. A later read returns the last value. A second call does nothing."""
        self._words = memoryview(bytearray(self._words)).cast("Q")
