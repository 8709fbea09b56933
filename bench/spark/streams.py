"""Streams of changes: the throughput of a stream that has fallen behind, and the latency of a single commit.

The store is open in the driver's process, which commits. Spark reads the changes in its own processes. A stream first
delivers the current collection, which is one document, and that is not timed. After that it reads only changes.
"""

from __future__ import annotations

import threading
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import lowtide
from bench.section import Data
from bench.spark.rows import COLLECTION, SCHEMA, batches, make_document

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAM, LATENCY = "spark-stream", "spark-latency"
COMMIT_LENGTH = 1_000
"""Changes of one commit, in the stream whose throughput is measured."""
TRIGGER_MILLISECONDS = 50
_WARM = 5
_PATIENCE = 60.0  # seconds for one commit to be seen
CHANGES = f"{SCHEMA}, _change_type STRING, _commit_version BIGINT, _commit_timestamp TIMESTAMP"


class StreamFailed(Exception):
    """Raised if the stream ended, lost or repeated changes, or did not see a commit in time."""


def changes(spark: SparkSession, store: Path) -> DataFrame:
    """The stream of the collection's changes."""
    reader = spark.readStream.format("lowtide").option("path", str(store)).option("collection", COLLECTION)
    return reader.option("readChangeFeed", "true").schema(CHANGES).load()


# -- throughput -------------------------------------------------------------------------------------------------------


def read_available(frame: DataFrame, checkpoint: Path) -> tuple[int, int, float]:
    """Read all available changes and stop. Returns the rows, the micro-batches that had some, and the seconds."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    started = perf_counter()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = perf_counter() - started
    rows = [progress.numInputRows for progress in query.recentProgress]
    return sum(rows), sum(row > 0 for row in rows), seconds


def measure_throughput(spark: SparkSession, place: Path, count: int, rounds: int) -> Data:
    """Commit ``count`` changes while the stream is down, then let it read them, several times."""
    found = []
    with lowtide.open(place / "store", durability="relaxed") as store:
        items = store.collection(COLLECTION)
        items.insert_one(make_document(-1))  # a collection is there once it has a document
        frame = changes(spark, place / "store")
        read_available(frame, place / "checkpoint")
        for number in range(rounds + 1):
            for batch in batches(number * count, (number + 1) * count, COMMIT_LENGTH):
                items.insert_many(batch)
            rows, micro_batches, seconds = read_available(frame, place / "checkpoint")
            if rows != count:
                raise StreamFailed(f"{count:,} changes were to be read, {rows:,} were")
            if number:  # the first one warms up
                found.append({"seconds": seconds, "micro_batches": micro_batches})
    return {"changes": count, "commit_length": COMMIT_LENGTH, "rounds": found}


# -- latency ----------------------------------------------------------------------------------------------------------


class Sight:
    """When each id was first seen. The stream's thread writes it, under a condition; the committing one waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._seen: dict[int, float] = {}

    def see(self, frame: DataFrame, batch: int) -> None:
        """For foreachBatch: the least that a user's function does is to read the rows."""
        ids = [row[0] for row in frame.select("_id").collect()]
        now = perf_counter()
        with self._changed:
            for each in ids:
                if each in self._seen:
                    raise StreamFailed(f"the change of {each} came twice")
                self._seen[each] = now
            self._changed.notify_all()

    def wait(self, number: int) -> float:
        """Wait for this id. Returns the time at which it was seen."""
        with self._changed:
            if not self._changed.wait_for(lambda: number in self._seen, _PATIENCE):
                raise StreamFailed(f"the stream has not seen a commit within {_PATIENCE:.0f} s")
            return self._seen[number]


def measure_latency(spark: SparkSession, place: Path, samples: int) -> Data:
    """The times from the return of a commit of one document until the stream has read it."""
    sight = Sight()
    milliseconds = []
    with lowtide.open(place / "store") as store:
        items = store.collection(COLLECTION)
        items.insert_one(make_document(-1))  # a collection is there once it has a document
        writer = changes(spark, place / "store").writeStream.foreachBatch(sight.see)
        writer = writer.option("checkpointLocation", str(place / "checkpoint"))
        query = writer.trigger(processingTime=f"{TRIGGER_MILLISECONDS} milliseconds").start()
        try:
            for number in range(_WARM + samples):
                items.insert_one(make_document(number))
                committed = perf_counter()
                seen = sight.wait(number)
                if number >= _WARM:
                    milliseconds.append((seen - committed) * 1e3)
                # Commits at every phase of the trigger, not always right after one.
                sleep(number * 37 % TRIGGER_MILLISECONDS / 1e3)
        finally:
            query.stop()
    return {"trigger_milliseconds": TRIGGER_MILLISECONDS, "milliseconds": [round(each, 1) for each in milliseconds]}
