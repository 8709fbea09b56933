"""The Spark jobs of each line of the section: the same work for every source, to the same sink.

A job is loaded (``spark.read…load()``) and then executed. Both are timed separately. Preparation and clean-up are not
timed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import lowtide
from bench.figures import BASE
from bench.spark.rows import COLLECTION, INDEXED, PROJECTION, SCHEMA, SELECTED, selected
from bench.spark.session import CORES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCAN, FILL, CACHED = "spark-scan", "spark-fill", "spark-cached"
PROJECT, FILTER, ALONE, WRITE = "spark-projection", "spark-filter", "spark-alone", "spark-write"
NOTHING, GROWTH = "spark-nothing", "spark-growth"
PARQUET, LINES, ARROW, TUPLES = "Parquet", "JSON Lines", "sqlite3, Arrow", "sqlite3, tuples"

CACHE_OFF = {"cache": "false"}
SOME = {"filter": json.dumps({INDEXED: {"$lt": SELECTED}})}
NONE = {"filter": json.dumps({INDEXED: {"$lt": 0}})}


class WrongRows(Exception):
    """Raised if a source lost rows or returned rows that do not exist. Its figures are not shown."""


@dataclass(frozen=True)
class Files:
    """Where the documents are, in each format."""

    place: Path

    @property
    def lowtide(self) -> Path:
        return self.place / "store"

    @property
    def parquet(self) -> Path:
        return self.place / "parquet"

    @property
    def lines(self) -> Path:
        return self.place / "lines"

    @property
    def sqlite(self) -> Path:
        return self.place / "items.db"

    @property
    def empty(self) -> Path:
        """A table of sqlite3 with no rows."""
        return self.place / "empty.db"

    @property
    def unwritten(self) -> Path:
        """Parquet files with what the lines that write have to write."""
        return self.place / "unwritten"

    def grown(self, count: int) -> Path:
        """A store with this many documents and no index."""
        return self.place / f"store-{count}"


@dataclass(frozen=True)
class Timing:
    """What one job took in one round."""

    line: str
    peer: str
    round: int
    documents: int
    """In the source, however many of them were asked for."""
    load_seconds: float
    seconds: float


@dataclass(frozen=True)
class Job:
    """One line of one source."""

    line: str
    peer: str
    documents: int
    """In the source, however many of them are asked for."""
    load: Callable[[], DataFrame]
    carry_out: Callable[[DataFrame], None]
    before: Callable[[], None] = lambda: None
    check: Callable[[], None] = lambda: None
    """After it was carried out: whether it did what it was to do."""
    after: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return f"{self.line} {self.peer} {self.documents}"

    def timed(self, round_number: int, checked: bool) -> Timing:
        self.before()
        try:
            started = perf_counter()
            frame = self.load()
            loaded = perf_counter()
            self.carry_out(frame)
            ended = perf_counter()
            if checked:
                self.check()
        finally:
            self.after()
        return Timing(self.line, self.peer, round_number, self.documents, loaded - started, ended - loaded)


def to_nowhere(frame: DataFrame) -> None:
    """All rows and all columns are made, and dropped."""
    frame.write.format("noop").mode("overwrite").save()


# -- reading ----------------------------------------------------------------------------------------------------------


class Sources:
    """The same documents as DataFrames, from each source."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self._files = files

    def lowtide(
        self,
        extra: Mapping[str, str] | None = None,
        *,
        path: Path | None = None,
        schema: str = SCHEMA,
        partitions: int = CORES,
    ) -> DataFrame:
        reader = self._spark.read.format("lowtide").option("path", str(path or self._files.lowtide))
        reader = reader.option("collection", COLLECTION).option("partitions", partitions)
        return reader.options(**(CACHE_OFF if extra is None else extra)).schema(schema).load()

    def parquet(self, schema: str = SCHEMA) -> DataFrame:
        return self._spark.read.schema(schema).parquet(str(self._files.parquet))

    def unwritten(self) -> DataFrame:
        return self._spark.read.schema(SCHEMA).parquet(str(self._files.unwritten))

    def lines(self) -> DataFrame:
        return self._spark.read.schema(SCHEMA).json(str(self._files.lines))

    def sqlite(self, kind: str, path: Path | None = None) -> DataFrame:
        reader = self._spark.read.format(kind).option("path", str(path or self._files.sqlite))
        reader = reader.option("partitions", CORES)
        return reader.schema(SCHEMA).load()


def reading(line: str, peer: str, documents: int, load: Callable[[], DataFrame], rows: int | None = None) -> Job:
    """A job that reads, and has to find this many rows, by default all of them."""

    def check() -> None:
        check_rows(load(), documents if rows is None else rows, line, peer)
        if rows is None:
            check_partitions(load(), 1 if line == ALONE else CORES, line, peer)

    return Job(line, peer, documents, load, to_nowhere, check=check)


def check_rows(frame: DataFrame, expected: int, line: str, peer: str) -> None:
    """Whether there are this many rows, and no id twice."""
    found = frame.selectExpr("count(*)", "count(DISTINCT _id)").first()
    assert found is not None
    if tuple(found) != (expected, expected):
        raise WrongRows(f"{line}, {peer}: {expected:,} rows were to be read, not {found[0]:,} with {found[1]:,} ids")


def check_partitions(frame: DataFrame, expected: int, line: str, peer: str) -> None:
    """Whether all sources have as many tasks: one with fewer would leave a core idle."""
    found = frame.rdd.getNumPartitions()
    if found != expected:
        raise WrongRows(f"{line}, {peer}: {expected} partitions were asked for, it has {found}")


def reading_jobs(sources: Sources, files: Files, count: int) -> list[Job]:
    """Those of the group that reads. Filling the cache comes before reading from it."""
    some = selected(count)

    def through_cache() -> DataFrame:
        return sources.lowtide({"cache": "true"})

    fill, cached = (reading(line, BASE, count, through_cache) for line in (FILL, CACHED))

    def check_filled() -> None:
        require_cache(files.lowtide)
        fill.check()

    return [
        reading(SCAN, BASE, count, sources.lowtide),
        reading(SCAN, PARQUET, count, sources.parquet),
        reading(SCAN, LINES, count, sources.lines),
        reading(SCAN, ARROW, count, lambda: sources.sqlite("sqlite_arrow")),
        reading(SCAN, TUPLES, count, lambda: sources.sqlite("sqlite_tuples")),
        replace(fill, before=lambda: drop_cache(files.lowtide), check=check_filled),
        replace(cached, before=lambda: require_cache(files.lowtide)),
        reading(PROJECT, BASE, count, lambda: sources.lowtide(schema=PROJECTION)),
        reading(PROJECT, PARQUET, count, lambda: sources.parquet(PROJECTION)),
        reading(FILTER, BASE, count, lambda: sources.lowtide(CACHE_OFF | SOME), some),
        reading(FILTER, PARQUET, count, lambda: sources.parquet().where(f"{INDEXED} < {SELECTED}"), some),
        reading(ALONE, BASE, count, lambda: sources.lowtide(partitions=1)),
        reading(NOTHING, BASE, count, lambda: sources.lowtide(CACHE_OFF | NONE), 0),
        reading(NOTHING, PARQUET, count, lambda: sources.parquet().where(f"{INDEXED} < 0"), 0),
        reading(NOTHING, ARROW, count, lambda: sources.sqlite("sqlite_arrow", files.empty), 0),
    ]


def drop_cache(store: Path) -> None:
    """Forget what the columnar cache beside the store has."""
    shutil.rmtree(store / "cache", ignore_errors=True)


def require_cache(store: Path) -> None:
    """Refuse to call it a read from the cache where nothing was kept there."""
    if not any((store / "cache").rglob("*.arrow")):
        raise WrongRows(f"{FILL}, {BASE}: the columnar cache is empty after a scan that was to fill it")


def growth_jobs(sources: Sources, files: Files, sizes: Sequence[int]) -> list[Job]:
    """The same scan of stores of several sizes."""

    def job(size: int) -> Job:
        return reading(GROWTH, BASE, size, lambda: sources.lowtide(path=files.grown(size)))

    return [job(size) for size in sizes]


# -- writing ----------------------------------------------------------------------------------------------------------


def writing_jobs(sources: Sources, files: Files, count: int) -> list[Job]:
    """The rows of Parquet files into an empty store, and into other Parquet files."""
    target = files.place / "written"

    def prepare_store() -> None:
        with lowtide.open(target):
            pass

    def write_lowtide(frame: DataFrame) -> None:
        writer = frame.write.format("lowtide").mode("append").option("path", str(target))
        writer.option("collection", COLLECTION).save()

    def check_lowtide() -> None:
        with lowtide.open(target) as store:
            found = store.collection(COLLECTION).count_documents({})
            first, last = (store.collection(COLLECTION).find_one({"_id": each}) for each in (0, count - 1))
        if found != count or first is None or last is None:
            raise WrongRows(f"{WRITE}, {BASE}: {count:,} rows were to be written, {found:,} were")

    def write_parquet(frame: DataFrame) -> None:
        frame.write.mode("append").parquet(str(target))

    def remove() -> None:
        shutil.rmtree(target, ignore_errors=True)

    return [
        Job(WRITE, BASE, count, sources.unwritten, write_lowtide, prepare_store, check_lowtide, remove),
        Job(WRITE, PARQUET, count, sources.unwritten, write_parquet, after=remove),
    ]
