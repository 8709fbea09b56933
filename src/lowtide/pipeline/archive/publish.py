"""Publishes what the tasks of a step wrote: in each table one commit, whose files all have the table's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from lowtide.columnar.inference import Fields
from lowtide.pipeline.archive.log_tasks import Target
from lowtide.pipeline.tables.columns import KEY, KIND, RAW, TIME, VALID_TO, VERSION
from lowtide.pipeline.tables.files import VersionFile
from lowtide.pipeline.tables.jobs import Written, run_parts, written
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.shapes import decode_fields, encode_fields, merge_fields
from lowtide.pipeline.tables.table import VersionTable, agrees
from lowtide.pipeline.tables.writer import VersionRows, VersionWriter, typed_schema
from lowtide.values.codec import encode_document
from lowtide.values.extended import loads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Job = Callable[[Mapping[int, Target]], Iterable[Written]]
"""Runs tasks that write to these tables, by number. It may be run again with wider columns."""


class Publisher:
    """The tables of a step, and the shapes of their documents."""

    def __init__(self, spark: SparkSession, tables: list[VersionTable]) -> None:
        self._spark = spark
        self._tables = tables
        self._fields = [each.fields for each in tables]

    def publish(self, job: Job, commit: int) -> dict[str, int]:
        """Run a job until all its files agree, and publish them as of ``commit``. Returns the rows, by table."""
        while True:
            found = list(job(self._targets()))
            if not self._merge(found):
                break
        rows: dict[str, int] = {}
        for number, table in enumerate(self._tables):
            files = [file for each in found if each.table == number for file in each.files]
            if files and self._bring(table, self._fields[number]) and table.append(files, commit):
                rows[str(table)] = rows.get(str(table), 0) + sum(each.rows for each in files)
        return rows

    def _targets(self) -> dict[int, Target]:
        return {
            number: Target(
                number,
                table.location,
                None if fields is None else encode_fields(fields),
                after=table.archived,
                quads=table.quads,
            )
            for number, (table, fields) in enumerate(zip(self._tables, self._fields, strict=True))
        }

    def _merge(self, found: list[Written]) -> bool:
        """Add what the tasks saw to the shapes. Returns whether the job must be run again, since files disagree with
        the columns that follow."""
        for each in found:
            seen, known = each.shapes(), self._fields[each.table]
            if seen is not None and known is not None:
                merge_fields(known, seen)
        return any(
            not agrees(pa.ipc.read_schema(pa.py_buffer(file.schema)), typed_schema(fields))
            for each in found
            if (fields := self._fields[each.table]) is not None
            for file in each.files
        )

    def _bring(self, table: VersionTable, fields: Fields | None) -> bool:
        """Give the table the columns that the files have."""
        if not table.exists:
            table.create(fields)
        elif fields is not None:
            table.reload()
            if table.covers(fields):
                table.widen(fields)
            else:
                retype(self._spark, table, fields)
        return True


@dataclass(frozen=True)
class FilePart:
    """A file that is to be written again, with other columns."""

    table: Location
    name: str
    kind: str


def retype(spark: SparkSession, table: VersionTable, fields: Fields) -> None:
    """Rewrite all files with the columns that follow from ``fields``. A type has changed, so old and new files cannot
    be read together. The new columns are computed from ``_raw``."""
    encoded = encode_fields(fields)

    def work(part: FilePart) -> Iterable[Written]:
        writer = VersionWriter(part.table, decode_fields(encoded), part.kind)
        with part.table.files.open_input_file(f"{part.table.root}/{part.name}") as source:
            file = pa.parquet.ParquetFile(source)
            for batch in file.iter_batches(columns=[VERSION, TIME, KIND, RAW, VALID_TO, KEY]):
                writer.write(_rows_of(batch))
        return [written(0, writer)]

    parts = [FilePart(table.location, each.name, each.name.rpartition("-")[0]) for each in table.files]
    found = run_parts(spark, parts, work)
    files: list[VersionFile] = [file for each in found for file in each.files]
    table.retype(fields, files)


def _rows_of(batch: pa.RecordBatch) -> VersionRows:
    """Return a record batch of a table as rows, with the documents made from their raw text."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    raws = columns[RAW]
    return VersionRows(
        kinds=columns[KIND],
        versions=columns[VERSION],
        times=[each.timestamp() for each in columns[TIME]],
        keys=[bytes.fromhex(each) for each in columns[KEY]],
        values=[None if each is None else encode_document(loads(each)) for each in raws],
        ends=columns[VALID_TO],
    )
