"""Reads as Spark does, without Spark. In Spark every object crosses to another process, so it is pickled here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from lowtide.spark.source import LowtideSource


def crossed(value: Any) -> Any:
    """What arrives in another process."""
    return cloudpickle.loads(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


class Load:
    """One ``spark.read.format("lowtide").options(...).load()``. The schema may be given, also in Spark's DDL."""

    def __init__(self, path: Path | str, schema: StructType | None = None, **options: Any) -> None:
        given = CaseInsensitiveDict({"path": str(path), **{name: str(value) for name, value in options.items()}})
        source = crossed(LowtideSource(cast("dict[str, str]", given)))
        if schema is None:
            schema = crossed(source.schema())
            source = crossed(source)
        self.schema: StructType = StructType.fromJson(schema.jsonValue())
        self.reader: DataSourceReader = crossed(source.reader(self.schema))
        found = self.reader.partitions()
        assert isinstance(found, list), "Spark takes nothing else"
        self.partitions: list[InputPartition] = crossed(found)

    def batches(self, partition: InputPartition) -> list[pa.RecordBatch]:
        """What a task gives for one part; every batch is as Spark wants it."""
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        found = list(crossed(self.reader).read(partition))
        for each in found:
            assert isinstance(each, pa.RecordBatch)
            assert each.schema.equals(wanted)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Everything, in the order of the parts."""
        parts = self.partitions or [InputPartition(None)]  # as Spark does it
        return [row for part in parts for batch in self.batches(part) for row in batch.to_pylist()]

    def ids(self) -> list[Any]:
        return [row["_id"] for row in self.rows()]


def struct(**columns: DataType) -> StructType:
    """A schema of columns that may be null."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])
