"""Times in documents come from the store's clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide import InsertOne, UpdateOne
from tests.support.clocks import ManualClock

BEGUN = datetime(2001, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)
NOW: list[dict[str, Any]] = [{"$project": {"_id": 0, "at": "$$NOW"}}]
STAMP = {"$currentDate": {"at": True}}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BEGUN.timestamp())


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[lowtide.Store]:
    with lowtide.open(tmp_path / "s", clock=clock) as opened:
        opened["things"].insert_one({"_id": 1})
        yield opened


def test_an_update_has_the_time_of_the_clock(store: lowtide.Store, clock: ManualClock) -> None:
    things = store["things"]
    things.update_one({"_id": 1}, STAMP)
    assert things.find_one(1) == {"_id": 1, "at": BEGUN}
    clock.advance(60)
    with store.transaction("read_committed") as tx:
        tx["things"].update_many({}, STAMP)
    assert things.find_one(1) == {"_id": 1, "at": BEGUN + timedelta(seconds=60)}


def test_an_upsert_and_a_bulk_write_have_the_time_of_the_clock(store: lowtide.Store) -> None:
    things = store["things"]
    things.update_one({"_id": 2}, STAMP, upsert=True)
    things.bulk_write([InsertOne({"_id": 3}), UpdateOne({"_id": 3}, STAMP)])
    assert list(things.find({"_id": {"$gt": 1}})) == [{"_id": 2, "at": BEGUN}, {"_id": 3, "at": BEGUN}]


def test_a_pipeline_has_the_time_of_the_clock_wherever_it_runs(store: lowtide.Store, clock: ManualClock) -> None:
    assert list(store["things"].aggregate(NOW)) == [{"at": BEGUN}]
    clock.advance(1)
    with store.transaction() as tx, store.snapshot() as snapshot:
        expected = [{"at": BEGUN + timedelta(seconds=1)}]
        assert list(tx["things"].aggregate(NOW)) == list(snapshot["things"].aggregate(NOW)) == expected


def test_the_stages_of_an_explained_pipeline_see_the_time_of_the_clock(store: lowtide.Store) -> None:
    late = {"$match": {"$expr": {"$gt": ["$$NOW", BEGUN]}}}
    stages = store["things"].aggregate([late]).explain()["stages"]
    assert stages[-1]["nReturned"] == 0
