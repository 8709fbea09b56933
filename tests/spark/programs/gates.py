"""Lowtide's own readers and writers, with gates in them: places where a process waits for the test.

A gate is a directory. A process that reaches it creates a file named by its process id, and continues when there is a
file ``open``. So the test knows which process to kill, and that it is in the middle of its work. If there is no such
directory, processes do not wait.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from lowtide.spark.sink import StreamSink
from lowtide.spark.snapshot import SnapshotReader
from lowtide.spark.source import LowtideSource
from lowtide.spark.stream import ChangeStream
from lowtide.spark.writing import BatchWriter, Staged
from tests.support.patience import PATIENCE


def wait_at(gate: Path) -> None:
    """Wait until the gate is open."""
    deadline = time.monotonic() + PATIENCE
    if not gate.is_dir():
        return
    (gate / f"{os.getpid()}.at").touch()
    while not (gate / "open").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody opened the gate {gate}")
        time.sleep(0.01)


def processes_at(gate: Path) -> set[int]:
    """The processes that are, or were, at the gate."""
    return {int(each.stem) for each in gate.glob("*.at")}


def new_gate(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def open_gate(gate: Path) -> None:
    (gate / "open").touch()


class GatedReader(SnapshotReader):
    """Waits behind the first record batch of each part, at the gate ``read``."""

    gates: Path

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batches = super().read(partition)
        yield next(batches)
        wait_at(self.gates / "read")
        yield from batches


class GatedStream(ChangeStream):
    """Waits behind the first record batch of each part, at the gate ``read``, and in the process that plans batches, at
    ``plan``."""

    gates: Path

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        wait_at(self.gates / "plan")
        return super().latestOffset(start, limit)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            yield batch
            wait_at(self.gates / "read")


class GatedWriter(BatchWriter):
    """Waits before a task's file is whole, at the gate ``write``, and before the commit, at ``commit``."""

    gates: Path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return super().write(_ending_at(self.gates / "write", iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        wait_at(self.gates / "commit")
        super().commit(messages)


class GatedSink(StreamSink):
    """The same for each batch of a stream, and at ``committed`` before Spark learns that it is done."""

    gates: Path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return super().write(_ending_at(self.gates / "write", iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        wait_at(self.gates / "commit")
        super().commit(messages, batchId)
        wait_at(self.gates / "committed")


def _ending_at(gate: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    wait_at(gate)


class GatedSource(LowtideSource):
    """The format ``gated``: as ``lowtide``, with an option ``gates`` besides, the directory where gates may be."""

    def __init__(self, options: dict[str, str]) -> None:
        self._gates = Path(options["gates"])
        super().__init__({name: value for name, value in options.items() if name != "gates"})

    @classmethod
    def name(cls) -> str:
        return "gated"

    def reader(self, schema: StructType) -> DataSourceReader:
        reader = super().reader(schema)
        reader.__class__ = GatedReader
        assert isinstance(reader, GatedReader)
        reader.gates = self._gates
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        reader = GatedStream(self._options, schema)
        reader.gates = self._gates
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        writer = GatedWriter(self._options, schema, overwrite)
        writer.gates = self._gates
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        writer = GatedSink(self._options, schema, overwrite)
        writer.gates = self._gates
        return writer


# Tasks run where these tests need not be importable.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
