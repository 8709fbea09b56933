"""A whole run of a pipeline on Spark, from its config file, and the archive as a stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lowtide
from lowtide import pipeline
from lowtide.errors import UsageError
from tests.docs.documents import ROOT, code_blocks

HISTORY = code_blocks(ROOT / "docs" / "audit.md", "json")[0].code
CONFIG = """
store = "shop"
archive = "archive"
compact = "always"
keep = "7d"
report = "reports"
metrics = "lowtide.prom"

[audit]
history = "history.jsonl"
level = "snapshot"

[[load]]
source = "orders.csv"
collection = "orders"
mapping = { _id = { from = "id", cast = "int" }, item = "item" }
quarantine = "bad"
name = "orders"
"""


def test_a_run_does_all_that_its_config_file_says(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,item\n1,tea\n2,cup\nthree,pot\n")
    (tmp_path / "history.jsonl").write_text(HISTORY)
    (tmp_path / "pipeline.toml").write_text(CONFIG)
    told: list[str] = []
    first = pipeline.run(spark, tmp_path / "pipeline.toml", progress=told.append)
    assert [each.name for each in first.steps] == ["load 1 into orders", "archive", "compact", "vacuum", "audit"]
    assert (first.ok, first.rows, first.quarantined, first.exit_code) == (True, 2, 1, 3)
    assert (first.kept, first.dropped) == (2, 0)
    assert first.status["tables"]["collections/orders"]["tail"] == 0
    assert any(each.startswith("archive: ") for each in told)
    written = json.loads((tmp_path / "reports" / "latest.json").read_text())
    assert written == json.loads(json.dumps(first.to_dict()))
    assert "collections/orders" in (tmp_path / "reports" / "latest.html").read_text()
    assert (
        f'archived_commit{{archive="{tmp_path / "archive"}"}} {first.commit}' in (tmp_path / "lowtide.prom").read_text()
    )
    again = pipeline.run(spark, tmp_path / "pipeline.toml")
    assert (again.ok, again.rows, again.exit_code) == (True, 0, 0)


def test_a_run_that_fails_says_where_and_keeps_what_was_done(spark: SparkSession, tmp_path: Path) -> None:
    lowtide.open(tmp_path / "shop", durability="relaxed").close()
    (tmp_path / "history.jsonl").write_text("not JSON\n")
    (tmp_path / "pipeline.toml").write_text(CONFIG.partition("[[load]]")[0])
    with pytest.raises(pipeline.RunFailed, match="the step audit failed") as caught:
        pipeline.run(spark, tmp_path / "pipeline.toml")
    assert [each.state for each in caught.value.report.steps] == ["done", "done", "done", "failed"]
    assert pipeline.status(tmp_path / "archive").commit == 0


def test_a_stream_archives_what_was_committed(spark: SparkSession, tmp_path: Path) -> None:
    store = lowtide.open(tmp_path / "shop", durability="relaxed")
    store["orders"].insert_many([{"_id": 1}, {"_id": 2}])
    reports: list[pipeline.ArchiveReport] = []
    for more in (0, 1):
        if more:
            store["orders"].insert_one({"_id": 3})
        query = pipeline.archive_stream(
            spark, tmp_path / "shop", tmp_path / "archive", trigger={"availableNow": True}, report=reports.append
        )
        query.awaitTermination()
        assert query.exception() is None
    last = store.stats().last_commit
    store.close()
    assert reports[-1].commit == last
    assert sum(each.rows for each in reports) == 3
    with pytest.raises(UsageError, match="trigger is"):
        pipeline.archive_stream(spark, "shop", "archive", trigger={"never": True})
