"""The benchmark's jobs in a real session: what its own sources and Lowtide yield are the same rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from bench.figures import BASE
from bench.spark import rows
from bench.spark.jobs import ARROW, FILTER, SCAN, TUPLES, Files, Sources, reading_jobs
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
