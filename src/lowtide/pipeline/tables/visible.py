"""Selects the versions that an instant sees: the engine's rule, as expressions over a table's files.

A version is seen at commit ``at`` if it began at or before it, and had not ended. Compaction has split the versions up
to its commit into those that were the newest then (open files) and those that had ended (closed files, with
``valid_to``). So an instant before that commit needs no comparison of rows. A later one takes the open files, all of
them seen, and in place of some of their rows the newest versions in the files that were added since (tail files).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from lowtide.pipeline.tables.columns import DELETE, ID, KEY, KIND, RAW, VALID_TO, VERSION
from lowtide.pipeline.tables.files import CLOSED, OPEN, TAIL, VersionFile, total_rows
from lowtide.pipeline.tables.table import VersionTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BROADCAST = 200_000
"""Rows of the tail files below which their keys are sent to all tasks."""
_FEW = 10_000
"""Changed versions up to which their keys are brought to the driver, so that only files that may have them are read."""


def files_seen(files: list[VersionFile], at: int, compacted: int) -> list[VersionFile]:
    """Return the files that may have versions which an instant sees."""
    return [each for each in files if each.first_version <= at and _may_be_seen(each, at, compacted)]


def _may_be_seen(file: VersionFile, at: int, compacted: int) -> bool:
    if file.kind == CLOSED:
        return at < compacted and (file.last_end is None or file.last_end > at)
    return file.kind == OPEN or at > compacted


def visible(
    spark: SparkSession, table: VersionTable, at: int, key: str | None = None, keys: Collection[str] | None = None
) -> DataFrame:
    """Return the rows that commit ``at`` sees, in all columns of the table; of one key only, or of a few, if they are
    given."""
    wanted = None if key is None and keys is None else [*(() if key is None else (key,)), *(keys or ())]
    files = files_with(files_seen(table.files, at, table.compacted), wanted)
    tail = [each for each in files if each.kind == TAIL]
    settled = _of_keys(table.read(spark, [each for each in files if each.kind != TAIL]), wanted)
    if at < table.compacted:
        settled = settled.where(_seen(at))
    if not tail:
        return settled
    added = _of_keys(table.read(spark, tail), wanted).where(F.col(VERSION) <= at)
    found = newest(added).where(F.col(KIND) != DELETE)
    if len(tail) == len(files):
        return found
    return without(settled, added.select(KEY), total_rows(tail)).unionByName(found)


def files_with(files: list[VersionFile], keys: Collection[str] | None) -> list[VersionFile]:
    """Return the files that may have versions of the keys; all of them without keys."""
    return files if keys is None else [each for each in files if any(map(each.may_have, keys))]


def _of_keys(rows: DataFrame, keys: Collection[str] | None) -> DataFrame:
    return rows if keys is None else rows.where(F.col(KEY).isin(list(keys)))


def _seen(at: int) -> Column:
    """Whether a version in a compacted file is seen."""
    return (F.col(VERSION) <= at) & (F.col(VALID_TO).isNull() | (F.col(VALID_TO) > at)) & (F.col(KIND) != DELETE)


def newest(rows: DataFrame) -> DataFrame:
    """Return the newest version of each key."""
    place = F.row_number().over(Window.partitionBy(KEY).orderBy(F.col(VERSION).desc()))
    return rows.withColumn("_place", place).where(F.col("_place") == 1).drop("_place")


def without(rows: DataFrame, keys: DataFrame, most: int) -> DataFrame:
    """Return the rows whose key is not among ``keys``, of which there are at most ``most``."""
    return rows.join(_small(keys.distinct(), most), KEY, "left_anti").select(*rows.columns)


def among(rows: DataFrame, keys: DataFrame, most: int) -> DataFrame:
    """Return the rows whose key is among ``keys``, of which there are at most ``most``."""
    return rows.join(_small(keys.distinct(), most), KEY, "left_semi").select(*rows.columns)


def _small(keys: DataFrame, most: int) -> DataFrame:
    return F.broadcast(keys) if most <= _BROADCAST else keys


def replaced(spark: SparkSession, table: VersionTable, low: int, high: int) -> tuple[DataFrame, DataFrame]:
    """Return the versions that commit ``low`` sees and ``high`` does not, and those that ``high`` sees and ``low`` does
    not, each with the columns ``_key``, ``_id`` and ``_raw``.

    Only keys with a version after ``low`` up to ``high`` differ. What compacted files have of them is told by
    ``_version`` and ``valid_to`` alone.
    """
    chosen = [KEY, ID, RAW]
    began = (F.col(VERSION) > low) & (F.col(VERSION) <= high)
    ended = (F.col(VALID_TO) > low) & (F.col(VALID_TO) <= high)
    closed = [each for each in table.files if each.kind == CLOSED and (each.last_end is None or each.last_end > low)]
    changed = [each for each in table.files if each.first_version <= high and each.last_version > low]
    if high <= table.compacted or not any(each.kind == TAIL for each in changed):
        settled = table.read(spark, [each for each in changed if each.kind != TAIL])
        before = table.read(spark, closed).where((F.col(VERSION) <= low) & ended & (F.col(KIND) != DELETE))
        return before.select(chosen), settled.where(began & _seen(high)).select(chosen)
    rows = table.read(spark, changed).where(began)
    not_ended = F.col(VALID_TO).isNull() | (F.col(VALID_TO) > high)
    after = newest(rows).where((F.col(KIND) != DELETE) & not_ended)
    keys, most = rows.select(KEY), total_rows(changed)
    if low < table.compacted:
        keys, most = keys.union(table.read(spark, closed).where(ended).select(KEY)), most + total_rows(closed)
    if most <= _FEW < total_rows(files_seen(table.files, low, table.compacted)):
        before = visible(spark, table, low, keys=[row[0] for row in keys.distinct().collect()])
    else:
        before = among(visible(spark, table, low), keys, most)
    return before.select(chosen), after.select(chosen)
