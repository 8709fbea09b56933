"""Scans of a transaction: with tracked reads, and of the latest committed state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final

from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.origin import Caller
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.transaction.registration import Registration
from lowtide.engine.types import Range
from lowtide.engine.versions.own import OwnWrites

_CHUNK: Final = 512


def entries_of(chunks: Iterator[list[tuple[bytes, bytes]]]) -> Iterator[tuple[bytes, bytes]]:
    """The entries of chunks, one by one."""
    return chain.from_iterable(chunks)


def chunks_of(entries: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """Entries in lists, for a scan whose entries must be handled one by one."""
    while chunk := list(islice(entries, _CHUNK)):
        yield chunk


def tracked(entries: Iterator[tuple[bytes, bytes]], wanted: Range, reads: ReadSet) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a scan. Records how far it has read: a scan that stops early has read only up to there."""
    index = reads.begin_range()
    keyspace = wanted.low[:4]
    for entry in entries:
        reads.extend_range(index, wanted.upto(keyspace + entry[0]))
        yield entry
    reads.extend_range(index, wanted)


def tracked_chunks(
    chunks: Iterator[list[tuple[bytes, bytes]]], wanted: Range, reads: ReadSet
) -> Iterator[list[tuple[bytes, bytes]]]:
    """The same as ``tracked``, for a scan in chunks: a chunk that is yielded has been read to its end."""
    index = reads.begin_range()
    keyspace = wanted.low[:4]
    for chunk in chunks:
        if chunk:
            reads.extend_range(index, wanted.upto(keyspace + chunk[-1][0]))
        yield chunk
    reads.extend_range(index, wanted)


def noted(
    entries: Iterator[tuple[bytes, bytes]], wanted: Range, note: Callable[[Range, list[tuple[bytes, bytes]]], None]
) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a scan. When it ends or is dropped, ``note`` is called with the part of the range that it covered
    and the entries, with full keys. It is not called if nothing was read."""
    keyspace, covered = wanted.low[:4], None
    found: list[tuple[bytes, bytes]] = []
    try:
        for entry in entries:
            full_key = keyspace + entry[0]
            covered = wanted.upto(full_key)
            found.append((full_key, entry[1]))
            yield entry
        covered = wanted
    finally:
        if covered is not None:
            note(covered, found)


def scan_latest(
    engine: Engine,
    wanted: Range,
    *,
    own: OwnWrites | None,
    one_snapshot: bool,
    opened_by: Caller | None,
    check: Callable[[], object],
) -> Iterator[tuple[bytes, bytes]]:
    """Scan the committed state: at one instant, or at the latest instant for each chunk.

    The snapshot is registered while the scan runs, and released when the iterator is exhausted or dropped. ``check`` is
    called before each chunk, and raises if the scan may not continue. After each chunk the scan checks whether the
    snapshot has expired; a scan that takes a new snapshot for each chunk never becomes old.
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
