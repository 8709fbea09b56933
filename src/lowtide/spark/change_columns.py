"""Converts changes to record batches: the requested columns of the documents, plus Delta's change columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from lowtide.columnar.columns import Columns, Mode
from lowtide.engine import EngineSnapshot
from lowtide.errors import UsageError
from lowtide.feed.ranges import ChangeRows
from lowtide.spark.options import SparkOptions
from lowtide.spark.schemas import CHANGE, arrow_schema, check_types
from lowtide.values.codec import encode_document
from lowtide.values.ids import id_of

KIND, VERSION, MOMENT = (each.name for each in CHANGE)
_BYTES: Final = ("key", "value")


class ChangeColumns:
    """Builds record batches with exactly the requested schema, which may omit any column."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        check_change_types(schema)
        check_types(schema)
        self.schema = arrow_schema(schema, options.names("jsonColumns") or ())
        self._is_keyspace = options.keyspace is not None
        self._mode = Mode(options.text("mode", Mode.PERMISSIVE) or Mode.PERMISSIVE)
        documents = [each for each in self.schema if each.name not in (KIND, VERSION, MOMENT)]
        self._columns: Columns | None = None
        if self._is_keyspace:
            if unknown := [each.name for each in documents if each.name not in _BYTES]:
                raise UsageError(
                    f"the changes of a keyspace have the columns key, value, {KIND}, {VERSION} and {MOMENT}, "
                    f"not {unknown[0]!r}"
                )
        elif documents:
            corrupt = options.text("columnNameOfCorruptRecord")
            self._columns = Columns(
                pa.schema(documents),
                collection=options.collection or "",
                mode=self._mode,
                corrupt=corrupt if corrupt in self.schema.names else None,
            )

    def batch(self, rows: ChangeRows, at: EngineSnapshot | None = None) -> pa.RecordBatch:
        """Return the record batch of these rows, without those whose documents the mode drops."""
        arrays = self._bytes(rows) if self._is_keyspace else {}
        kept: np.ndarray[Any, Any] | None = None
        if self._columns is not None:
            stored = [
                encode_document({"_id": id_of(key)}) if value is None else value
                for key, value in zip(rows.keys, rows.values, strict=True)
            ]
            found = self._columns.batch(stored)
            if found.num_rows < len(stored):
                kept = np.array(_fitting(self._columns, stored), dtype=np.int64)
            arrays = dict(zip(found.schema.names, found.columns, strict=True))
        for name, array in change_arrays(rows, self.schema).items():
            arrays[name] = _taken(array, kept)
        if not self.schema.names:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)

    def _bytes(self, rows: ChangeRows) -> dict[str, pa.Array]:
        """Return the columns of a keyspace. An unknown deleted value is empty bytes if the column is not nullable."""
        found = {"key": pa.array(rows.keys, pa.binary())} if "key" in self.schema.names else {}
        if "value" in self.schema.names:
            values: Sequence[bytes | None] = rows.values
            if not self.schema.field("value").nullable:
                values = [b"" if each is None else each for each in values]
            found["value"] = pa.array(values, pa.binary())
        return found


def check_change_types(schema: StructType) -> None:
    """Refuse columns with Delta's names and other types."""
    for each in CHANGE:
        if each.name in schema.names and schema[each.name].dataType != each.dataType:
            raise UsageError(f"column {each.name!r} of the change feed is of type {each.dataType.simpleString()}")


def change_arrays(rows: ChangeRows, schema: pa.Schema) -> dict[str, pa.Array]:
    """Return those of Delta's columns that the schema has."""
    found: dict[str, pa.Array] = {}
    if KIND in schema.names:
        found[KIND] = pa.array(rows.kinds, pa.string())
    if VERSION in schema.names:
        found[VERSION] = pa.array(rows.commits, pa.int64())
    if MOMENT in schema.names:
        parts, seconds = np.modf(np.array(rows.times, dtype=np.float64))  # rounded in the same way as by ``datetime``
        moments = seconds.astype(np.int64) * 1_000_000 + np.round(parts * 1e6).astype(np.int64)
        found[MOMENT] = pa.array(moments).cast(schema.field(MOMENT).type)
    return found


def _taken(array: pa.Array, kept: np.ndarray[Any, Any] | None) -> pa.Array:
    return array if kept is None else array.take(pa.array(kept))


def _fitting(columns: Columns, stored: list[bytes], offset: int = 0) -> list[int]:
    """Return which documents the columns keep. Bisects around those that they drop."""
    count = columns.batch(stored).num_rows if stored else 0
    if count == len(stored):
        return list(range(offset, offset + count))
    if count == 0:
        return []
    half = len(stored) // 2
    return _fitting(columns, stored[:half], offset) + _fitting(columns, stored[half:], offset + half)
