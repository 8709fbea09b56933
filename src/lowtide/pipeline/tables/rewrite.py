"""Writes files again without some of their rows, in tasks; vacuum and erasure remove versions by it.

A file keeps its columns, its order and the beginning of its name, so the new one takes its place exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.parquet

from lowtide.pipeline.tables.files import VersionFile
from lowtide.pipeline.tables.jobs import Written, run_parts
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.sorted_files import SortedFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 1 << 16


class RowRule(Protocol):
    """Says which rows of a batch stay."""

    def stays(self, batch: pa.RecordBatch) -> pa.Array: ...


@dataclass(frozen=True)
class _FilePart:
    number: int
    table: Location
    name: str


def rewrite(
    spark: SparkSession, table: Location, files: Sequence[VersionFile], rule: RowRule
) -> Mapping[str, list[VersionFile]]:
    """Write each file again with the rows that stay. Returns what has taken the place of each, by its name: one file,
    or none if no row stays. Nothing is published."""
    parts = [_FilePart(number, table, each.name) for number, each in enumerate(files)]

    def work(part: _FilePart) -> Iterable[Written]:
        return [Written(part.number, rewritten(part.table, part.name, rule), None)]

    return {files[each.table].name: each.files for each in run_parts(spark, parts, work)}


def rewritten(table: Location, name: str, rule: RowRule) -> list[VersionFile]:
    """Write one file again with the rows that stay."""
    with table.files.open_input_file(f"{table.root}/{name}") as source:
        file = pa.parquet.ParquetFile(source)
        writer = SortedFiles(table, file.schema_arrow, name.rpartition("-")[0])
        for batch in file.iter_batches(batch_size=_ROWS):
            writer.add(batch.filter(rule.stays(batch)))
        return writer.finish()
