"""Spark Connect: reads, writes, tables and streams by a client that has no JVM of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import lowtide
from tests.support.attack import FULL


def test_a_client_of_spark_connect_reads_writes_and_streams(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store") as store:
        store["users"].insert_many([{"_id": n, "age": n % 50} for n in range(100)])
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
    places = [str(tmp_path / name) for name in ("store", "copy", "checkpoint")]
    command = [sys.executable, "-m", "tests.spark.connected", *places]
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
