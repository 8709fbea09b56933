"""The data source ``lowtide``: selects the reader or writer for a request.

Spark creates one for each ``load`` or ``save`` in a short-lived process and passes it on by pickling. The results of
``schema`` are pickled with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from lowtide.columnar.columns import Mode
from lowtide.errors import Error
from lowtide.spark.inference import check_keyspace, schema_at
from lowtide.spark.load_pin import LoadPin, new_load, release, take, taken
from lowtide.spark.location import StoreLocation
from lowtide.spark.options import LOAD, SparkOptions
from lowtide.spark.schemas import CHANGE, KEYSPACE, STATEMENT
from lowtide.spark.tables import creation, table_of, with_table
from lowtide.system.extras import require

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
        """Infer the schema if the user gives none. This also fixes the commit to read."""
        options = self._options
        options.check_target()
        self._inferred = True
        if options.keyspace is not None:
            if not self._is_feed:
                check_keyspace(options)
            found = KEYSPACE
        elif options.quads is not None:
            require_rdf()
            if not self._is_feed:
                from lowtide.spark.quads_snapshot import check_quads

                check_quads(options)
                if self._table is None:  # a new table is not read
                    with self._fixed():
                        pass
            found = STATEMENT
        else:
            # Changes are read from the log, which needs no pin after this, and a new table is not read at all.
            is_brief = self._is_feed or self._table is not None
            with taken(options) if is_brief else self._fixed() as pin:
                found = schema_at(options, self._location(), pin)
        if self._is_feed:
            found = StructType([*found, *CHANGE])
        return found if self._table is None else with_table(found, self._table)

    def _know(self, schema: StructType) -> None:
        """Take missing options from the schema, if it is that of a table."""
        table = table_of(schema) if "path" not in self._options else None
        if table is not None:
            self._options = self._options.over(table)
            self._inferred = True
        self._options.check_target()
        if self._options.quads is not None:
            require_rdf()

    @property
    def _is_feed(self) -> bool:
        return self._options.flag("readChangeFeed")

    def _location(self) -> StoreLocation:
        return StoreLocation.here(self._options.path)

    @contextmanager
    def _fixed(self) -> Iterator[LoadPin]:
        """Pin the commit of this load. The pin is released if the block raises."""
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
        if self._options.quads is not None:
            from lowtide.spark.quads_snapshot import QuadsReader

            with self._fixed() as pin:
                return QuadsReader(self._options, schema, self._location(), pin)
        from lowtide.spark.snapshot import SnapshotReader

        mode = Mode.FAILFAST if self._inferred else Mode.PERMISSIVE
        with self._fixed() as pin:
            return SnapshotReader(self._options, schema, self._location(), pin, mode)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from lowtide.spark.refused_stream import RefusedStream
        from lowtide.spark.stream import ChangeStream

        try:
            self._know(schema)
            return ChangeStream(self._options, schema)
        except Error as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from lowtide.spark.writing import BatchWriter

        self._know(schema)
        return BatchWriter(self._options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from lowtide.spark.sink import StreamSink

        self._know(schema)
        return StreamSink(self._options, schema, overwrite)


def require_rdf() -> None:
    """Raise if a package that statements need is missing."""
    require("rdflib", "rdf", "RDF")
    require("numpy", "rdf", "RDF")
