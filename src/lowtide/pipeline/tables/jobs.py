"""Jobs on Spark whose tasks write files of versions themselves, and tell the driver which.

A job has a list of parts; a task does one part. What a task tells is small: a few files for each table. A task that
fails is run again by Spark, and writes other files; those of the first attempt are never named, and never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pyarrow as pa

from lowtide.columnar.inference import Fields
from lowtide.pipeline.tables.files import VersionFile
from lowtide.pipeline.tables.shapes import decode_fields, encode_fields
from lowtide.pipeline.tables.writer import VersionWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Part = TypeVar("_Part")
_SCHEMA = "result binary"


class Written(msgspec.Struct, frozen=True):
    """What one task wrote for one table, by its number, and the shapes of the documents it knows."""

    table: int
    files: list[VersionFile]
    fields: str | None

    def shapes(self) -> Fields | None:
        return None if self.fields is None else decode_fields(self.fields)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Written).decode


def written(table: int, writer: VersionWriter) -> Written:
    """Return what a writer has written; closes its last file."""
    files, fields = writer.finish(), writer.fields
    return Written(table, files, None if fields is None else encode_fields(fields))


def run_parts(spark: SparkSession, parts: Sequence[_Part], work: Callable[[_Part], Iterable[Written]]) -> list[Written]:
    """Run ``work`` for each part, each in a task of its own."""
    if not parts:
        return []
    chosen = list(parts)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield results(work(chosen[index]))

    numbers = spark.range(0, len(chosen), 1, len(chosen))
    return collected(numbers.mapInArrow(task, _SCHEMA))


def run_rows(frame: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Iterable[Written]]) -> list[Written]:
    """Run ``work`` for the rows of each partition of a DataFrame."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield results(work(batches))

    return collected(frame.mapInArrow(task, _SCHEMA))


def results(found: Iterable[Written]) -> pa.RecordBatch:
    """Return what a task tells, as the rows that Spark brings to the driver."""
    return pa.record_batch([pa.array([_encode(each) for each in found], pa.binary())], names=["result"])


def collected(frame: DataFrame) -> list[Written]:
    """Return what all tasks of a job told."""
    return [_decode(bytes(row[0])) for row in frame.collect()]
