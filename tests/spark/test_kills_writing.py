"""kill -9 of the owner in mid-write: the collection has all of a job or nothing, and in the end all of it, once.

Killed tasks are tested in test_cluster, killed drivers in test_killed_drivers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lowtide
from tests.spark.processes import Programs, in_background, programs_in, wait_for
from tests.spark.programs.driver import activate, documents_of
from tests.spark.programs.gates import GatedSource, new_gate, open_gate
from tests.support.patience import PATIENCE

ROWS = 500


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with programs_in(tmp_path) as programs:
        yield programs


def check_written(path: Path) -> None:
    """All of it is there, once, and nothing else is left."""
    with lowtide.open(path) as store:
        found = sorted((each["_id"], each["n"]) for each in store["written"].find())
        assert found == [(number, number * 7) for number in range(ROWS)]
        assert store.verify().ok
    assert list((path / "staging").iterdir()) == []


@pytest.mark.parametrize("place", ["commit.enter", "commit.log", "commit.publish", "commit.visible"])
def test_a_write_whose_owner_is_killed_in_the_commit_is_there_once(
    spark: SparkSession, programs: Programs, tmp_path: Path, place: str
) -> None:
    path = tmp_path / "store"
    owner = programs.owner(path, place=place)
    write = documents_of(spark, ROWS).write.format("lowtide").mode("append")
    write.options(path=str(path), collection="written").save()
    assert owner.has_ended
    check_written(path)


def test_a_write_goes_on_when_its_owner_is_killed_and_another_one_comes(
    spark: SparkSession, programs: Programs, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    staged = new_gate(tmp_path / "commit")
    owner = programs.owner(path)
    spark.dataSource.register(GatedSource)

    def write() -> None:
        writer = documents_of(activate(spark), ROWS).write.format("gated").mode("append")
        writer.options(path=str(path), collection="written", gates=str(tmp_path)).save()

    with in_background(write) as saved:
        wait_for(staged, 1, saved)
        owner.kill()
        second = programs.owner(path)
        open_gate(staged)
        saved.result(PATIENCE)
    assert second.ask("pins") == []
    second.ask("close")
    check_written(path)
