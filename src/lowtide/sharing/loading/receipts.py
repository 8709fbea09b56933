"""Receipts: the record of which jobs are done.

A receipt is written in the transaction of the job itself. So a job is done exactly once, however often it is requested
and whichever process is killed meanwhile. The keyspace ``RECEIPTS`` has a row for each of the last jobs, under its
name. ``SERIES`` has one for each series of jobs of a collection, such as the batches of a stream, with the last version
that was committed; one batch may go to several collections. A row belongs to the commit that wrote it, so it does not
contain the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from itertools import islice
from typing import Final, Protocol

import msgspec

from lowtide.engine.base.environment import Base
from lowtide.engine.statements.runners import PrefixOf
from lowtide.engine.statements.statement import ReadView, WriteView
from lowtide.engine.types import Range, Writes, after_prefix
from lowtide.engine.versions.layers import VersionStore
from lowtide.sharing.loading.job import Counts, Job, Receipt

RECEIPTS: Final = "lowtide/loads"
SERIES: Final = "lowtide/streams"
KEPT: Final = 1000
"""The number of receipts that are kept. The oldest are removed when there are twice as many."""
_LONGEST: Final = 200


class _Row(msgspec.Struct, frozen=True):
    """A job that is done."""

    collection: str
    how: str
    counts: Counts


class _Last(msgspec.Struct, frozen=True):
    """The last version of a series."""

    collection: str
    app: str
    version: int


class Versioned(Protocol):
    """Finds the commit that wrote a row."""

    @property
    def versions(self) -> VersionStore: ...

    @property
    def base(self) -> Base: ...


def receipt_key(prefix_of: PrefixOf, name: str) -> bytes:
    return prefix_of(RECEIPTS) + name.encode()


def series_name(collection: str, app: str) -> bytes:
    """The key of a series in the keyspace ``SERIES``."""
    key = f"{collection}/{app}".encode()  # the name of a collection has no slash
    if len(key) > _LONGEST:
        key = key[: _LONGEST - 32] + blake2b(key, digest_size=32).digest()
    return key


def series_key(prefix_of: PrefixOf, collection: str, app: str) -> bytes:
    return prefix_of(SERIES) + series_name(collection, app)


def last_version(stored: bytes | None) -> int | None:
    """The last version of a series, from its row; None if there is no row."""
    return None if stored is None else msgspec.msgpack.decode(stored, type=_Last).version


def receipt_of(reading: ReadView, prefix_of: PrefixOf, owner: Versioned, name: str, job: Job) -> Receipt | None:
    """The receipt of a job that is done, or that a later job of its series makes obsolete; None if it must be done."""
    at = receipt_key(prefix_of, name)
    stored = reading.read(at)
    if stored is not None:
        counts = msgspec.msgpack.decode(stored, type=_Row).counts
        return Receipt(_written_by(owner, at), counts, repeated=True)
    if job.app is None or job.version is None:
        return None
    at = series_key(prefix_of, job.target, job.app)
    stored = reading.read(at)
    if stored is None or msgspec.msgpack.decode(stored, type=_Last).version < job.version:
        return None
    return Receipt(_written_by(owner, at), Counts(), repeated=True, skipped=True)


def _written_by(owner: Versioned, full_key: bytes) -> int:
    changed = owner.versions.changed_at(full_key)
    return changed if changed is not None else owner.base.changed_at(full_key)


def receipt_rows(prefix_of: PrefixOf, name: str, job: Job, counts: Counts) -> Writes:
    """The rows that the transaction of a job writes to record that it is done."""
    row = _Row(job.target, job.how, counts)
    rows: Writes = {receipt_key(prefix_of, name): msgspec.msgpack.encode(row)}
    if job.app is not None and job.version is not None:
        last = _Last(job.target, job.app, job.version)
        rows[series_key(prefix_of, job.target, job.app)] = msgspec.msgpack.encode(last)
    return rows


def prune_receipts(writing: WriteView, prefix_of: PrefixOf, is_over: Callable[[str], bool]) -> int:
    """Remove the oldest receipts, if there are many; return how many. Names of jobs sort by start time, so the receipt
    of a long job may be the oldest when it is written. Only receipts of jobs that can no longer be requested are
    removed."""
    prefix = prefix_of(RECEIPTS)
    keys = [key for key, _ in islice(writing.scan(Range(prefix, after_prefix(prefix))), 2 * KEPT + 1)]
    if len(keys) <= 2 * KEPT:
        return 0
    doomed: Writes = {prefix + key: None for key in keys[:-KEPT] if is_over(key.decode())}
    count = len(doomed)
    if doomed:
        writing.apply(doomed, ())
    return count
