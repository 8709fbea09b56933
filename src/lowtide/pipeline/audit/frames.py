"""Frames of the rows that the steps of the audit hand to each other: their sorts, groups and figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from lowtide.errors import UsageError
from lowtide.pipeline.audit.batches import ERROR
from lowtide.pipeline.audit.transactions import Scale

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Keep = Callable[["DataFrame"], "DataFrame"]
"""Keeps a frame until the audit is over."""
POSITIONS: dict[Scale, str] = {"time": "at", "version": "other_at", "name": "begin"}
"""Where headers, shares and scans have their positions."""
_FEW = 200_000
"""Keys or names that each task takes."""


def rows_of(frame: DataFrame, *what: int) -> DataFrame:
    """The rows of some sorts."""
    return frame.where(sql.col("what").isin(*what))


def grouped(frame: DataFrame, column: str, *then: str) -> DataFrame:
    """Rows with the same value of a column beside each other, in one task."""
    return frame.repartition(column).sortWithinPartitions(column, *then)


def is_a(what: int) -> Column:
    """Whether a row is of one sort."""
    return sql.col("what") == what


def figures(frame: DataFrame, **wanted: Column) -> dict[str, int]:
    """Figures of a frame, 0 for those of nothing; UsageError if a task met one."""
    error = sql.min(sql.when(is_a(ERROR), sql.col("name"))).alias("error")
    row = frame.agg(error, *(column.alias(name) for name, column in wanted.items())).collect()[0]
    if row["error"] is not None:
        raise UsageError(row["error"])
    return {name: int(row[name] or 0) for name in wanted}


def few(frame: DataFrame) -> DataFrame | None:
    """A frame that rows are to be picked by, handed to all tasks unless it is too large for that; None if it is empty.
    Else all rows would be shuffled to pick some."""
    count = frame.limit(_FEW + 1).count()
    if not count:
        return None
    return sql.broadcast(frame) if count <= _FEW else frame
