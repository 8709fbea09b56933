"""Runs streams as Spark does, without Spark: a checkpoint, batches that may be repeated, restarts and kills."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lowtide.spark.changes import ChangeReader
from lowtide.spark.options import SparkOptions
from lowtide.spark.schemas import CHANGE, KEYSPACE
from lowtide.spark.stream import ChangeStream

USERS = StructType([StructField("_id", LongType()), StructField("city", StringType()), *CHANGE])
BYTES = StructType([*KEYSPACE, *CHANGE])


def reader(path: Path, schema: StructType = USERS, **options: object) -> ChangeReader:
    return ChangeReader(_options(path, schema, options), schema)


def stream(path: Path, schema: StructType = USERS, **options: object) -> ChangeStream:
    return ChangeStream(_options(path, schema, options), schema)


def _options(path: Path, schema: StructType, options: dict[str, object]) -> SparkOptions:
    target = {"keyspace": "fruit"} if "key" in schema.names else {"collection": "users"}
    target = {} if "quads" in options else target
    return SparkOptions(
        {"path": str(path), "readChangeFeed": "true", **target} | {k: str(v) for k, v in options.items()}
    )


def read(source: Any, parts: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """The rows of each part, read as tasks do: from pickled copies."""
    found = []
    for part in parts:
        task, copy = pickle.loads(pickle.dumps((source, part)))
        found.append([row for batch in task.read(copy) for row in batch.to_pylist()])
    return found


def rows(source: ChangeReader) -> list[dict[str, Any]]:
    return [row for part in read(source, source.partitions()) for row in part]


def short(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows without their times of day."""
    return [tuple(value for name, value in row.items() if name != "_commit_timestamp") for row in rows]


class Query:
    """A query with a checkpoint, as Spark's micro-batch engine runs it: offsets are written before a batch runs, and
    its end after; the first batch has no start in the checkpoint."""

    def __init__(self, path: Path, schema: StructType = USERS, **options: object) -> None:
        self._made = path, schema, options
        self.offsets: list[str] = []
        self.committed = 0
        """Batches that are done."""
        self.batches: list[list[list[dict[str, Any]]]] = []
        """What each batch delivered to the sink, by part; the sink takes each once."""
        self.stream = stream(path, schema, **options)
        self.limit: ReadLimit = self.stream.getDefaultReadLimit()

    def restart(self) -> None:
        """Start again from the checkpoint. What was running is dropped as by kill -9, except for its files."""
        self.stream.stop()
        self.stream = stream(self._made[0], self._made[1], **self._made[2])

    def _start(self, number: int) -> dict[str, Any]:
        return self.stream.initialOffset() if number == 0 else json.loads(self.offsets[number - 1])

    def plan(self) -> bool:
        """Write the next offset; false if there is nothing to do, or a batch is planned already."""
        if len(self.offsets) > self.committed:
            return False
        start = self._start(self.committed)
        if self.committed:
            self.stream.commit(json.loads(self.offsets[-1]))
        end = self.stream.latestOffset(start, self.limit)
        if end == start:
            return False
        self.offsets.append(json.dumps(end))
        return True

    def deliver(self) -> list[list[dict[str, Any]]]:
        """Run the planned batch; the sink keeps it once, and it must be the same whenever it is run."""
        number = self.committed
        end = json.loads(self.offsets[number])
        found = read(self.stream, self.stream.partitions(self._start(number), end))
        if number < len(self.batches):
            assert self.batches[number] == found
        else:
            self.batches.append(found)
        return found

    def run(self) -> list[dict[str, Any]]:
        """Batches until there is nothing to do; what they delivered."""
        first = self.committed
        while len(self.offsets) > self.committed or self.plan():
            self.deliver()
            self.committed += 1
        return [row for batch in self.batches[first:] for part in batch for row in part]

    @property
    def version(self) -> int:
        return int(json.loads(self.offsets[-1])["version"])
