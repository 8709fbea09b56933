"""A driver, which may be killed: ``python -m tests.spark.programs.driver MASTER DIRECTORY SETTINGS [--of-a-user]``.

The settings are JSON. The session of a user is not made by Lowtide, which sees it first when it is asked to read.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lowtide.spark
from lowtide import pipeline
from tests.spark.programs.gates import GatedSource
from tests.spark.programs.ledger import SCHEMA, sum_of
from tests.spark.programs.obeying import obey

SLOW_START = "Python worker failed to connect back"
"""What Spark says of a stream whose Python process takes 10 seconds to start, as on a machine with much other load. The
time cannot be set. Such a stream is started again, and goes on where it was."""
CHANGES = "_id long, n long, _change_type string, _commit_version long"


class Driver:
    """A session and what is done with it; commands come from several threads."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._gates = threading.Lock()
        self._has_gates = False

    def perform(self, what: str, **more: Any) -> Any:
        activate(self._spark)
        if what not in ("jvm", "count"):
            self._register()
        return getattr(self, f"do_{what}")(**more)

    def _register(self) -> None:
        with self._gates:
            if not self._has_gates:
                lowtide.spark.register(self._spark).dataSource.register(GatedSource)
                self._has_gates = True

    def do_count(self, path: str, collection: str) -> int:
        """How many rows a read of Lowtide has."""
        return lowtide.spark.read(self._spark, path, collection).count()

    def do_jvm(self) -> int:
        """The process of the JVM, which is Spark's driver."""
        jvm: Any = self._spark.sparkContext._jvm
        return int(jvm.java.lang.ProcessHandle.current().pid())

    def _frame(self, options: dict[str, str]) -> DataFrame:
        return self._spark.read.format(_format(options)).options(**options).schema(SCHEMA).load()

    def do_sum(self, **options: str) -> tuple[int, int, int]:
        """What a read of the ledger shows. It keeps nothing of the store afterwards."""
        frame = self._frame(options)
        found: tuple[int, int, int] = astuple(sum_of(frame))
        if _format(options) == "lowtide":
            lowtide.spark.release(frame)
        return found

    def do_executors(self, **options: str) -> list[str]:
        """The executors, by their names, that read the ledger's parts."""
        frame = self._frame(options).selectExpr("_id", "spark_partition_id() AS part")
        rows = frame.mapInArrow(_with_executor, "executor string").distinct().collect()
        return sorted(row["executor"] for row in rows)

    def do_write(self, rows: int, **options: str) -> None:
        """Insert documents with the _ids from 0 on, in two tasks."""
        documents_of(self._spark, rows).write.format(_format(options)).mode("append").options(**options).save()

    def do_stream(self, source: dict[str, str], target: dict[str, str]) -> None:
        """Copy the changes of the ledger until there are no more."""
        while True:
            try:
                copy(self._spark, source, target).awaitTermination()
            except StreamingQueryException as error:
                if SLOW_START not in str(error):
                    raise
            else:
                return

    def do_archive(self, store: str, archive: str, runs: int = 1) -> dict[str, Any]:
        """Runs of the archiver, one after another; returns what the last one reports."""
        for _ in range(runs - 1):
            pipeline.archive(self._spark, store, archive)
        return pipeline.archive(self._spark, store, archive).to_dict()

    def do_load(self, source: str, store: str, **more: Any) -> dict[str, Any]:
        """A load of files into the collection ``c``."""
        return pipeline.load(self._spark, source, store, "c", **more).to_dict()

    def do_stop(self) -> None:
        self._spark.stop()


def _format(options: dict[str, str]) -> str:
    return "gated" if "gates" in options else "lowtide"


def activate(spark: SparkSession) -> SparkSession:
    """Let writes from this thread find the formats that are registered: it has no session of its own."""
    module: Any = SparkSession._get_j_spark_session_class(spark._jvm)
    module.setActiveSession(spark._jsparkSession)
    return spark


def documents_of(spark: SparkSession, rows: int) -> DataFrame:
    """Documents with the _ids from 0 on, in two parts."""
    return spark.range(0, rows, 1, 2).selectExpr("id AS _id", "id * 7 AS n")


def copy(spark: SparkSession, source: dict[str, str], target: dict[str, str]) -> StreamingQuery:
    """A stream that inserts a document for every change of the ledger that there is when it starts."""
    options = {"readChangeFeed": "true", "preimages": "none", **source}
    changes = spark.readStream.format(_format(source)).options(**options).schema(CHANGES).load()
    rows = changes.selectExpr("_id AS key", "n", "_change_type AS kind", "_commit_version AS version")
    writer = rows.writeStream.format(_format(target)).options(**target).trigger(availableNow=True)
    return writer.start()


def _with_executor(batches: Any) -> Any:
    """In a task: which executor this is, told by its working directory."""
    import pyarrow as pa

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"executor": [os.getcwd()]})


def home_in(directory: Path) -> Path:
    """A home of Spark that is all links: the workers of a local-cluster write below it."""
    home = directory / "spark"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.name != "work":
            (home / each.name).symlink_to(each)
    return home


def session_of_a_user(master: str, settings: dict[str, str]) -> SparkSession:
    builder: Any = SparkSession.builder
    local = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in {"spark.master": master, "spark.sql.session.timeZone": "UTC", **local, **settings}.items():
        builder = builder.config(name, value)
    started: SparkSession = builder.getOrCreate()
    return started


def main() -> None:
    master, directory, given = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(directory / "scratch"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        **given,
    }
    if master.startswith("local-cluster"):
        os.environ["SPARK_HOME"] = str(home_in(directory))
    start = session_of_a_user if "--of-a-user" in sys.argv else lowtide.spark.session
    obey(Driver(start(master, settings=settings)).perform)


if __name__ == "__main__":
    main()
