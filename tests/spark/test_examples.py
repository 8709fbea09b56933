"""Each example with Spark runs and says something."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.project.test_examples import SPARK


@pytest.mark.parametrize("example", SPARK, ids=lambda path: str(path.stem))
def test_the_example_runs(example: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert "orders now: 667" in capsys.readouterr().out
