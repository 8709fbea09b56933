"""Limits the size of a stream's micro-batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

from lowtide.feed.ranges import CommitRange, commits_in, rows_of
from lowtide.spark.options import SparkOptions


@dataclass(frozen=True)
class BatchLimits:
    """Limits of one micro-batch; None is unlimited. A commit is never split, so a single commit may exceed them."""

    commits: int | None = None
    rows: int | None = None
    size: int | None = None
    """Bytes of keys and values."""

    @classmethod
    def of(cls, options: SparkOptions) -> BatchLimits:
        return cls(*(options.number(f"max{each}PerTrigger") for each in ("Commits", "Rows", "Bytes")))

    def as_spark(self) -> ReadLimit:
        """Return the limit reported to Spark: rows, else bytes, else commits. All limits are enforced."""
        if self.rows is not None:
            return ReadMaxRows(self.rows)
        if self.size is not None:
            return ReadMaxBytes(self.size)
        return ReadAllAvailable() if self.commits is None else ReadMaxFiles(self.commits)

    @property
    def by_size(self) -> bool:
        """Return whether enforcing the limits requires reading rows."""
        return self.rows is not None or self.size is not None

    def allow(self, rows: int, size: int) -> bool:
        return (self.rows is None or rows <= self.rows) and (self.size is None or size <= self.size)

    def last_commit(self, commits: CommitRange, prefix: bytes, preimages: str) -> int:
        """Return the last commit of a range up to which the rows of a keyspace are within the limits.

        If the first commit with rows exceeds them, the batch consists of that commit and the empty ones after it.
        """
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
        """Return the key of the last entry within the limits, at least the first. None if all entries are."""
        rows = size = 0
        reached: bytes | None = None
        for key, value in entries:
            rows, size = rows + 1, size + len(key) + len(value)
            if reached is not None and not self.allow(rows, size):
                return reached
            reached = key
        return None
