"""Creates a Spark session with the format ``lowtide``, and reports clearly why Spark cannot start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lowtide.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYSPARK: Final = (4, 3)
"""The release of PySpark whose data source API this is written for."""
JAVA: Final = (17, 21, 25)
"""The releases of Java that it runs on."""

_PYTHON: Final = "PYSPARK_PYTHON"
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings of a session: quiet, times in UTC."""
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Additional settings of a local session: nothing is reachable from other machines."""


def session(
    master: str = "local[*]", *, app: str = "lowtide", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a Spark session with sensible local settings and the format ``lowtide`` registered.

    Returns the running session, if there is one. ``settings`` are Spark settings that override the defaults.
    """
    check_pyspark()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is None:
        check_java()
        os.environ.setdefault(_PYTHON, sys.executable)
        builder: Any = SparkSession.builder
        builder = builder.master(master).appName(app).config("spark.pyspark.python", os.environ[_PYTHON])
        is_local = master.startswith("local")
        if is_local:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # for the workers of a local-cluster
        for name, value in {**_SETTINGS, **(_LOOPBACK if is_local else {}), **(settings or {})}.items():
            builder = builder.config(name, value)
        running = builder.getOrCreate()
    return register(running)


def register(spark: SparkSession) -> SparkSession:
    """Register the format ``lowtide`` in a session, which may be one of Spark Connect. Returns the session."""
    check_pyspark()
    from lowtide.spark.source import LowtideSource

    _use_this_python(spark)
    spark.dataSource.register(LowtideSource)
    return spark


def _use_this_python(spark: SparkSession) -> None:
    """Make a local session's processes use this process's interpreter, unless the user names another.

    Spark's default is python3 from the PATH, which lacks Lowtide if a virtual environment is not activated.
    """
    if _PYTHON in os.environ:
        return
    try:
        context = spark.sparkContext
    except Exception:  # a Spark Connect session has none; its server chooses the interpreter
        return
    if (context.master or "").startswith("local"):
        context.pythonExec = sys.executable


@contextmanager
def explained(spark: SparkSession) -> Iterator[None]:
    """Raise an error that names the interpreter of Spark's processes if Lowtide is not installed there."""
    try:
        yield
    except Exception as error:
        if "No module named 'lowtide'" not in str(error):
            raise
        try:
            where = f"the Python of Spark's processes, {spark.sparkContext.pythonExec},"
        except Exception:
            where = "the Python of the Spark Connect server"
        raise UsageError(
            f"{where} has no Lowtide: install it there, or set {_PYTHON} to an interpreter that has it, such as "
            f"{sys.executable}, before the session or its server is started"
        ) from error


def check_pyspark() -> None:
    """Raise if PySpark is missing or has an unsupported version."""
    try:
        import pyspark
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise UsageError("lowtide.spark needs PySpark, which is not installed: pip install 'lowtide[spark]'") from error
    numbers = re.findall(r"\d+", pyspark.__version__)
    if tuple(map(int, numbers[:2])) != PYSPARK:
        wanted = ".".join(map(str, PYSPARK))
        raise UsageError(
            f"lowtide.spark is written for PySpark {wanted}, and {pyspark.__version__} is installed: "
            f"pip install 'pyspark=={wanted}.*'"
        )


def check_java() -> None:
    """Raise if Java is missing or has a version that Spark does not support."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    wanted = " or ".join(map(str, JAVA))
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java is on the PATH"
        raise UsageError(
            f"Spark needs Java {wanted}, but {where}: install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
            "macOS: brew install openjdk@17), or set JAVA_HOME"
        )
    try:
        found = java_release(subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr)
        what = f"is Java {found}" if found is not None else "does not say which release it is"
    except OSError as error:
        found, what = None, f"cannot be run ({error.strerror})"
    if found not in JAVA:
        raise UsageError(f"Spark needs Java {wanted}, but {java} {what}: install one of these, and set JAVA_HOME to it")


def java_release(text: str) -> int | None:
    """Parse the major version from the output of ``java -version``.

    >>> java_release('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_release('java version "1.8.0_402"')
    8
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None
