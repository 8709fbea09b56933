"""The newest state of a keyspace beside the owner: each call reads the last published commit, or is a commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from lowtide.engine.transaction.autocommit import Autocommit
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.origin import Caller, caller
from lowtide.engine.transaction.scans import scan_latest
from lowtide.engine.types import KEYSPACE_PREFIX, Range, Writes, after_prefix
from lowtide.errors import SnapshotExpired, UsageError


class NewestEngine(Protocol):
    """Who has the engine of now: an open store."""

    @property
    def engine(self) -> Engine: ...

    def check_open(self) -> None: ...


class Newest:
    """The newest state of one keyspace, in a process that does not own the store, or did not when this was opened. The
    keyspace may not exist yet, so its prefix is looked up for each call, whatever prefix the ``Keyspace`` that reads
    from here has."""

    __slots__ = ("_follower", "_keep", "_name")

    def __init__(self, follower: NewestEngine, name: str, keep: object = None) -> None:
        self._follower = follower
        self._name = name
        self._keep = keep

    def read(self, full_key: bytes) -> bytes | None:
        try:
            return self._read(full_key[KEYSPACE_PREFIX:])
        except SnapshotExpired:  # the pin was lost; the caller did not request that instant
            return self._read(full_key[KEYSPACE_PREFIX:])

    def _read(self, key: bytes) -> bytes | None:
        engine = self._follower.engine
        return engine.reader.get_latest(engine.catalog.prefix_of(self._name) + key)

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        return self._scan(wanted, caller())

    def _scan(self, wanted: Range, opened_by: Caller) -> Iterator[tuple[bytes, bytes]]:
        """Scan with the engine and snapshot of the moment when the iteration begins. If the pin is lost before the
        first entry, the scan is retried: the caller has seen nothing of that instant."""
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
        self.write_many({full_key: value})

    def write_many(self, writes: Writes) -> None:
        engine = self._follower.engine
        if engine.read_only:
            raise UsageError("the store was opened read-only")
        prefix = engine.catalog.prefix_of(self._name)
        here = {prefix + full_key[KEYSPACE_PREFIX:]: value for full_key, value in writes.items()}
        Autocommit(engine).write_many(here)
