"""Brings a table to a given state in one commit: what differs is written as inserts, updates and deletes.

A run needs this where the log does not tell what happened: at its beginning, after a gap, and when a collection was
renamed or dropped. The state comes from a pinned snapshot of the store, or from another table of the archive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from lowtide.engine import EngineSnapshot
from lowtide.pipeline.archive.log_tasks import Target
from lowtide.pipeline.archive.statements import Rows, documents_of, quads_of
from lowtide.pipeline.tables.columns import DELETE, INSERT, KEY, KIND, RAW, UPDATE
from lowtide.pipeline.tables.jobs import Written, run_parts, run_rows, written
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.tables.visible import visible
from lowtide.pipeline.tables.writer import BATCH, VersionRows, raw_text
from lowtide.sharing.pins.snapshot import open_pinned, renew_pin
from lowtide.spark.location import StoreLocation
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.values.codec import encode_document
from lowtide.values.extended import loads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TTL: Final = 3600.0
"""Seconds for which the pin of a run lives after it was last renewed."""


@dataclass(frozen=True)
class PinnedPart:
    """The entries of a keyspace at a pin, from ``low`` on, before ``high``, None for the end."""

    store: StoreLocation
    pin: str
    keyspace: str
    low: bytes
    high: bytes | None

    def entries(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the entries in batches; the pin is renewed meanwhile."""
        path = self.store.check()
        renewed = SYSTEM_CLOCK.monotonic()
        with open_pinned(path, pin=self.pin) as snapshot:
            entries = snapshot.keyspace(self.keyspace).scan(self.low or None, self.high)
            quads = quads_of(self.keyspace)
            while found := list(islice(entries, BATCH)):
                yield found if quads is None else list(documents_of(found, _terms_at(snapshot, quads)))
                if SYSTEM_CLOCK.monotonic() - renewed > TTL / 4:
                    renew_pin(path, self.pin)
                    renewed = SYSTEM_CLOCK.monotonic()


def _terms_at(snapshot: EngineSnapshot, quads: str) -> Rows:
    from lowtide.spark.quads_snapshot import rows_at

    return rows_at(snapshot, quads)


def snapshot_task(target: Target, version: int, time: float) -> Callable[[PinnedPart], Iterable[Written]]:
    """Return the work of a task that writes a part of a snapshot as inserts."""

    def work(part: PinnedPart) -> Iterable[Written]:
        writer = target.writer()
        for entries in part.entries():
            rows = VersionRows()
            for key, value in entries:
                rows.add(INSERT, version, time, key, value)
            writer.write(rows)
        return [written(target.number, writer)]

    return work


def state_of(spark: SparkSession, parts: list[PinnedPart], *, is_keyspace: bool) -> DataFrame:
    """Return a snapshot as a DataFrame of keys and raw values."""
    kind = "binary" if is_keyspace else "string"
    schema = f"{KEY} string, {RAW} {kind}"
    if not parts:
        return spark.createDataFrame([], schema)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for entries in parts[index].entries():
                    keys = pa.array([key.hex() for key, _ in entries], pa.string())
                    values: Any = [value if is_keyspace else raw_text(value) for _, value in entries]
                    yield pa.record_batch([keys, pa.array(values)], names=[KEY, RAW])

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(task, schema)


def insert_parts(
    spark: SparkSession, target: Target, parts: list[PinnedPart], version: int, time: float
) -> list[Written]:
    """Write a snapshot for a table that has no versions yet."""
    return run_parts(spark, parts, snapshot_task(target, version, time))


def reconcile(
    spark: SparkSession, table: VersionTable, target: Target, state: DataFrame, version: int, time: float
) -> list[Written]:
    """Write what makes the table, as it is before commit ``version``, equal to ``state``."""
    if table.exists:
        before = visible(spark, table, version - 1).select(KEY, F.col(RAW).alias("before"))
        joined = state.join(before, KEY, "full_outer")
        kind = F.when(F.col(RAW).isNull(), DELETE).when(F.col("before").isNull(), INSERT).otherwise(UPDATE)
        changed = joined.where(~F.col(RAW).eqNullSafe(F.col("before"))).select(KEY, kind.alias(KIND), RAW)
    else:
        changed = state.select(KEY, F.lit(INSERT).alias(KIND), RAW)
    is_keyspace = table.is_keyspace

    def work(batches: Iterator[pa.RecordBatch]) -> Iterable[Written]:
        writer, rows = target.writer(), VersionRows()
        for batch in batches:
            keys, kinds, raws = (batch.column(name).to_pylist() for name in (KEY, KIND, RAW))
            for key, kind, raw in zip(keys, kinds, raws, strict=True):
                rows.add(kind, version, time, bytes.fromhex(key), _stored(raw, is_keyspace))
                if rows.is_full:
                    writer.write(rows)
                    rows = VersionRows()
        writer.write(rows)
        return [written(target.number, writer)]

    return run_rows(changed, work)


def _stored(raw: Any, is_keyspace: bool) -> bytes | None:
    if raw is None:
        return None
    return bytes(raw) if is_keyspace else encode_document(loads(raw))
