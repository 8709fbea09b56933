"""``python -m bench.spark.floor``: the floor of Spark jobs, from a Python source that does next to nothing.

A read by an index cannot be faster than one whose task returns its rows from memory, without a plan, a pin or a store.
It has one task, as the read by an index has. A source that keeps its rows in LMDB must also look them up. The look-ups
are measured alone: the task knows the keys, and the rows that it returns are in memory. A write cannot be faster than
one whose tasks encode and stage their rows, with no load afterwards. Both are compared with Lowtide, and with the
references: the full scan, and Spark's write to Parquet.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import lowtide
from bench.spark.jobs import CACHE_OFF, NONE, SOME, Files, Sources, to_nowhere
from bench.spark.rows import COLLECTION, SCHEMA, build_lowtide, build_parquet
from bench.spark.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work = Callable[[], object]
_WARM = 2
"""Number of warm-up turns."""


def rows_of(files: Files, kept: bool) -> Path:
    """An LMDB file with only the rows. A process cannot map one twice, so the kept map has a file of its own."""
    return files.place / ("kept_rows" if kept else "rows")


def reads(spark: SparkSession, files: Files, count: int) -> dict[str, Work]:
    """The reads, the full scan first."""
    sources = Sources(spark, files)

    def from_memory() -> DataFrame:
        reader = spark.read.format("from_memory").option("documents", count).option("partitions", 1)
        return reader.schema(SCHEMA).load()

    def looked_up(kept: bool) -> DataFrame:
        reader = spark.read.format("looked_up").option("documents", count).option("kept", kept)
        return reader.option("path", str(rows_of(files, kept))).schema(SCHEMA).load()

    return {
        "full scan": lambda: to_nowhere(sources.lowtide()),
        "1 % by an index": lambda: to_nowhere(sources.lowtide(CACHE_OFF | SOME)),
        "1 % looked up in a new map": lambda: to_nowhere(looked_up(False)),
        "1 % looked up in a kept map": lambda: to_nowhere(looked_up(True)),
        "1 % from memory": lambda: to_nowhere(from_memory()),
        "no rows at all": lambda: to_nowhere(sources.lowtide(CACHE_OFF | NONE)),
    }


def writes(spark: SparkSession, files: Files) -> dict[str, Work]:
    """The writes, the one to Parquet first."""
    sources = Sources(spark, files)
    target = files.place / "written"

    def to_parquet() -> None:
        sources.unwritten().write.mode("append").parquet(str(target))

    def to_store(kind: str) -> None:
        writer = sources.unwritten().write.format(kind).mode("append").option("path", str(target))
        writer.option("collection", COLLECTION).save()

    return {
        "write to Parquet": to_parquet,
        "encode and stage": lambda: to_store("staged_only"),
        "write to Lowtide": lambda: to_store("lowtide"),
    }


def turns(works: dict[str, Work], rounds: int, prepare: Callable[[str], object] = len) -> dict[str, float]:
    """The median time of each in seconds, measured in turns. ``prepare`` is called before each run and is not timed."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(_WARM + rounds):
        for name, work in works.items():
            prepare(name)
            started = perf_counter()
            work()
            taken[name].append(perf_counter() - started)
    return {name: median(seconds[_WARM:]) for name, seconds in taken.items()}


def tell(found: dict[str, float]) -> None:
    """Print a line for each, relative to the first."""
    first = next(iter(found.values()))
    for name, seconds in found.items():
        print(f"{name:28} {seconds:6.3f} s, {seconds / first:5.2f} of the first", flush=True)


def measure(spark: SparkSession, files: Files, count: int, rounds: int, only: str | None = None) -> None:
    from bench.spark.floor_sources import FromMemory, LookedUp, StagedOnly, build_rows

    spark.dataSource.register(FromMemory)
    spark.dataSource.register(LookedUp)
    spark.dataSource.register(StagedOnly)
    if only != "writes":
        for kept in (False, True):
            build_rows(str(rows_of(files, kept)), count)
        tell(turns(reads(spark, files, count), rounds))
    if only == "reads":
        return

    def emptied(name: str) -> None:
        shutil.rmtree(files.place / "written", ignore_errors=True)
        if "Parquet" not in name:
            lowtide.open(files.place / "written").close()

    tell(turns(writes(spark, files), rounds, emptied))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--documents", type=int, default=2_000_000, help="that are read; half as many are written")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("reads", "writes"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = Files(Path(scratch))
        if given.only != "writes":
            build_lowtide(str(files.lowtide), given.documents, True)
        build_parquet(str(files.unwritten), given.documents // 2)
        spark = make_session(files.place)
        try:
            measure(spark, files, given.documents, given.rounds, given.only)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
