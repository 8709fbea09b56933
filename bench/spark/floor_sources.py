"""Sources that do as little as a Python source can: reads of rows in memory, and writes that are only staged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bench.spark.rows import INDEXED, SELECTED, make_document, shares
from lowtide.sharing.loading.staged import remove_staging
from lowtide.spark.source import LowtideSource
from lowtide.spark.writing import BatchWriter, Staged

_made: dict[tuple[int, int, int], pa.RecordBatch] = {}
"""The batches that this process returns, by part."""


@dataclass(frozen=True)
class Share(InputPartition):
    """The selected documents among those from ``first`` to ``last``."""

    first: int
    last: int


class FromMemory(DataSource):
    """``format("from_memory")``: reads one percent of the documents. The options are documents and partitions."""

    @classmethod
    def name(cls) -> str:
        return "from_memory"

    def reader(self, schema: StructType) -> DataSourceReader:
        return MemoryReader(int(self.options["documents"]), int(self.options["partitions"]), schema)


class MemoryReader(DataSourceReader):
    def __init__(self, documents: int, partitions: int, schema: StructType) -> None:
        self._documents = documents
        self._partitions = partitions
        self._schema = schema

    def partitions(self) -> list[Share]:
        return [Share(each.start, each.stop) for each in shares(self._documents, self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows. The first task of a process that needs them creates them, and they are kept."""
        assert isinstance(partition, Share)
        wanted = (self._documents, partition.first, partition.last)
        if wanted not in _made:
            rows = [row for row in map(make_document, range(*wanted[1:])) if row[INDEXED] < SELECTED]
            _made[wanted] = pa.RecordBatch.from_pylist(rows, to_arrow_schema(self._schema, timezone="UTC"))
        return iter((_made[wanted],))


class StagedOnly(LowtideSource):
    """``format("staged_only")``: tasks encode and stage their rows as for Lowtide, without the load."""

    @classmethod
    def name(cls) -> str:
        return "staged_only"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return StagingWriter(self._options, schema, overwrite)


class StagingWriter(BatchWriter):
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        for name in {each.job for each in messages if isinstance(each, Staged)}:
            remove_staging(self._path, name)
