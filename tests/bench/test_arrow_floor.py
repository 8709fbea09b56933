"""The floor of to_arrow reads what to_arrow converts, and reports its times."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lowtide
from bench import arrow_floor
from bench.collections.people import make_people
from lowtide.values.codec import encode_document

COUNT = 300


def test_the_floor_reads_all_documents(tmp_path: Path) -> None:
    arrow_floor.fill(tmp_path / "store", COUNT)
    with lowtide.open(tmp_path / "store") as store:
        assert store["people"].to_arrow().num_rows == COUNT
        assert arrow_floor.read(store) == sum(len(encode_document(each)) for each in make_people(0, COUNT, COUNT))


def test_it_tells_a_line_for_each_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(sys, "argv", ["arrow_floor", "--documents", str(COUNT), "--rounds", "1"])
    arrow_floor.main()
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "read the stored documents",
        "to_arrow",
        "duckdb, one thread",
        "duckdb, all threads",
    ]
