"""The fast path: a keyspace opened on the store, where each call is its own transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lowtide.engine.log.frame import encode_payload
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.keyspace import KeyspaceWrites
from lowtide.engine.transaction.origin import caller
from lowtide.engine.transaction.request import Request
from lowtide.engine.transaction.scans import scan_latest
from lowtide.engine.types import KEYSPACE_PREFIX, MAX_COMMIT, Range, Writes, commit_too_large
from lowtide.engine.versions.presence import before_of
from lowtide.errors import UsageError


class Autocommit:
    """Reads the newest published state and commits each write. A single write never conflicts: the last one wins.
    ``keep`` is the store: the reference keeps it from being dropped, and closed, while a keyspace or scan uses it.
    ``again`` reopens a keyspace by name if the engine is closed: in a forked child, the store may be open again."""

    __slots__ = ("_again", "_engine", "_keep", "read")

    def __init__(
        self, engine: Engine, keep: object = None, again: Callable[[str], KeyspaceWrites] | None = None
    ) -> None:
        self._engine = engine
        self._keep = keep
        self._again = again
        self.read = engine.reader.get_latest

    def moved(self, full_key: bytes) -> KeyspaceWrites | None:
        """The object that the keyspace of a key now reads from and writes to; None if that is still this one."""
        if not self._engine.closed or self._again is None:
            return None
        return self._again(self._engine.catalog.name_of(full_key[:KEYSPACE_PREFIX]))

    def write(self, full_key: bytes, value: bytes | None) -> None:
        self.write_many({full_key: value})

    def write_many(self, writes: Writes) -> None:
        engine = self._engine
        if engine.closed or engine.read_only:
            if writes and (moved := self.moved(next(iter(writes)))) is not None:
                return moved.write_many(writes)
            raise UsageError(engine.closed or "the store was opened read-only")
        names = engine.catalog.names_to_log(writes) if engine.catalog.unlogged else None
        seen = engine.registry.published  # before the read: if it is still the last at the commit, the read is current
        time = engine.time()
        before = before_of(engine.reader, writes, seen, engine.before_images)
        payload = encode_payload(time, writes, names, before, engine.before_images)
        if len(payload) > MAX_COMMIT:
            raise commit_too_large(payload)
        if names is None and engine.committer.commit_at_once(writes, payload, seen, 0, engine.durable):
            return None
        request = Request(writes=writes, seen=seen, time=time, payload=payload, durably=engine.durable, names=names)
        engine.committer.submit(request)
        return None

    def _check_open(self) -> None:
        if self._engine.closed:
            raise UsageError(self._engine.closed)

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        if (moved := self.moved(wanted.low)) is not None:
            return moved.scan(wanted)
        opened_by = caller(1) if self._engine.origins else None
        return scan_latest(
            self._engine, wanted, own=None, one_snapshot=True, opened_by=opened_by, check=self._check_open
        )
