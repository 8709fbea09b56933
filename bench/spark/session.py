"""Whether Spark can run here, and the one session of a run.

The JVM compiles as it does by default: settings that start it sooner would slow down Spark's own readers, which are
what Lowtide is compared with.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import lowtide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
ROOT = Path(__file__).resolve().parents[2]
FILES = {"spark.sql.files.maxPartitionBytes": "1g", "spark.sql.files.openCostInBytes": "1g"}
"""So that Spark's own readers have a task for each file: as many as there are cores. Spark would cut a file that is
larger than the others by more than the cost of opening one, and have a third task for the rest."""


def lacking() -> str | None:
    """What has to be installed before Spark can run; None if it can."""
    try:
        from lowtide.spark.session import check_java

        check_java()
    except lowtide.UsageError as error:
        return str(error)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'lowtide[spark]'"
    return None


def prepare_environment() -> None:
    """Let the workers find this interpreter, the benchmark and the Lowtide that is measured. Before the JVM starts."""
    sources = str(Path(lowtide.__file__).parents[1])
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [str(ROOT), sources, *given])))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def make_session(place: Path) -> SparkSession:
    """A local session with two cores, whose files are all in this directory."""
    prepare_environment()
    import lowtide.spark
    from bench.spark.sources import SqliteArrow, SqliteTuples

    settings = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(CORES),
        **FILES,
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.local.dir": str(place / "scratch"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={place} -Dderby.system.home={place}",
    }
    spark = lowtide.spark.session(f"local[{CORES}]", app="lowtide bench", settings=settings)
    spark.dataSource.register(SqliteArrow)
    spark.dataSource.register(SqliteTuples)
    return spark
