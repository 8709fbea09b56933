"""The act of the demo that needs Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from demo import spark_report
from demo.checks import Settings
from demo.screen import Screen


def test_spark_finds_the_same_sum_beside_the_tellers(spark: SparkSession, tmp_path: Path) -> None:
    settings = Settings(seconds=1, threads=2, accounts=16, kill_within=1, seed=1)
    checks = spark_report.run(tmp_path / "bank", settings, Screen())
    assert [check.held for check in checks] == [True, True], checks
