"""The quarantine: a Delta table of rows that were not loaded, each as it was read, with the reason.

The rows of one load, by its name and version, are replaced when it is repeated: a load that was killed between its
quarantine and its commit leaves no row twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lowtide.pipeline.tables.location import Location
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.system.extras import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUARANTINE: Final = pa.schema(
    [
        ("load", pa.string()),
        ("version", pa.int64()),
        ("collection", pa.string()),
        ("source", pa.string()),
        ("reason", pa.string()),
        ("field", pa.string()),
        ("detail", pa.string()),
        ("file", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)
"""The columns: which load, the row as JSON, why it was refused, the field, the reason in words, the file, and when."""
_ROWS: Final = 10_000
"""Rows of one record batch on the driver."""


def add_rows(path: str, rows: DataFrame, *, load: str, version: int, collection: str, is_repeatable: bool) -> None:
    """Write the refused rows of a load, in one commit of the table. ``rows`` has the columns of judged rows.
    ``is_repeatable`` says that an earlier attempt may have left rows, which are replaced."""
    deltalake = require("deltalake", "pipeline", "the quarantine table")
    time = datetime.fromtimestamp(SYSTEM_CLOCK.time(), UTC)
    found = rows.select("source", "reason", "field", "detail", "file").toLocalIterator()
    batches = _batches((load, version, collection, *row, time) for row in found)
    reader = pa.RecordBatchReader.from_batches(QUARANTINE, batches)
    if is_repeatable and deltalake.DeltaTable.is_deltatable(path) and _has(deltalake, path, load, version):
        deltalake.write_deltalake(path, reader, mode="overwrite", predicate=_predicate(load, version))
    else:
        deltalake.write_deltalake(path, reader, mode="append")


def remove_rows(path: str, *, load: str, version: int) -> None:
    """Remove what an earlier attempt of a load has left, if it now refuses nothing."""
    deltalake = require("deltalake", "pipeline", "the quarantine table")
    if deltalake.DeltaTable.is_deltatable(path) and _has(deltalake, path, load, version):
        deltalake.DeltaTable(path).delete(_predicate(load, version))


def _has(deltalake: Any, path: str, load: str, version: int) -> bool:
    files = pa.table(deltalake.DeltaTable(path).get_add_actions()).column("path").to_pylist()
    fields = require("pyarrow.compute", "arrow", "the quarantine table")
    wanted = (fields.field("load") == load) & (fields.field("version") == version)
    return bool(Location.of(path).dataset(files, QUARANTINE).count_rows(filter=wanted))


def _predicate(load: str, version: int) -> str:
    quoted = load.replace("'", "''")
    return f"load = '{quoted}' AND version = {version}"


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    found = iter(rows)
    while chunk := list(islice(found, _ROWS)):
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(list(values), field.type) for values, field in zip(columns, QUARANTINE, strict=True)]
        yield pa.record_batch(arrays, schema=QUARANTINE)
