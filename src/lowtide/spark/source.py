"""The data source ``lowtide``, as Spark finds it: what is asked for decides which reader or writer does it.

Spark makes one for each ``load`` or ``save``, in a short-lived process of its own, and hands it on by pickling: what
``schema`` has found out goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from lowtide.columnar.columns import Mode
from lowtide.spark.inference import check_keyspace, schema_at
from lowtide.spark.load_pin import LoadPin, new_load, release, take, taken
from lowtide.spark.location import StoreLocation
from lowtide.spark.options import LOAD, SparkOptions
from lowtide.spark.schemas import CHANGE, KEYSPACE
from lowtide.spark.tables import creation, table_of, with_table

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter


class LowtideSource(DataSource):
    """``spark.read.format("lowtide")``, and ``write``, ``readStream`` and ``writeStream``."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._table = creation(options)
        self._options = SparkOptions(options if self._table is None else self._table)
        self._load = self._options.text(LOAD) or new_load()
        self._pin: LoadPin | None = None
        self._inferred = False

    @classmethod
    def name(cls) -> str:
        return "lowtide"

    def schema(self) -> StructType:
        """The schema, where the user gives none. The instant is fixed with it."""
        options = self._options
        options.check_target()
        self._inferred = True
        if options.keyspace is not None:
            if not self._is_feed:
                check_keyspace(options)
            found = KEYSPACE
        else:
            # Changes are read from the log, which needs no pin for longer, and a new table is not read at all.
            is_brief = self._is_feed or self._table is not None
            with taken(options) if is_brief else self._fixed() as pin:
                found = schema_at(options, self._location(), pin)
        if self._is_feed:
            found = StructType([*found, *CHANGE])
        return found if self._table is None else with_table(found, self._table)

    def _know(self, schema: StructType) -> None:
        """Take the options from the schema, if they are not given and it is a table's."""
        table = table_of(schema) if "path" not in self._options else None
        if table is not None:
            self._options = self._options.over(table)
            self._inferred = True
        self._options.check_target()

    @property
    def _is_feed(self) -> bool:
        return self._options.flag("readChangeFeed")

    def _location(self) -> StoreLocation:
        return StoreLocation.here(self._options.path)

    @contextmanager
    def _fixed(self) -> Iterator[LoadPin]:
        """The instant of this load, pinned; if what follows fails, it is let go again."""
        if self._pin is None:
            self._pin = take(self._options, load=self._load)
        try:
            yield self._pin
        except BaseException:
            release(self._options.path, self._pin)
            self._pin = None
            raise

    def reader(self, schema: StructType) -> DataSourceReader:
        self._know(schema)
        if self._is_feed:
            from lowtide.spark.changes import ChangeReader

            return ChangeReader(self._options, schema)
        from lowtide.spark.snapshot import SnapshotReader

        mode = Mode.FAILFAST if self._inferred else Mode.PERMISSIVE
        with self._fixed() as pin:
            return SnapshotReader(self._options, schema, self._location(), pin, mode)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from lowtide.spark.stream import ChangeStream

        self._know(schema)
        return ChangeStream(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from lowtide.spark.writing import BatchWriter

        self._know(schema)
        return BatchWriter(self._options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from lowtide.spark.sink import StreamSink

        self._know(schema)
        return StreamSink(self._options, schema, overwrite)
