"""The stream sink: each micro-batch is one job, committed exactly once even if Spark repeats it.

A batch is identified by its writer (option ``txnAppId``, or else the query's id) and its number. The last number is
written in the transaction of the batch itself, so a batch that was committed before a crash is skipped after it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lowtide.errors import UsageError
from lowtide.sharing.loading.staged import driver_process, remove_series
from lowtide.spark.options import SparkOptions
from lowtide.spark.writing import Staged, StagedWrite
from lowtide.system.messages import UNDECODABLE

logger = logging.getLogger("lowtide")


class _Metadata(msgspec.Struct, frozen=True):
    """The metadata that Spark stores for a query."""

    id: str


class StreamSink(DataSourceStreamArrowWriter, StagedWrite):
    """``df.writeStream.format("lowtide")``."""

    def __init__(self, options: SparkOptions, schema: StructType, overwrite: bool) -> None:
        options.refuse(("txnVersion",), "for a stream, whose batches have numbers")
        self._query = query_of(options)
        StagedWrite.__init__(self, options, schema, overwrite, self._query)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows, in a task."""
        return self._stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit what the tasks of a batch staged, unless the batch was committed before."""
        try:
            receipt = self._commit(messages, batchId)
        except Exception as error:
            # Spark itself reports only that the job failed.
            logger.error("batch %d of stream %r was not written: %s", batchId, self._query, error)
            raise
        if receipt.skipped:
            logger.info("batch %d of stream %r had been written before, by commit %d", batchId, self._query, receipt.ts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what was staged, after a failure of a task or of the commit."""
        assert self._series is not None
        remove_series(self._path, driver_process(), self._series)


def query_of(options: SparkOptions) -> str:
    """Return the id of the writer: stable across restarts of the query, and different from every other query.

    Spark keeps a query's id in its checkpoint. A new query in the same directory, whose batch numbers start again, has
    another id.

    >>> query_of(SparkOptions({"checkpointLocation": "file:///data//checkpoints/orders/"}))
    'checkpoint /data/checkpoints/orders'
    """
    app = options.text("txnAppId")
    if app is not None:
        return app
    location = options.text("checkpointLocation")
    if not location:
        raise UsageError(
            "a stream into a store is identified by option 'txnAppId' or by option 'checkpointLocation'; "
            "give one of them to writeStream, so that no batch is written twice after a restart"
        )
    scheme, found, rest = location.partition("://")
    if found and scheme != "file":
        return f"checkpoint {scheme}://{re.sub('/+', '/', rest).rstrip('/')}"
    plain = re.sub("^file:/*", "/", location) if location.startswith("file:") else location
    directory = os.path.abspath(plain)
    query = _query_in(directory)
    return f"checkpoint {directory}" if query is None else f"query {query}"


def _query_in(checkpoint: str) -> str | None:
    """Return the id of the query that owns this checkpoint. None if it cannot be read, as on a remote file system."""
    try:
        with open(os.path.join(checkpoint, "metadata"), "rb") as file:
            return msgspec.json.decode(file.read(), type=_Metadata).id
    except (OSError, *UNDECODABLE):
        return None
