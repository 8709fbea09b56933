"""Scans of a transaction: one whose reads are validated, and one of what is committed now."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.origin import Caller
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.transaction.registry import Registration
from lowtide.engine.types import Range
from lowtide.engine.versions.own import OwnWrites


def tracked(entries: Iterator[tuple[bytes, bytes]], wanted: Range, reads: ReadSet) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a scan, noting how far it has come: one that stops early has read only up to there."""
    index = reads.begin_range()
    keyspace = wanted.low[:4]
    for entry in entries:
        reads.extend_range(index, wanted.upto(keyspace + entry[0]))
        yield entry
    reads.extend_range(index, wanted)


def scan_latest(
    engine: Engine,
    wanted: Range,
    own: OwnWrites | None,
    one_snapshot: bool,
    opened_by: Caller | None,
    check: Callable[[], object],
) -> Iterator[tuple[bytes, bytes]]:
    """A scan of what is committed: as of one instant, or of the latest instant for each chunk.

    The snapshot is registered for as long as the scan runs, and given back when the iterator is exhausted or dropped.
    ``check`` is called before each chunk and raises if the scan may not go on. Whether the snapshot was expired is
    looked at after each chunk was read; a scan that takes a new one for each chunk never gets old.
    """
    registration: Registration | None = None

    def draw() -> int:
        nonlocal registration
        check()
        if registration is None or not one_snapshot:
            if registration is not None:
                registration.release(engine.released)
            registration = engine.registry.register((False, engine.now(), opened_by))
        return registration.ts

    try:
        for chunk in engine.reader.scan(wanted, draw, own):
            if registration is not None and (expired := engine.expired.get(registration.token)) is not None:
                raise expired.error()
            yield from chunk
        check()
    finally:
        if registration is not None:
            registration.release(engine.released)
