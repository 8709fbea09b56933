"""Whether Spark can run here, and the one session of a run.

The JVM compiles as it does by default: settings that start it sooner would slow down Spark's own readers, which are
what Lowtide is compared with.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib import import_module, util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
ROOT = Path(__file__).resolve().parents[2]


def lacking() -> str | None:
    """What has to be installed before Spark can run; None if it can."""
    if util.find_spec("pyspark") is None:
        return "PySpark is not installed (pip install 'lowtide[spark]')"
    if util.find_spec("pyarrow") is None:
        return "PyArrow is not installed (pip install 'lowtide[spark]')"
    home = os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").exists() if home else shutil.which("java")):
        return f"there is no java {'in JAVA_HOME' if home else 'on the PATH'}: Spark needs Java 17 or later"
    return None


def prepare_environment() -> None:
    """Let the workers find this interpreter, the benchmark and the Lowtide that is measured. Before the JVM starts."""
    import lowtide

    sources = str(Path(lowtide.__file__).parents[1])
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [str(ROOT), sources, *given])))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def make_session(place: Path) -> SparkSession:
    """A local session with two cores, whose files are all in this directory."""
    from pyspark.sql import SparkSession

    prepare_environment()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.local.dir": str(place / "scratch"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={place} -Dderby.system.home={place}",
    }
    builder = SparkSession.Builder().master(f"local[{CORES}]").appName("lowtide bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _register(spark)
    return spark


def _register(spark: SparkSession) -> None:
    from bench.spark.sources import SqliteArrow, SqliteTuples

    spark.dataSource.register(SqliteArrow)
    spark.dataSource.register(SqliteTuples)
    if util.find_spec("lowtide.spark") is not None:
        import_module("lowtide.spark").register(spark)
