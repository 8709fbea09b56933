"""The Spark session of a command: that of spark-submit, or a new one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from lowtide.system.extras import require

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark's master; by default that of spark-submit, or all cores of this machine.",
        show_default=False,
    ),
]

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable in which spark-submit passes the address of its JVM."""


def pipeline_module() -> Any:
    """Import ``lowtide.pipeline``, or raise a UsageError that names the extra if its packages are missing."""
    require("deltalake", "pipeline", "lowtide pipeline")
    require("pandas", "pipeline", "lowtide pipeline")
    require("pyspark", "spark", "lowtide pipeline")
    require("pyarrow", "spark", "lowtide pipeline")
    import lowtide.pipeline

    return lowtide.pipeline


@contextmanager
def spark_session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session, stopped at the end if it was started here."""
    pipeline_module()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    import lowtide.spark
    from lowtide.spark.session import register

    sessions = require("pyspark.sql", "spark", "lowtide pipeline").SparkSession
    running = sessions.getActiveSession()
    if running is not None:
        yield register(running)
        return
    if _SUBMITTED in os.environ and master is None:
        builder: Any = sessions.builder
        for name, value in (settings or {}).items():
            builder = builder.config(name, value)
        started = register(builder.getOrCreate())
    else:
        started = lowtide.spark.session(master or "local[*]", app="lowtide pipeline", settings=settings)
    try:
        yield started
    finally:
        started.stop()
