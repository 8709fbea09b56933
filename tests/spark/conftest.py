"""One Spark session for all of these tests: they run in one process, one after the other (see ``OneSession``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

import lowtide.spark
from tests.support.java import needs_java

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
"""What makes a session start, and a small query run, quickly."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip all of this where Spark cannot run."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(needs_java)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(warehouse), "spark.local.dir": str(warehouse)}
    session = lowtide.spark.session("local[2]", settings=settings)
    yield session
    session.stop()
