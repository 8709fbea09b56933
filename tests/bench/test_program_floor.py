"""The floor of a program: the flat shop does what the shop of documents does, and each shop is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import program_floor
from bench.programs.flat_shop import FlatShop
from bench.programs.flat_works import WORKS, FlatWorks
from bench.programs.requests import KINDS, Size, stream
from bench.programs.section import Differs
from bench.programs.shop_of_documents import DocumentShop
from bench.programs.statements import DocumentWorks

SIZE = Size(30, 100)


def test_a_flat_shop_answers_as_documents_do_and_leaves_the_same_behind(tmp_path: Path) -> None:
    shops = DocumentShop(tmp_path / "documents", "unsynced", SIZE), FlatShop(tmp_path / "flat", "unsynced", SIZE)
    try:
        for number in (1, 2):
            requests = stream(SIZE, number, 150)
            assert {request.kind for request in requests} == set(KINDS)
            first, second = (program_floor.answered(shop, requests)[0] for shop in shops)
            assert first == second
        held = [{table: sorted(map(repr, rows)) for table, rows in shop.rows()} for shop in shops]
        assert held[0] == held[1]
        assert all(shop._store.verify().ok for shop in shops)
    finally:
        for shop in shops:
            shop.close()


def test_it_counts_each_kind_of_request(tmp_path: Path) -> None:
    found = program_floor.programs(tmp_path, SIZE, count=100, rounds=2)
    assert list(found) == [*KINDS, "mix"]
    assert all(set(by) == {"collections", "flat", "sqlite3"} and min(by.values()) > 0 for by in found.values())


def test_flat_writes_leave_what_collections_leave(tmp_path: Path) -> None:
    works = DocumentWorks(tmp_path / "documents", "unsynced", 100), FlatWorks(tmp_path / "flat", "unsynced", 100)
    try:
        for work in WORKS:
            for together in (True, False):
                assert works[0].run(work, range(7), together) == works[1].run(work, range(7), together)
        first, second = (each._store["rows"].find({}, sort=[("k", 1), ("at", 1)]).to_list() for each in works)
        assert first == second
        assert len(first) == 114
        assert all(each._store.verify().ok for each in works)
    finally:
        for each in works:
            each.close()


def test_it_measures_each_statement(tmp_path: Path) -> None:
    found = program_floor.statements(tmp_path, count=100, rounds=2)
    assert len(found) == 4
    assert all(set(by) == {"collections", "flat", "sqlite3"} and min(by.values()) > 0 for by in found.values())


def test_shops_that_answer_differently_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlatShop, "_payment", lambda self, tx, request: None)
    with pytest.raises(Differs):
        program_floor.programs(tmp_path, SIZE, count=20, rounds=1)


@pytest.mark.parametrize("synced", [[], ["--synced"]])
def test_it_tells_a_line_for_each_kind(
    synced: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["program_floor", "--requests", "100", "--rounds", "1", "--customers", "30", "--rows", "100"]
    monkeypatch.setattr(sys, "argv", given + synced)
    program_floor.main()
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0].strip(",") for line in told] == ["µs", *KINDS, "mix", *["update"] * 2, *["insert"] * 2]
