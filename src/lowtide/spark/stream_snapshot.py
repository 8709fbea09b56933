"""The snapshot with which a stream begins: its entries at the stream's pin, as inserts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lowtide.engine import EngineSnapshot
from lowtide.errors import Error, SnapshotExpired
from lowtide.feed.ranges import INSERT, ChangeRows
from lowtide.sharing.pins.snapshot import open_pinned, renew_pin
from lowtide.spark.change_batches import ChangeBatches
from lowtide.spark.changes import BATCH
from lowtide.spark.location import StoreLocation
from lowtide.spark.offsets import Offset
from lowtide.spark.options import SparkOptions

TTL: Final = 86_400.0
"""Seconds that the snapshot of a stream is kept after its last use, even while the stream is stopped."""


@dataclass(frozen=True)
class SnapshotPart(InputPartition):
    """The entries of the stream's keyspace in ``[low, high)``. A ``high`` of None is the end."""

    location: StoreLocation
    offset: Offset
    low: bytes
    high: bytes | None


def opened(options: SparkOptions, offset: Offset) -> EngineSnapshot:
    """Open the snapshot. The caller must close it."""
    try:
        return open_pinned(options.path, pin=offset.pin)
    except SnapshotExpired as error:
        raise expired(offset) from error


def expired(offset: Offset) -> Error:
    """The error for a pin that expired before the whole snapshot was delivered."""
    return Error(
        f"the snapshot with which the stream began, at version {offset.since}, was not delivered whole and is no "
        "longer kept: the stream was stopped for longer than option pinTtl allows. Start a new stream, with another "
        "checkpointLocation"
    )


def following(key: bytes | None) -> bytes | None:
    """The first key after ``key``."""
    return None if key is None else key + b"\x00"


def read_snapshot(part: SnapshotPart, options: SparkOptions, columns: ChangeBatches) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a part, in a task. Renews the pin while they are read."""
    path, offset = part.location.check(), part.offset
    assert offset.taken is not None
    size, ttl = options.number("batchSize", BATCH) or BATCH, options.seconds("pinTtl", TTL)
    moment = offset.taken / 1e6
    renewed = time.monotonic()
    try:
        with opened(options, offset) as snapshot:
            entries = snapshot.keyspace(offset.keyspace).scan(part.low or None, part.high)
            while found := list(islice(entries, size)):
                if time.monotonic() - renewed > ttl / 4:
                    renew_pin(path, offset.pin)
                    renewed = time.monotonic()
                keys, values = zip(*found, strict=True)
                count = len(found)
                rows = ChangeRows([INSERT] * count, [offset.since] * count, [moment] * count, [*keys], [*values])
                batch = columns.batch(rows, snapshot)
                if batch.num_rows:
                    yield batch
    except SnapshotExpired as error:
        raise expired(offset) from error
