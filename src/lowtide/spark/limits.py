"""How much one micro-batch of a stream may have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

from lowtide.feed.ranges import CommitRange, commits_in, rows_of
from lowtide.spark.options import SparkOptions


@dataclass(frozen=True)
class BatchLimits:
    """The most of one micro-batch; None for any number. A commit is never split, so a single one may have more."""

    commits: int | None = None
    rows: int | None = None
    size: int | None = None
    """Of keys and values, in bytes."""

    @classmethod
    def of(cls, options: SparkOptions) -> BatchLimits:
        return cls(*(options.number(f"max{each}PerTrigger") for each in ("Commits", "Rows", "Bytes")))

    def as_spark(self) -> ReadLimit:
        """The limit that Spark is told of: by rows, else by bytes, else by commits. All of them are kept to."""
        if self.rows is not None:
            return ReadMaxRows(self.rows)
        if self.size is not None:
            return ReadMaxBytes(self.size)
        return ReadAllAvailable() if self.commits is None else ReadMaxFiles(self.commits)

    @property
    def by_size(self) -> bool:
        """Whether rows must be looked at to keep to the limits."""
        return self.rows is not None or self.size is not None

    def allow(self, rows: int, size: int) -> bool:
        return (self.rows is None or rows <= self.rows) and (self.size is None or size <= self.size)

    def last_commit(self, commits: CommitRange, prefix: bytes, preimages: str) -> int:
        """The last commit of a range with which the rows of a keyspace are within the limits; if already those of the
        first one that has any are not, the last before the next that has any."""
        rows = size = 0
        for commit in commits_in(commits):
            changes = rows_of(commit, prefix, preimages)
            if not len(changes):
                continue
            is_first, rows = rows == 0, rows + len(changes)
            size += sum(map(len, changes.keys)) + sum(len(each) for each in changes.values if each is not None)
            if not is_first and not self.allow(rows, size):
                return commit.ts - 1
        return commits.until

    def last_key(self, entries: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """The key of the last entry, of one at least, with which they are within the limits; None if all are."""
        rows = size = 0
        reached: bytes | None = None
        for key, value in entries:
            rows, size = rows + 1, size + len(key) + len(value)
            if reached is not None and not self.allow(rows, size):
                return reached
            reached = key
        return None
