"""Each example with Spark runs and prints something."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.project.test_examples import SPARK

SAYS = {
    "spark_over_a_live_store": "orders now: 667",
    "rdf_on_spark": "statements removed since: 93\nacquaintances then: 93",
}


@pytest.mark.parametrize("example", SPARK, ids=lambda path: str(path.stem))
def test_the_example_runs(example: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert SAYS[example.stem] in capsys.readouterr().out
