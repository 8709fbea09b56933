"""Sources that do as little as a Python source can: reads of rows in memory, look-ups in LMDB, and writes that are only
staged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import lmdb
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bench.spark.rows import INDEXED, SELECTED, make_document, make_documents, shares
from lowtide.sharing.loading.staged import remove_staging
from lowtide.spark.source import LowtideSource
from lowtide.spark.writing import BatchWriter, Staged
from lowtide.values.codec import encode_document
from lowtide.values.ids import id_key

_HEAD = bytes(8)
"""As long as the timestamp of a row."""
_keys: dict[str, list[bytes]] = {}
"""The keys that this process looks up in each LMDB file."""
_mapped: dict[str, lmdb.Environment] = {}
"""The LMDB files that this process has mapped and keeps, by path."""
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


def build_rows(path: str, count: int) -> None:
    """An LMDB file with a row for each document, appended in key order."""
    rows = ((id_key(each["_id"]), _HEAD + encode_document(each)) for each in make_documents(0, count))
    with lmdb.open(path, map_size=1 << 36) as environment, environment.begin(write=True) as txn:
        txn.cursor().putmulti(rows, append=True)


class LookedUp(DataSource):
    """``format("looked_up")``: ``from_memory`` that also looks each row up in the LMDB file ``path``, in key order.

    With ``kept``, a process maps the file once; otherwise each task does, as Lowtide's tasks do.
    """

    @classmethod
    def name(cls) -> str:
        return "looked_up"

    def reader(self, schema: StructType) -> DataSourceReader:
        return LookUpReader(
            int(self.options["documents"]), self.options["path"], self.options["kept"] == "true", schema
        )


class LookUpReader(MemoryReader):
    def __init__(self, documents: int, path: str, kept: bool, schema: StructType) -> None:
        super().__init__(documents, 1, schema)
        self._path = path
        self._kept = kept

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            if self._path not in _keys:
                _keys[self._path] = [id_key(each) for each in batch.column("_id").to_pylist()]
            keys = _keys[self._path]
            environment = _mapped.get(self._path) if self._kept else None
            if environment is None:
                environment = lmdb.open(self._path, readonly=True, lock=False)
            with environment.begin() as txn:
                found = txn.cursor().getmulti(keys)
            assert len(found) == len(keys), f"{len(keys) - len(found)} rows are missing"
            if self._kept:
                _mapped[self._path] = environment
            else:
                environment.close()
            yield batch


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
