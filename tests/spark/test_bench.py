"""The benchmark's jobs in a real session: what its own sources and Lowtide yield are the same rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from bench.figures import BASE
from bench.spark import rows
from bench.spark.jobs import ARROW, FILTER, SCAN, TUPLES, Files, Sources, check_partitions, reading_jobs
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
