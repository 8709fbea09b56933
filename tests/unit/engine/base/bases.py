"""Makes bases, each in its own directory, in memory if the system has room for files there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from lowtide.engine.base.codec import encode_row, encode_tombstone, encode_ts
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval

STORE_ID = b"0123456789abcdef"
PREFIX = b"\x00\x00\x00\x01"
"""The keyspace of the keys in these tests."""

Rows = dict[bytes, tuple[int, bytes | None]]
"""Full key to timestamp and value; None is a tombstone."""

Kept = list[tuple[Interval, bytes]]


@contextmanager
def temporary_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lowtide-") as directory:
        yield Path(directory)


@contextmanager
def new_base(map_size: int = 1 << 24) -> Iterator[Base]:
    """A base that holds nothing."""
    with temporary_directory() as directory:
        base = Base(directory, map_size, create=True)
        try:
            base.initialise(STORE_ID)
            yield base
        finally:
            base.close()


def fill(base: Base, rows: Rows, kept: Kept | None = None) -> None:
    """Put rows and history into the base as they stand, with a boundary that covers them."""
    kept = list(kept or ())
    stamps = [ts for ts, _ in rows.values()] + [interval.end for interval, _ in kept]

    def change(txn: lmdb.Transaction[bytes]) -> None:
        for key, (ts, value) in rows.items():
            txn.put(key, encode_tombstone(ts) if value is None else encode_row(ts, value), db=base.rows)
            if value is None:
                txn.put(encode_ts(ts) + key, b"", db=base.tombstones)
        if kept:
            base.history.add(txn, kept)
        base.put_boundary(txn, max(stamps, default=0))

    base.write(change)
    base.history_below = max(stamps, default=0)


def rows_of(base: Base) -> dict[bytes, bytes]:
    """The table of rows as it stands."""
    with base.env.begin(base.rows) as txn:
        return dict(txn.cursor())


def kept_by(base: Base) -> dict[Interval, bytes]:
    """The history as it stands, after a look at both tables: they must say the same."""
    with base.env.begin() as txn:
        found = {each: txn.get(each.row_key, db=base.history.rows) for each in base.history.intervals(txn)}
        index = {(key, value) for key, value in txn.cursor(base.history.index)}
        assert index == {(each.full_key, each.index_value) for each in found}
        assert base.history.count(txn) == len(found)
        return {each: value for each, value in found.items() if value is not None}


def tombstones_of(base: Base) -> list[tuple[int, bytes]]:
    with base.env.begin(base.tombstones) as txn:
        return [(int.from_bytes(entry[:8], "big"), entry[8:]) for entry, _ in txn.cursor()]
