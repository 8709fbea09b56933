"""What makes record batches of changes: of documents and keyspaces, or of statements."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from lowtide.engine import EngineSnapshot
from lowtide.feed.ranges import ChangeRows
from lowtide.spark.change_columns import ChangeColumns
from lowtide.spark.options import SparkOptions


class ChangeBatches(Protocol):
    """Makes record batches of changes. ``at`` is the snapshot that they are read from, if they are not from the log."""

    def batch(self, rows: ChangeRows, at: EngineSnapshot | None = None) -> pa.RecordBatch: ...


def change_batches(options: SparkOptions, schema: StructType) -> ChangeBatches:
    """Return what makes the record batches of a change feed. Refuses a schema that it cannot make."""
    if options.quads is None:
        return ChangeColumns(options, schema)
    from lowtide.spark.quad_changes import StatementChanges  # needs rdflib

    return StatementChanges(options, schema)
