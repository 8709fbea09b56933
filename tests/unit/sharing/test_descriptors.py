"""File descriptors of a store are closed with it, not later by Python's cyclic collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from tests.support.descriptors import open_below


@pytest.fixture
def no_cyclic_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("settings", [{}, {"durability": "relaxed"}], ids=["full", "relaxed"])
def test_stores_that_were_closed_leave_no_descriptor(
    tmp_path: Path, no_cyclic_collector: None, settings: dict[str, str]
) -> None:
    for number in range(50):
        with lowtide.open(tmp_path / "store", **settings) as store:  # type: ignore[arg-type]
            store.keyspace("k").put(b"x", b"%d" % number)
        assert open_below(tmp_path) == []


def test_readers_that_were_closed_leave_no_descriptor(tmp_path: Path, no_cyclic_collector: None) -> None:
    with lowtide.open(tmp_path / "store") as store:
        store.keyspace("k").put(b"x", b"1")
        store.pin("p")
        before = open_below(tmp_path)
        for _ in range(10):
            with lowtide.open(tmp_path / "store", read_only=True) as reader:
                assert reader.keyspace("k").get(b"x") == b"1"
            with lowtide.open_snapshot(tmp_path / "store", pin="p") as snapshot:
                assert snapshot.keyspace("k").get(b"x") == b"1"
        assert open_below(tmp_path) == before
    assert open_below(tmp_path) == []


def test_a_store_that_could_not_be_opened_leaves_none_either(
    tmp_path: Path, no_cyclic_collector: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowtide.open(tmp_path / "store").close()

    def refuse(*arguments: object) -> None:
        raise lowtide.Error("no socket today")

    monkeypatch.setattr("lowtide.store.owned.Service", refuse)
    for _ in range(5):
        with pytest.raises(lowtide.Error, match="no socket today"):
            lowtide.open(tmp_path / "store")
        assert open_below(tmp_path) == []
