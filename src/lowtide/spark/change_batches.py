"""Selects how changes become record batches: those of documents and keyspaces, or those of statements."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from lowtide.engine import EngineSnapshot
from lowtide.feed.ranges import ChangeRows
from lowtide.spark.change_columns import ChangeColumns
from lowtide.spark.options import SparkOptions


class ChangeBatches(Protocol):
    """Builds record batches of changes. ``at`` is the snapshot that they are read from, unless they are from the
    log."""

    def batch(self, rows: ChangeRows, at: EngineSnapshot | None = None) -> pa.RecordBatch: ...


def change_batches(options: SparkOptions, schema: StructType) -> ChangeBatches:
    """Return the builder of the record batches of a change feed. Refuses a schema that it cannot build."""
    if options.quads is None:
        return ChangeColumns(options, schema)
    from lowtide.spark.quad_changes import StatementChanges  # needs rdflib

    return StatementChanges(options, schema)
