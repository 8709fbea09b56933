"""The floor of a load: each step does what it says, and reports its time."""

from __future__ import annotations

import sys
from pathlib import Path

import lmdb
import pytest

import lowtide
from bench import load_floor
from bench.spark.rows import COLLECTION, make_document
from lowtide.feed.differences import block_in

COUNT = 300


@pytest.mark.parametrize(("size", "how"), [(load_floor.ONE, "one"), (load_floor.BULK, "bulk")])
def test_every_step_handles_all_documents(tmp_path: Path, size: int, how: str) -> None:
    path = tmp_path / "store"
    lowtide.open(path).close()
    name, directory, file = load_floor.stage_documents(path, COUNT, size)
    assert load_floor.read(directory, file) == COUNT
    assert load_floor.straight(directory, file, tmp_path / "rows", changes=False) == COUNT
    load_floor.straight(directory, file, tmp_path / "both", changes=True)
    with lmdb.open(str(tmp_path / "both")) as environment, environment.begin() as txn:
        rows = list(txn.cursor().iternext())
    assert [key for key, _ in rows] == sorted(key for key, _ in rows)
    blocks = [block for _, row in rows if (block := block_in(row[8:])) is not None]
    assert [value for block in blocks for value in block.values] == [row[8:] for _, row in rows[:COUNT]]
    committed: list[bool] = []
    load_floor.load(path, name, lambda: committed.append(True))
    assert committed == [True]
    with lowtide.open(path, read_only=True) as store:
        assert store[COLLECTION].count_documents({}) == COUNT
        assert store[COLLECTION].find_one({"_id": 7}) == make_document(7)


def test_it_tells_a_line_for_each_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["load_floor", "--documents", str(COUNT)])
    load_floor.main()
    told = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in told] == [
        "read the staged files",
        "... and put the rows into LMDB in key order",
        "... and what the change feed shows",
        "one transaction, until it is committed",
        "one transaction, until the store is closed",
        "bulk load, until it is committed",
        "bulk load, until the store is closed",
        "straight to the base, until it is committed",
        "straight to the base, until the store is closed",
    ]
