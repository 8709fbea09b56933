"""Archives as a streaming query, for programs that run their jobs as streams.

The stream carries no data: it is a clock that Spark drives and shows in its user interface, and each of its batches is
a run of the archiver. The archive knows its own position, so a repeated batch, or a lost checkpoint, changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from lowtide.errors import UsageError
from lowtide.pipeline.archive.report import ArchiveReport
from lowtide.pipeline.archive.run import archive
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.names import check_collections

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGERS: Final = ("processingTime", "availableNow", "once")
_CHECKPOINT: Final = "stream"
"""The directory of the query's checkpoint, in the archive."""


def archive_stream(
    spark: SparkSession,
    store_path: str | os.PathLike[str],
    archive_path: str | os.PathLike[str],
    collections: Iterable[str] | None = None,
    *,
    trigger: Mapping[str, Any] | str = "1 minute",
    checkpoint: str | os.PathLike[str] | None = None,
    report: Callable[[ArchiveReport], None] | None = None,
) -> StreamingQuery:
    """Start a streaming query that brings an archive up to date again and again. Returns the running query.

    ``trigger`` is a distance such as "1 minute", or Spark's own, such as ``{"availableNow": True}`` for one run.
    ``report`` is called with what each run did. ``checkpoint`` is in the archive unless it is given. A run that fails
    ends the query with its error, as for every stream; start it again.
    """
    chosen = {"processingTime": trigger} if isinstance(trigger, str) else dict(trigger)
    if len(chosen) != 1 or not set(chosen) <= set(TRIGGERS):
        raise UsageError(f"trigger is a text such as '1 minute', or a dict with one of {', '.join(TRIGGERS)}")
    wanted = check_collections(collections)
    location = Location.of(archive_path)
    place = os.fspath(checkpoint) if checkpoint is not None else (location / _CHECKPOINT).uri

    def batch(frame: DataFrame, number: int) -> None:
        done = archive(spark, store_path, archive_path, wanted)
        if report is not None:
            report(done)

    # Of Spark's two clocks this one has something new at every trigger, however soon the next one comes.
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    writer = ticks.writeStream.queryName(f"lowtide archive {location.uri}").foreachBatch(batch)
    return writer.option("checkpointLocation", place).trigger(**chosen).start()
