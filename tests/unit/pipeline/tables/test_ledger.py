"""The ledger has every entry once, in order, however its files are joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from deltalake import DeltaTable

from lowtide.pipeline.tables import ledger as ledger_module
from lowtide.pipeline.tables.ledger import TAG, ArchiveLedger
from lowtide.pipeline.tables.location import Location


def test_entries_are_read_as_they_were_written_also_after_their_files_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "_COMPACT_EVERY", 20)
    place = Location.of(tmp_path / "an archive, 100 %")
    ledger = ArchiveLedger(place)
    assert not ledger.exists
    for number in range(22):
        ledger.add(TAG, until=number, detail={"name": f"tag {number}"})
    assert len(DeltaTable(f"{place.uri}/ledger").file_uris()) < 10
    again = ArchiveLedger(place)
    assert [(each.until, each.detail["name"]) for each in again.entries] == [(n, f"tag {n}") for n in range(22)]
    assert again.entries == ledger.entries


def test_no_thread_of_arrow_calls_python_to_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends while one does is aborted, and its exit code lost."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("delta-rs reads files by a file system that is written in Python")

    ArchiveLedger(Location.of(tmp_path)).add(TAG, until=1)
    monkeypatch.setattr(DeltaTable, "to_pyarrow_dataset", refuse)
    assert len(ArchiveLedger(Location.of(tmp_path)).entries) == 1
