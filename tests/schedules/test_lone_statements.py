"""Interleaved statements on the store, each its own transaction: every schedule ends like some serial order.

They read without a snapshot, and may be run again under the commit lock by another thread; see ``engine/statements``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import pytest

import lowtide
from tests.schedules.running import on_one_core
from tests.schedules.world import World, examine
from tests.support.attack import FULL
from tests.support.choices import Choices, DepthFirst, Scattered
from tests.support.locks import scheduled_locks
from tests.support.scheduler import Scheduler, tell

Documents = list[dict[str, Any]]
Deed = Callable[[lowtide.Collection], Any]
FIRST: Documents = [
    {"_id": 1, "state": "ready", "at": 1, "n": 0},
    {"_id": 2, "state": "ready", "at": 2, "n": 0},
    {"_id": 3, "state": "taken", "at": 3, "n": 0},
]
STOPS = {"commit.enter", "commit.lock", "commit.queue", "commit.lead", "commit.take", "commit.alone", "commit.log"}
STOPS |= {"commit.visible", "validate.boundary", "read.latest", "read.row", "freeze.view", "drop.view"}
MOST = 1500
"""Schedules of one program in the full attack."""
SAMPLE = 30
"""Schedules of one program in every run, other ones each time."""


def take(jobs: lowtide.Collection) -> Any:
    return jobs.find_one_and_update({"state": "ready"}, {"$set": {"state": "taken"}}, sort=[("at", 1)])


def take_last(jobs: lowtide.Collection) -> Any:
    return jobs.find_one_and_update({"state": "ready"}, {"$set": {"state": "taken"}}, sort=[("at", -1)])


def count(jobs: lowtide.Collection) -> Any:
    return jobs.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})


def finish(jobs: lowtide.Collection) -> Any:
    return jobs.delete_one({"_id": 1}).deleted_count


def insert(jobs: lowtide.Collection) -> Any:
    try:
        return jobs.insert_one({"_id": 1, "state": "ready", "at": 0, "n": 7}).inserted_id
    except lowtide.DuplicateKeyError:
        return "duplicate"


def give_back(jobs: lowtide.Collection) -> Any:
    return jobs.update_one({"_id": 3}, {"$set": {"state": "ready", "at": 0}}).modified_count


def move(jobs: lowtide.Collection) -> Any:
    return jobs.update_one({"_id": 1}, {"$set": {"at": 0}}).modified_count


def among(jobs: lowtide.Collection) -> Any:
    return jobs.update_one({"_id": {"$in": [1, 2]}, "state": "ready"}, {"$set": {"state": "seen"}}).modified_count


def add_index(jobs: lowtide.Collection) -> Any:
    return jobs.create_index("n")


def in_transaction(store: lowtide.Store) -> Deed:
    def deed(jobs: lowtide.Collection) -> Any:
        return store.run(lambda tx: tx["jobs"].update_one({"_id": 2}, {"$inc": {"n": 1}}).modified_count)

    return deed


PROGRAMS: dict[str, tuple[Deed, ...]] = {
    "two workers": (take, take),
    "three workers": (take, take, take),
    "from both ends": (take, take_last),
    "a counter": (count, count, count),
    "taken and deleted": (take, finish),
    "counted and deleted": (count, finish),
    "deleted and inserted": (finish, insert, count),
    "inserted twice": (finish, insert, insert),
    "given back": (give_back, take, take),
    "moved to the front": (move, take),
    "among ids": (among, take, among),
    "a new index": (count, add_index),
}


def run(jobs: lowtide.Collection, deeds: tuple[Deed, ...], order: tuple[int, ...]) -> tuple[Any, ...]:
    """The results of the deeds, in their own order, if they are done one after the other."""
    results = {place: deeds[place](jobs) for place in order}
    return tuple(results[place] for place in range(len(deeds)))


def scheduled(
    choices: Choices, jobs: lowtide.Collection, deeds: tuple[Deed, ...], results: dict[int, Any]
) -> Scheduler:
    """A worker for each deed, which leaves its result in ``results``."""

    def work(place: int) -> None:
        results[place] = deeds[place](jobs)

    scheduler = Scheduler(choices, stops=STOPS)
    for place in range(len(deeds)):
        scheduler.add(f"worker {place}", partial(work, place))
    return scheduler


def some_schedules() -> Iterator[Choices]:
    """Schedules with two preemptions: a sample of them, or in the full attack the first of all."""
    return islice(DepthFirst(bound=2).all(), MOST) if FULL else Scattered(bound=2, count=SAMPLE).all()


def prepare(store: lowtide.Store) -> lowtide.Collection:
    if "jobs" in store.list_collection_names():
        store["jobs"].drop()
    jobs = store["jobs"]
    jobs.create_index([("state", 1), ("at", 1)])
    jobs.insert_many(FIRST)
    return jobs


def content(jobs: lowtide.Collection) -> Documents:
    """All documents. Each must be found by each index, too."""
    found = jobs.find({}, sort="_id", hint=[("_id", 1)]).to_list()
    for name, index in jobs.index_information().items():
        for each in found:
            assert each in jobs.find({path: each[path] for path, _ in index["key"]}, hint=name), (name, each)
        assert len(jobs.find({}, hint=name).to_list()) == len(found), name
    return found


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with scheduled_locks(), on_one_core():
        world = World(Path(tempfile.mkdtemp(prefix="schedules-")))
        yield world
        world.close()


@pytest.mark.parametrize("checkpointed", [False, True], ids=["in memory", "beside a checkpoint"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_schedule_ends_as_a_serial_order(world: World, name: str, checkpointed: bool) -> None:
    deeds, store = PROGRAMS[name], world.store
    serial = []
    for order in permutations(range(len(deeds))):
        jobs = prepare(store)
        serial.append((run(jobs, deeds, order), content(jobs)))
    for choices in some_schedules():
        jobs = prepare(store)
        results: dict[int, Any] = {}
        scheduler = scheduled(choices, jobs, deeds, results)
        if checkpointed:
            scheduler.add("checkpoint", store.checkpoint)
        scheduler.run()
        found = tuple(results[place] for place in range(len(deeds))), content(jobs)
        assert found in serial, f"{found}\nis none of {serial}\n{tell(scheduler.trace)}"
    assert examine(world.parts) == []


def test_statements_beside_a_transaction(world: World) -> None:
    store = world.store
    deeds = (take, in_transaction(store), take)
    for choices in some_schedules():
        jobs = prepare(store)
        scheduled(choices, jobs, deeds, {}).run()
        assert [(each["state"], each["n"]) for each in content(jobs)] == [("taken", 0), ("taken", 1), ("taken", 0)]
