"""The newest state of a keyspace in a read-only store: each call reads the last published commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.origin import Caller, caller
from lowtide.engine.transaction.scans import scan_latest
from lowtide.engine.types import KEYSPACE_PREFIX, Range, Writes, after_prefix
from lowtide.errors import SnapshotExpired, UsageError

if TYPE_CHECKING:
    from lowtide.sharing.follower import Follower


class Newest:
    """The newest state of one keyspace of a read-only store. The keyspace may not exist yet, so its prefix is looked up
    for each call; the ``Keyspace`` that reads from here has the prefix NOWHERE."""

    __slots__ = ("_follower", "_keep", "_name")

    def __init__(self, follower: Follower, name: str, keep: object = None) -> None:
        self._follower = follower
        self._name = name
        self._keep = keep

    def read(self, full_key: bytes) -> bytes | None:
        try:
            return self._read(full_key[KEYSPACE_PREFIX:])
        except SnapshotExpired:  # the pin was lost, and the caller did not ask for that instant
            return self._read(full_key[KEYSPACE_PREFIX:])

    def _read(self, key: bytes) -> bytes | None:
        engine = self._follower.engine
        return engine.reader.get_latest(engine.catalog.prefix_of(self._name) + key)

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        return self._scan(wanted, caller())

    def _scan(self, wanted: Range, opened_by: Caller) -> Iterator[tuple[bytes, bytes]]:
        """The engine is taken when the scan begins, as the snapshot is. A scan that finds its pin lost before its
        first entry is retried: the caller has seen nothing of that instant."""
        try:
            entries = self._scan_at(self._follower.engine, wanted, opened_by)
            first = next(entries, None)
        except SnapshotExpired:
            entries = self._scan_at(self._follower.engine, wanted, opened_by)
            first = next(entries, None)
        if first is not None:
            yield first
            yield from entries

    def _scan_at(self, engine: Engine, wanted: Range, opened_by: Caller | None) -> Iterator[tuple[bytes, bytes]]:
        prefix = engine.catalog.prefix_of(self._name)
        low = prefix + wanted.low[KEYSPACE_PREFIX:]
        high = after_prefix(prefix) if wanted.high is None else prefix + wanted.high[KEYSPACE_PREFIX:]
        here = Range(low, high, wanted.reverse)
        return scan_latest(
            engine, here, own=None, one_snapshot=True, opened_by=opened_by, check=self._follower.check_open
        )

    def write(self, full_key: bytes, value: bytes | None) -> None:
        raise UsageError("the store was opened read-only")

    def write_many(self, writes: Writes) -> None:
        raise UsageError("the store was opened read-only")
