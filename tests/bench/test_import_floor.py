"""The floor of an import: each step does what it says, and reports its time."""

from __future__ import annotations

import sys
from pathlib import Path

import lmdb
import pytest

import lowtide
from bench import import_floor
from bench.importing import write_lines

COUNT = 300


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_lines(tmp_path / "people.jsonl", COUNT)
    return tmp_path / "people.jsonl"


def test_every_step_handles_all_documents(file: Path, tmp_path: Path) -> None:
    assert sum(map(len, import_floor.decode(file))) == COUNT
    assert sum(len(each.keys) for each in import_floor.encode(file)) == COUNT
    import_floor.append(file, tmp_path / "lmdb")
    with lmdb.open(str(tmp_path / "lmdb")) as environment:
        assert environment.stat()["entries"] == COUNT
    committed: list[bool] = []
    import_floor.insert(file, tmp_path / "store", lambda: committed.append(True))
    assert committed == [True]
    with lowtide.open(tmp_path / "store", read_only=True) as store:
        assert store["people"].count_documents({}) == COUNT


def test_it_tells_a_line_for_each_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["import_floor", "--documents", str(COUNT)])
    import_floor.main()
    told = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in told] == [
        "read and decode",
        "... and encode",
        "... and append to LMDB in key order",
        "import, until it is committed",
        "import, until the store is closed",
    ]
