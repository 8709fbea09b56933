"""Spark Connect: reads, writes, tables and streams by a client without its own JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lowtide
from tests.support.attack import FULL


@pytest.fixture
def server(spark: SparkSession) -> Iterator[str]:
    """The address of a server of Spark Connect, which is in the JVM of the test run's session: its clients have
    sessions of their own there."""
    jvm: Any = spark.sparkContext._jvm
    context: Any = spark.sparkContext._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.address", "127.0.0.1")
    context.conf().set("spark.connect.grpc.binding.port", "0")
    service = getattr(getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    service.start(context)
    yield f"sc://127.0.0.1:{service.localPort()}"
    service.stop(getattr(service, "stop$default$1")(), getattr(service, "stop$default$2")())


def test_a_client_of_spark_connect_reads_writes_and_streams(server: str, tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store") as store:
        store["users"].insert_many([{"_id": n, "age": n % 50} for n in range(100)])
    places = [str(tmp_path / name) for name in ("store", "copy", "checkpoint")]
    command = [sys.executable, "-m", "tests.spark.connected", server, *places]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    environment["JAVA_HOME"] = str(tmp_path / "no Java")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    owner = found.pop("owner")
    assert "Spark application" in owner
    assert f"{Path(__file__).with_name('connected.py')}:" in owner
    assert found == {
        "is_connect": True,
        "first": [100, 20],
        "same instant": [100, 50],
        "pins": 2,
        "released": 1,
        "own words": 50,
        "written": 52,
        **({"table": 1002, "streamed": 53} if FULL else {}),
    }
