"""A minimal store with snapshots, versions and a checksummed log, and no engine: a lower bound for stores in Python.

It does only what no store in Python can omit: register a live snapshot for the duration of a ``with`` block, buffer
writes, let the first committer win, write a checksummed record to a preallocated log, and keep versions that older
snapshots still read. It has no checkpoints and no recovery, does not say who keeps a version, and does not survive an
interrupt.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterable
from itertools import count, repeat
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any, Self
from zlib import crc32

import msgspec

from bench.documents import Pair

PREFIX = b"\x00\x00\x00\x01"
_LOG_BYTES = 8 << 20
_ZEROS = bytes(1 << 20)
_encode = msgspec.msgpack.Encoder().encode


class LeastConflict(Exception):
    """Raised if another transaction has changed a key since the snapshot."""


class LeastLog:
    """Consecutive records in a preallocated file of zeros. At the end of the file, the first ones are overwritten."""

    def __init__(self, path: Path, *, synced: bool) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        for _ in range(_LOG_BYTES // len(_ZEROS)):
            os.write(self._descriptor, _ZEROS)
        os.fsync(self._descriptor)
        self._map = mmap.mmap(self._descriptor, _LOG_BYTES)
        self._synced = synced
        self._position = self._checksum = 0

    def append(self, payload: bytes) -> None:
        """Write a record whose checksum is chained to the previous one, and wait for the disk if the log is synced."""
        self._checksum = checksum = crc32(payload, self._checksum)
        record = checksum.to_bytes(4, "little") + payload
        position = self._position if self._position + len(record) <= _LOG_BYTES else 0
        self._position = position + len(record)
        if self._synced:
            os.pwritev(self._descriptor, [record], position, os.RWF_DSYNC)
        else:
            self._map[position : self._position] = record

    def close(self) -> None:
        self._map.close()
        os.close(self._descriptor)


class LeastKeyspace(msgspec.Struct):
    """A keyspace of a transaction, with only the fields that are needed to read and write."""

    prefix: bytes
    rows: dict[bytes, Any]
    ts: int
    writes: dict[bytes, bytes]

    def get(self, key: bytes) -> bytes | None:
        full_key = self.prefix + key
        if full_key in self.writes:
            return self.writes[full_key]
        row = self.rows.get(full_key)
        while row is not None and row[0] > self.ts:
            row = row[2]
        return row[1] if row is not None else None

    def put(self, key: bytes, value: bytes) -> None:
        self.writes[self.prefix + key] = value

    def put_many(self, pairs: Iterable[Pair]) -> None:
        prefix = self.prefix
        self.writes.update({prefix + key: value for key, value in pairs})


class LeastStore:
    """Versions in a dict, as (timestamp, value, older), and the live snapshots. Any number of threads may use it."""

    def __init__(self, pairs: list[Pair], log: LeastLog | None = None) -> None:
        self.rows: dict[bytes, Any] = {PREFIX + key: (1, value, None) for key, value in pairs}
        self.prefixes = {"documents": PREFIX}
        self.live: dict[int, int] = {}
        self.published = 1
        self._tokens = count(1)
        self._lock = threading.Lock()
        self._log = log

    def transaction(self) -> LeastTransaction:
        tx = LeastTransaction()
        tx.store = self
        tx.writes = {}
        tx.token = token = next(self._tokens)
        tx.ts = ts = self.published
        self.live[token] = ts
        return tx

    def commit(self, writes: dict[bytes, bytes], seen: int) -> None:
        """Write to the log, then to the versions. Raises LeastConflict if a key has changed since commit ``seen``."""
        payload = _encode((time(), writes, None, b"\x01" * len(writes)))
        assert self._log is not None, "a store that is written to has a log"
        with self._lock:
            rows, ts = self.rows, self.published + 1
            older = list(map(rows.get, writes))
            for key, row in zip(writes, older, strict=True):
                if row is not None and row[0] > seen:
                    raise LeastConflict(key)
            self._log.append(payload)
            kept = older if len(self.live) > 1 else repeat(None)
            rows.update(zip(writes, zip(repeat(ts), writes.values(), kept, strict=False), strict=True))
            self.published = ts


class LeastTransaction:
    """A live snapshot and a buffer of writes, until the end of a ``with`` block."""

    __slots__ = ("store", "token", "ts", "writes")
    store: LeastStore
    token: int
    ts: int
    writes: dict[bytes, bytes]

    def keyspace(self, name: str) -> LeastKeyspace:
        return LeastKeyspace(self.store.prefixes[name], self.store.rows, self.ts, self.writes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.writes and kind is None:
                self.store.commit(self.writes, self.ts)
        finally:
            del self.store.live[self.token]
