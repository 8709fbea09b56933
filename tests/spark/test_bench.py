"""The benchmark's jobs in a real session: its own sources and Lowtide yield the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lowtide
from bench.figures import BASE
from bench.spark import floor, rows
from bench.spark.jobs import (
    ARROW,
    CACHE_OFF,
    FILTER,
    SCAN,
    SOME,
    TUPLES,
    Files,
    Sources,
    check_partitions,
    reading_jobs,
)
from bench.spark.session import CORES, FILES
from bench.spark.sources import SqliteArrow, SqliteTuples

COUNT = 3_000
CHECKED = {(SCAN, BASE), (FILTER, BASE), (SCAN, ARROW), (SCAN, TUPLES)}


def test_every_source_yields_the_rows_of_its_job(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(tmp_path)
    rows.build_lowtide(str(files.lowtide), COUNT, indexed=True)
    rows.build_sqlite(str(files.sqlite), COUNT)
    spark.dataSource.register(SqliteArrow)
    spark.dataSource.register(SqliteTuples)
    jobs = [job for job in reading_jobs(Sources(spark, files), files, COUNT) if (job.line, job.peer) in CHECKED]
    assert len(jobs) == len(CHECKED)
    for job in jobs:
        job.check()


def test_files_of_unequal_size_are_a_task_each(spark: SparkSession, tmp_path: Path) -> None:
    """Later ids are longer, so the second file is larger by more than Spark lets pass."""
    files = Files(tmp_path)
    files.lines.mkdir()
    for at, count in enumerate((1_000, 200_000)):
        (files.lines / f"part-{at}.json").write_text(f'{{"_id": 1, "name": "{"x" * 50}"}}\n' * count)
    before = {name: spark.conf.get(name) for name in FILES}
    try:
        for name, value in FILES.items():
            spark.conf.set(name, value)
        check_partitions(Sources(spark, files).lines(), CORES, SCAN, "JSON Lines")
    finally:
        for name, former in before.items():
            assert former is not None
            spark.conf.set(name, former)


def test_the_floors_read_and_write_the_same_rows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = Files(tmp_path)
    rows.build_lowtide(str(files.lowtide), COUNT, indexed=True)
    rows.build_parquet(str(files.unwritten), COUNT)
    floor.measure(spark, files, COUNT, rounds=1)
    told = [line.partition("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert told == [*floor.reads(spark, files, COUNT), *floor.writes(spark, files)]
    reader = spark.read.format("from_memory").option("documents", COUNT).option("partitions", CORES)
    by_index = Sources(spark, files).lowtide(CACHE_OFF | SOME)
    found = reader.schema(rows.SCHEMA).load().orderBy("_id").collect()
    assert found == by_index.orderBy("_id").collect()
    assert len(found) == rows.selected(COUNT)
    with lowtide.open(tmp_path / "written") as store:
        assert store[rows.COLLECTION].count_documents({}) == COUNT  # the last of the writes, to Lowtide
