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

from lowtide.documents.arrow.columns import Mode
from lowtide.spark.inference import check_keyspace, schema_at
from lowtide.spark.instant import Instant, release, take, taken
from lowtide.spark.options import Options
from lowtide.spark.place import Place
from lowtide.spark.schemas import CHANGE, KEYSPACE

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter


class LowtideSource(DataSource):
    """``spark.read.format("lowtide")``, and ``write``, ``readStream`` and ``writeStream``."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._options = Options(options)
        self._instant: Instant | None = None
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
            # Changes are read from the log, which needs no pin for longer.
            with taken(options) if self._is_feed else self._fixed() as instant:
                found = schema_at(options, self._place(), instant)
        return StructType([*found, *CHANGE]) if self._is_feed else found

    @property
    def _is_feed(self) -> bool:
        return self._options.flag("readChangeFeed")

    def _place(self) -> Place:
        return Place.here(self._options.path)

    @contextmanager
    def _fixed(self) -> Iterator[Instant]:
        """The instant of this load, pinned; if what follows fails, it is let go again."""
        if self._instant is None:
            self._instant = take(self._options)
        try:
            yield self._instant
        except BaseException:
            release(self._options.path, self._instant)
            self._instant = None
            raise

    def reader(self, schema: StructType) -> DataSourceReader:
        self._options.check_target()
        if self._is_feed:
            from lowtide.spark.changes import ChangeReader

            return ChangeReader(self._options, schema)
        from lowtide.spark.snapshot import SnapshotReader

        mode = Mode.FAILFAST if self._inferred else Mode.PERMISSIVE
        with self._fixed() as instant:
            return SnapshotReader(self._options, schema, self._place(), instant, mode)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from lowtide.spark.stream import ChangeStream

        self._options.check_target()
        return ChangeStream(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from lowtide.spark.writing import BatchWriter

        self._options.check_target()
        return BatchWriter(self._options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from lowtide.spark.sink import StreamSink

        self._options.check_target()
        return StreamSink(self._options, schema, overwrite)
