"""Compaction joins files, and every commit sees what it saw before."""

from __future__ import annotations

import json
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from lowtide import pipeline
from lowtide.pipeline.errors import ArchiveError, ConflictingRun
from lowtide.pipeline.tables.columns import KEY, VALID_TO, VERSION
from lowtide.pipeline.tables.files import CLOSED, OPEN, TAIL
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import table_at
from lowtide.pipeline.tables.names import COLLECTIONS, TableName
from tests.conftest import OpenStore
from tests.spark.chains import Chains

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The package has a function of the same name.
compacting: Any = import_module("lowtide.pipeline.tables.compact")


def test_every_commit_sees_the_same_before_and_after(spark: SparkSession, tmp_path: Path) -> None:
    chains = Chains(tmp_path / "archive", seed=1)
    for _ in range(2):
        chains.run(6)
        before = chains.table.files
        report = pipeline.compact(spark, chains.path)
        chains.table.reload()
        assert chains.table.compacted == chains.last
        assert set(chains.files()) == {OPEN, CLOSED}
        assert report.rows == sum(each.rows for each in before if each.kind != CLOSED)
        # What was closed before is not written again.
        assert {each.name for each in before if each.kind == CLOSED} <= {each.name for each in chains.table.files}
        chains.check(spark, range(1, chains.last + 1, 3))
    chains.run(3)  # a tail on top
    chains.check(spark, [chains.last - 5, *range(chains.last - 3, chains.last + 1)])
    assert pipeline.compact(spark, chains.path, ["items"], force=True).tables["collections/items"].files_after == 2
    chains.check(spark, range(1, chains.last + 1, 3))
    assert pipeline.compact(spark, chains.path).tables == {}


def test_files_that_were_replaced_long_ago_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    """Also where nothing is ever vacuumed; and not before the grace period is over."""
    chains = Chains(tmp_path / "archive", seed=6)
    folder = Path(chains.table.location.root)

    def on_disk() -> set[str]:
        return {each.name for each in folder.glob("*.parquet")}

    chains.run(3)
    pipeline.compact(spark, chains.path)
    chains.run(3)
    replaced = {each.name for each in chains.now().files if each.kind != CLOSED}
    pipeline.compact(spark, chains.path)
    assert replaced <= on_disk()
    age_the_log(folder, days=8)
    chains.run(3)
    pipeline.compact(spark, chains.path)
    assert not replaced & on_disk()
    chains.check(spark, [3, 6, chains.last])


def age_the_log(folder: Path, days: int) -> None:
    """Have everything in a Delta table be so much older, as its log tells it."""
    for each in (folder / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in each.read_text().splitlines()]
        for line in lines:
            for name in ("deletionTimestamp", "timestamp", "modificationTime"):
                for action in line.values():
                    if name in action:
                        action[name] -= days * 86_400_000
        each.write_text("\n".join(map(json.dumps, lines)) + "\n")


def test_files_are_sorted_by_key_and_as_long_as_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    chains = Chains(tmp_path / "archive", seed=2, keys=40)
    chains.run(60)
    pipeline.compact(spark, chains.path, rows_per_file=20)
    chains.table.reload()
    for kind in (OPEN, CLOSED):
        files = sorted((each for each in chains.table.files if each.kind == kind), key=lambda each: each.first_key)
        assert len(files) > 1
        assert all(one.last_key < other.first_key for one, other in pairwise(files))
        for each in files:
            found = pq.read_table(f"{chains.table.location.root}/{each.name}", columns=[KEY, VERSION, VALID_TO])
            rows = [tuple(row.values()) for row in found.to_pylist()]
            assert rows == sorted(rows, key=lambda row: row[:2])
            assert all((end is None) == (kind == OPEN) for _, _, end in rows)
    chains.check(spark, [1, 30, chains.last])


def test_a_run_beside_a_compaction_loses_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = Chains(tmp_path / "archive", seed=3)
    chains.run(6)
    told = compacting.run_rows

    def then_run(*args: object) -> object:
        found = told(*args)
        chains.run(4)
        return found

    monkeypatch.setattr(compacting, "run_rows", then_run)
    pipeline.compact(spark, chains.path)
    assert set(chains.files()) == {OPEN, CLOSED, TAIL}
    assert chains.table.compacted == 6
    chains.check(spark)


def test_the_second_of_two_compactions_publishes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = Chains(tmp_path / "archive", seed=4)
    chains.run(6)
    told = compacting.run_rows

    def then_compact(*args: object) -> object:
        found = told(*args)
        monkeypatch.setattr(compacting, "run_rows", told)
        pipeline.compact(spark, chains.path)
        return found

    monkeypatch.setattr(compacting, "run_rows", then_compact)
    with pytest.raises(ConflictingRun, match="run it again"):
        pipeline.compact(spark, chains.path)
    chains.check(spark, [2, chains.last])


def test_an_archive_run_compacts_when_small_files_are_many(
    spark: SparkSession, open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, archive = open_store("shop"), tmp_path / "archive"
    monkeypatch.setattr(compacting, "MANY", 2)
    users = store.collection("users")
    kinds = []
    for number, mode in enumerate(["auto", "never", "auto"]):
        users.insert_one({"_id": number})
        pipeline.archive(spark, store.path, archive, ["users"], compact=mode)
        table = table_at(Location.of(archive), TableName(COLLECTIONS, "users"))
        kinds.append(sorted(each.kind for each in table.files))
    assert kinds == [[TAIL], [TAIL, TAIL], [OPEN]]


def test_an_unknown_collection_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    chains = Chains(tmp_path / "archive", seed=5)
    chains.run(1)
    with pytest.raises(ArchiveError, match="has no collection 'other'; it has: items"):
        pipeline.compact(spark, chains.path, ["other"])
