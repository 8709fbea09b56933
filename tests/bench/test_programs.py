"""Whole programs compared with sqlite3: both stores give the same answers, and a difference ends the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.programs import section
from bench.programs.jobs import JobLost, Queue, drained
from bench.programs.requests import KINDS, Request, Size, stream
from bench.programs.section import JOBS, MIX, ORDERS, SECTION, Differs
from bench.programs.shop_of_tables import TableShop
from bench.section import Plan
from tests.bench.support import check_shown, check_step, through_json


def small(place: Path, *only: str) -> Plan:
    return Plan(place, quick=True, step=check_step, only=frozenset(only), rounds=1)


@pytest.fixture
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "stream", lambda size, seed, count: stream(size, seed, 25))


@pytest.mark.usefixtures("shorter")
def test_both_stores_run_the_programs_and_hold_the_same(tmp_path: Path) -> None:
    data = through_json(SECTION.run(small(tmp_path)))
    assert {line[0] for line in data["lines"]} >= {
        MIX,
        "mix, orders",
        "find-id, in a transaction",
        "insert-many, alone",
    }
    grids = check_shown(SECTION, data, tmp_path)
    assert [grid.title.split(",")[0] for grid in grids] == ["TPC-C", "TPC-C", "Statements", "A queue of jobs"]
    assert any("TPC-C" in finding.target for finding in SECTION.findings(data))


def test_a_part_can_be_run_alone(tmp_path: Path) -> None:
    data = through_json(SECTION.run(small(tmp_path, JOBS)))
    assert data["queues"]
    assert not data["lines"]
    check_shown(SECTION, data, tmp_path)


@pytest.mark.usefixtures("shorter")
def test_a_store_that_answers_differently_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = TableShop._payment

    def wrong(shop: TableShop, request: Request) -> Any:
        found = right(shop, request)
        return found and (found[0], found[1] + 1)

    monkeypatch.setattr(TableShop, "_payment", wrong)
    for model in (MIX, ORDERS):
        with pytest.raises(Differs):
            SECTION.run(small(tmp_path / model, model))


def test_a_queue_that_gives_a_job_twice_ends_the_run() -> None:
    class Careless:
        def worker(self, number: int) -> Any:
            jobs = iter([0, 1, 1])
            return lambda: next(jobs, None)

        def close(self) -> None: ...

    careless: Queue = Careless()
    with pytest.raises(JobLost):
        drained(careless, 1, 3, lambda: 0.0)


def test_the_stream_is_the_same_for_a_seed_and_has_all_kinds() -> None:
    size = Size(30, 100)
    assert stream(size, 1, 200) == stream(size, 1, 200) != stream(size, 2, 200)
    assert {request.kind for request in stream(size, 1, 500)} == set(KINDS)
