"""Lowtide's own readers and writers, with gates in them: places where a task waits until the test has done something.

A process at a gate leaves a file with its number in the gate's directory, and goes on when a file ``open`` is there.
So the test knows which process to kill, and that it is in the middle of its work.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lowtide.spark.snapshot import SnapshotReader
from lowtide.spark.source import LowtideSource

_PATIENCE = 60.0


def wait_at(gate: Path) -> None:
    """Wait until the gate is open."""
    deadline = time.monotonic() + _PATIENCE
    (gate / f"{os.getpid()}.at").touch()
    while not (gate / "open").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody opened the gate {gate}")
        time.sleep(0.01)


def processes_at(gate: Path) -> set[int]:
    """The processes that are, or were, at the gate."""
    return {int(each.stem) for each in gate.glob("*.at")}


class GatedReader(SnapshotReader):
    """Waits behind the first record batch of each part."""

    gate: Path

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batches = super().read(partition)
        yield next(batches)
        wait_at(self.gate)
        yield from batches


class GatedSource(LowtideSource):
    """The format ``gated``: as ``lowtide``, with an option ``gate`` besides, the gate's directory."""

    def __init__(self, options: dict[str, str]) -> None:
        self._gate = Path(options["gate"])
        super().__init__({name: value for name, value in options.items() if name != "gate"})

    @classmethod
    def name(cls) -> str:
        return "gated"

    def reader(self, schema: StructType) -> DataSourceReader:
        reader = super().reader(schema)
        assert isinstance(reader, SnapshotReader)
        reader.__class__ = GatedReader
        assert isinstance(reader, GatedReader)
        reader.gate = self._gate
        return reader


# Tasks run where these tests need not be importable.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
