"""The floor of a program: flat code does what collections do and leaves the same content, and each line is reported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import program_floor
from bench.programs.flat_jobs import FlatQueue
from bench.programs.flat_shop import FlatShop
from bench.programs.flat_works import WORKS, FlatWorks
from bench.programs.jobs import DocumentQueue, JobLost
from bench.programs.requests import KINDS, Size, stream
from bench.programs.section import MIX, ORDERS, Differs
from bench.programs.statements import BATCH, DocumentWorks

SIZE = Size(30, 100)


@pytest.mark.parametrize("model", [MIX, ORDERS])
def test_a_flat_shop_answers_as_documents_do_and_leaves_the_same_behind(model: str, tmp_path: Path) -> None:
    documents, flat = program_floor.MODELS[model]
    shops = documents(tmp_path / "documents", "unsynced", SIZE), flat(tmp_path / "flat", "unsynced", SIZE)
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


@pytest.mark.parametrize("model", [MIX, ORDERS])
def test_it_counts_each_kind_of_request(model: str, tmp_path: Path) -> None:
    found = program_floor.programs(tmp_path, SIZE, count=60, rounds=1, model=model)
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
        assert len(first) == 114 + 14 * BATCH
        assert all(each._store.verify().ok for each in works)
    finally:
        for each in works:
            each.close()


def test_it_measures_each_statement(tmp_path: Path) -> None:
    found = program_floor.statements(tmp_path, count=30, rounds=1)
    assert len(found) == 6
    assert all(set(by) == {"collections", "flat", "sqlite3"} and min(by.values()) > 0 for by in found.values())


def test_a_flat_worker_leaves_what_collections_leave(tmp_path: Path) -> None:
    queues = DocumentQueue(tmp_path / "documents", "unsynced", 30), FlatQueue(tmp_path / "flat", "unsynced", 30)
    try:
        for queue in queues:
            work = queue.worker(7)
            assert [work() for _ in range(20)] == list(range(20))
        first, second = (each._store["jobs"].find({}, sort=[("state", 1), ("at", 1)]).to_list() for each in queues)
        assert first == second
        assert len(first) == 10
        assert all(each._store.verify().ok for each in queues)
    finally:
        for queue in queues:
            queue.close()


def test_it_measures_a_job(tmp_path: Path) -> None:
    (by,) = program_floor.jobs(tmp_path, count=20, rounds=2).values()
    assert set(by) == {"collections", "flat", "sqlite3"}
    assert min(by.values()) > 0


def test_a_queue_that_loses_a_job_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlatQueue, "worker", lambda self, number: iter([0, 0, None]).__next__)
    with pytest.raises(JobLost):
        program_floor.jobs(tmp_path, count=2, rounds=1)


def test_shops_that_answer_differently_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlatShop, "_payment", lambda self, tx, request: None)
    with pytest.raises(Differs):
        program_floor.programs(tmp_path, SIZE, count=20, rounds=1)


@pytest.mark.parametrize("synced", [[], ["--synced"]])
def test_it_tells_a_line_for_each_kind(
    synced: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["program_floor", "--requests", "40", "--rounds", "1", "--customers", "30", "--rows", "30"]
    given += ["--jobs", "20"]
    monkeypatch.setattr(sys, "argv", given + synced)
    program_floor.main()
    told = capsys.readouterr().out.splitlines()
    works = [work for work in WORKS for _ in range(2)]
    assert [line.split()[0].strip(",") for line in told] == ["µs", *[*KINDS, MIX] * 2, *works, "job"]
