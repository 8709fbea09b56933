"""Two data sources in Python over one table of sqlite3, as its users write them: Arrow batches, and tuples.

Each is as fast as its interface allows: key ranges by rowid, only the columns of the schema, and no conversion in
Python except to what Spark takes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType, TimestampType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS = 16_384


@dataclass
class Rows(InputPartition):
    """Those from the first rowid up to, and without, the last."""

    first: int
    last: int


class SqliteReader(DataSourceReader):
    """Rows of the table ``items``, cut by rowid."""

    def __init__(self, path: str, partitions: int, schema: StructType) -> None:
        self._path = path
        self._partitions = partitions
        self._schema = schema

    def partitions(self) -> list[Rows]:
        connection = sqlite3.connect(self._path)
        (stop,) = connection.execute("SELECT coalesce(max(rowid), -1) + 1 FROM items").fetchone()
        connection.close()
        cuts = [stop * part // self._partitions for part in range(self._partitions + 1)]
        return [Rows(first, last) for first, last in pairwise(cuts)]

    def _select(self, connection: sqlite3.Connection, rows: Rows) -> sqlite3.Cursor:
        names = ", ".join(f'"{name}"' for name in self._schema.names)
        statement = f"SELECT {names} FROM items WHERE rowid >= ? AND rowid < ?"
        return connection.execute(statement, (rows.first, rows.last))


class ArrowReader(SqliteReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, Rows)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        connection = sqlite3.connect(self._path)
        cursor = self._select(connection, partition)
        while rows := cursor.fetchmany(_ROWS):
            columns = zip(*rows, strict=True)
            arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
        connection.close()


class TuplesReader(SqliteReader):
    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Rows)
        connection = sqlite3.connect(self._path)
        rows = self._select(connection, partition)
        moments = [at for at, field in enumerate(self._schema) if isinstance(field.dataType, TimestampType)]
        if moments:
            yield from (_with_moments(row, moments) for row in rows)
        else:
            yield from rows
        connection.close()


def _with_moments(row: tuple[Any, ...], moments: list[int]) -> tuple[Any, ...]:
    """The row with datetimes in these places."""
    fields = list(row)
    for at in moments:
        fields[at] = _EPOCH + timedelta(microseconds=fields[at])
    return tuple(fields)


class SqliteArrow(DataSource):
    """``format("sqlite_arrow")``, with a schema and the options path and partitions."""

    @classmethod
    def name(cls) -> str:
        return "sqlite_arrow"

    def reader(self, schema: StructType) -> DataSourceReader:
        return ArrowReader(self.options["path"], int(self.options["partitions"]), schema)


class SqliteTuples(DataSource):
    """``format("sqlite_tuples")``, with a schema and the options path and partitions."""

    @classmethod
    def name(cls) -> str:
        return "sqlite_tuples"

    def reader(self, schema: StructType) -> DataSourceReader:
        return TuplesReader(self.options["path"], int(self.options["partitions"]), schema)
