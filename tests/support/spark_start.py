"""Prepares a virtual environment, once, in which Spark starts quickly.

* An archive of Spark's loaded classes. Java maps it instead of reading, checking and linking ten thousand classes from
  jars. A session starts in less than half the time, and tests start twenty. Java itself checks that the archive fits,
  and ignores it otherwise. The process of a test run that starts the session creates the archive first, while the
  others run tests.
* PySpark as it is installed. Spark puts a zip of PySpark's sources first on the path of its Python processes, and each
  of them compiles those sources again, for half a second. The installed package is the same, and is compiled. ``python
  -m tests.support.spark_start`` arranges this, as ``make test`` does.

Both only make the tests faster.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Final

ARCHIVE: Final = Path(sys.prefix, "spark.jsa")
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn384m -XX:ReservedCodeCacheSize=240m -Xlog:disable"
"""What makes a session start, and small queries run, quickly. Java says nothing where the archive does not fit."""
_OPTIONS: Final = "JAVA_TOOL_OPTIONS"
_PATHS: Final = Path(sysconfig.get_path("purelib"), "lowtide_tests.pth")
"""Python runs the lines of such a file when it starts, after it has read PYTHONPATH."""
_WITHOUT_ZIP: Final = 'import sys; sys.path[:] = [each for each in sys.path if not each.endswith("pyspark.zip")]\n'
_LONGEST: Final = 300.0
"""Seconds that the making may take: half a minute on a quiet machine."""


def set_java_options() -> None:
    """Have every Java that this process starts from now on use these options, unless others are given. Another process
    may have made the archive meanwhile."""
    if os.environ.get(_OPTIONS, _QUICK) == _QUICK:
        os.environ[_OPTIONS] = f"{_QUICK} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else _QUICK


def main() -> None:
    _PATHS.write_text(_WITHOUT_ZIP)


def archive_classes() -> None:
    """Make the archive if there is none and it would be used, in a process of its own, which ends with Java."""
    if ARCHIVE.exists() or os.environ.get(_OPTIONS, _QUICK) != _QUICK:
        return
    temporary = ARCHIVE.with_suffix(f".{os.getpid()}.part")  # two runs may do this at once
    options = f"{_QUICK} -XX:ArchiveClassesAtExit={temporary}"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, _OPTIONS: options}
    command = [sys.executable, "-c", "from tests.support.spark_start import work; work()"]
    try:
        made = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LONGEST, check=False)
        failed = "" if made.returncode == 0 and temporary.exists() else made.stderr[-500:] or "Java made none"
    except subprocess.TimeoutExpired as error:
        failed = str(error)
    if failed:
        temporary.unlink(missing_ok=True)
        print(f"Without an archive of Spark's classes, tests take longer: {failed}")
    else:
        temporary.rename(ARCHIVE)


def work() -> None:
    """What most tests do: queries, processes in Python, Parquet, a stream. It needs nothing but PySpark itself."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import udf

    builder: Any = SparkSession.builder
    for name in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(name, "127.0.0.1")
    spark = builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as directory:
        rows = spark.createDataFrame([(1, "a"), (2, "b")], "n long, t string")
        rows.withColumn("length", udf(len, "int")("t")).write.parquet(f"{directory}/rows")
        found = spark.read.parquet(f"{directory}/rows")
        found.join(rows, "n").groupBy("n").count().orderBy("n").collect()
        stream = spark.readStream.schema(rows.schema).parquet(f"{directory}/rows").writeStream
        query = stream.option("checkpointLocation", f"{directory}/at").trigger(availableNow=True)
        query.start(f"{directory}/out", format="parquet").awaitTermination()
    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # Java ends when its parent does, and writes the archive then
    gateway.proc.wait(_LONGEST)


if __name__ == "__main__":
    main()
