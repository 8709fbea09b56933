"""The floor of to_arrow: its steps make the table that to_arrow makes, and report their times."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lowtide
from bench import arrow_floor

COUNT = 300


def test_the_floor_makes_the_same_table(tmp_path: Path) -> None:
    batches = arrow_floor.make_stored(COUNT)
    assert arrow_floor.decoded(batches) == COUNT
    arrow_floor.fill(tmp_path / "store", COUNT)
    with lowtide.open(tmp_path / "store") as store:
        table = store["people"].to_arrow()
    floor = arrow_floor.converted(batches)
    assert floor.select(table.schema.names).equals(table)


def test_it_tells_a_line_for_each_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(sys, "argv", ["arrow_floor", "--documents", str(COUNT), "--rounds", "1"])
    arrow_floor.main()
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "decode the documents",
        "... and make a column of each field",
        "to_arrow",
        "duckdb, one thread",
        "duckdb, all threads",
    ]
