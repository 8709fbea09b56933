"""An index build ends and is exact, however its documents change meanwhile (see ``documents.indexes.build``).

The tests count how often documents are read, not seconds. There is always a writer that commits between a step's read
and its commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lowtide
from lowtide.documents.collection import Collection
from lowtide.documents.indexes import build as index_build
from lowtide.values.ids import id_key
from tests.crash.stores import killed
from tests.race.gates import Gate
from tests.support.clocks import ManualClock
from tests.support.collections import check_store
from tests.support.parts import parts_of
from tests.support.schedule import Schedule

ENOUGH = 200
"""Steps after which a build that needs 10 is given up."""


class Steps:
    """The documents and the entries of each step, and what is done between its look and its commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[list[bytes]], object]) -> None:
        self.documents: list[int] = []
        self.entries: list[int] = []
        original = index_build._enter

        def enter(reader: Any, writing: Any, index: Any, batch: Any, most: int) -> Any:
            result = original(reader, writing, index, batch, most)
            self.documents.append(len(batch))
            self.entries.append(len(result[0]))
            assert len(self.documents) <= ENOUGH, "the build does not end"
            meanwhile([key for key, _ in batch])
            return result

        monkeypatch.setattr(index_build, "_enter", enter)


@pytest.fixture
def collection(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """A hundred documents. A step of a build enters ten of them."""
    monkeypatch.setattr(index_build, "STEP", 10)
    found = store.collection("c")
    found.insert_many([{"_id": number, "v": number} for number in range(100)])
    return found


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_a_build_ends_though_documents_of_every_step_change_under_it(
    store: lowtide.Store, collection: Collection, monkeypatch: pytest.MonkeyPatch, unique: bool, many: bool
) -> None:
    """One of them, another one each time, or nearly all; each document is looked at twice at most."""
    fresh, of_key = iter(range(1000, 100_000)), {id_key(number): number for number in range(100)}

    def meanwhile(keys: list[bytes]) -> None:
        first = len(steps.documents) % len(keys)
        for key in (keys[first:] + keys[:first])[: 9 if many else 1]:
            collection.update_one({"_id": of_key[key]}, {"$set": {"v": next(fresh)}})

    steps = Steps(monkeypatch, meanwhile)
    collection.create_index("v", unique=unique)
    assert sum(steps.documents) <= 200
    assert len(steps.documents) <= 12
    check_store(store)


@pytest.mark.parametrize("unique", [False, True])
def test_a_document_that_changes_under_every_step_is_entered(
    store: lowtide.Store, collection: Collection, monkeypatch: pytest.MonkeyPatch, unique: bool
) -> None:
    fresh = iter(range(1000, 100_000))
    steps = Steps(monkeypatch, lambda _: collection.update_one({"_id": 0}, {"$set": {"v": next(fresh)}}))
    collection.create_index("v", unique=unique)
    assert sum(steps.documents) <= 103
    check_store(store)


def test_a_step_of_which_nothing_is_left_is_repeated(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, collection: Collection
) -> None:
    monkeypatch.setattr(index_build, "STEP", 1)
    fresh = iter(range(1000, 100_000))
    steps = Steps(
        monkeypatch,
        lambda _: collection.update_one({"_id": len(steps.documents) // 2}, {"$set": {"v": next(fresh)}}),
    )
    collection.delete_many({"_id": {"$gte": 20}})
    collection.create_index("v", unique=True)
    assert len(steps.documents) <= 60
    check_store(store)


def test_a_build_does_not_run_after_the_documents_that_others_insert(
    store: lowtide.Store, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They insert twice as many as it enters, always before the last one of all."""
    fresh = iter(range(1000, 100_000))
    collection.insert_one({"_id": "the last", "v": -1})
    steps = Steps(
        monkeypatch,
        lambda _: collection.insert_many(
            [{"_id": number, "v": number} for number, _ in zip(fresh, range(20), strict=False)]
        ),
    )
    collection.create_index("v")
    assert sum(steps.documents) == 101
    check_store(store)


@pytest.mark.usefixtures("collection")
@pytest.mark.parametrize("change", ["insert", "update"])
def test_a_duplicate_that_comes_under_a_step_ends_the_build(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The step has seen that no document has the value yet, and is about to enter it for another one."""
    collection = store.collection("c")
    with monkeypatch.context() as patch, Schedule() as schedule:
        gate = Gate(patch, index_build, "_enter")
        build = schedule.start(lambda: collection.create_index("v", unique=True))
        gate.reached()
        if change == "insert":
            collection.insert_one({"_id": 1000, "v": 5})
        else:
            collection.update_one({"_id": 90}, {"$set": {"v": 5}})
        gate.open()
        with pytest.raises(lowtide.DuplicateKeyError) as error:
            build.finish()
    assert error.value.details["keyValue"] == {"v": 5}
    assert list(collection.index_information()) == ["_id_"]
    check_store(store)


@pytest.mark.parametrize("unique", [False, True])
def test_a_value_that_is_taken_and_given_up_under_a_step_is_entered_for_its_first_document(
    store: lowtide.Store, collection: Collection, monkeypatch: pytest.MonkeyPatch, unique: bool
) -> None:
    def meanwhile(keys: list[bytes]) -> None:
        if len(steps.documents) == 1:
            collection.insert_one({"_id": 1000, "v": 5})
            collection.delete_one({"_id": 1000})

    steps = Steps(monkeypatch, meanwhile)
    collection.create_index("v", unique=unique)
    assert collection.find_one({"v": 5}, hint="v_1") == {"_id": 5, "v": 5}
    check_store(store)


@pytest.mark.parametrize("unique", [False, True])
def test_an_element_that_an_array_keeps_while_others_change_under_a_step_is_entered(
    store: lowtide.Store, collection: Collection, monkeypatch: pytest.MonkeyPatch, unique: bool
) -> None:
    """The writer writes the entries that come and go, and not the one that stays."""
    collection.update_one({"_id": 5}, {"$set": {"v": [1001, 1002]}})

    def meanwhile(keys: list[bytes]) -> None:
        if len(steps.documents) == 1:
            collection.update_one({"_id": 5}, {"$set": {"v": [1002, 1003]}})

    steps = Steps(monkeypatch, meanwhile)
    collection.create_index("v", unique=unique)
    assert [collection.count_documents({"v": value}, hint="v_1") for value in (1001, 1002, 1003)] == [0, 1, 1]
    check_store(store)


def test_a_step_takes_no_more_documents_once_it_has_many_entries(
    store: lowtide.Store, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_build, "MOST_ENTRIES", 30)
    collection.update_many({}, {"$set": {"v": list(range(20))}})
    told: list[int] = []
    steps = Steps(monkeypatch, lambda _: None)
    collection.create_index("v", progress=told.append)
    assert max(steps.entries) == 40
    assert sum(steps.entries) == 2000
    assert told == sorted(told)
    assert told[-1] == 100
    check_store(store)


def test_a_build_whose_snapshot_is_expired_goes_on(
    open_store: Callable[..., lowtide.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    store = open_store(max_snapshot_age=60, monitor_interval=3600, clock=clock, checkpointer="thread")
    monkeypatch.setattr(index_build, "STEP", 10)
    collection = store.collection("c")
    collection.insert_many([{"_id": number, "v": number} for number in range(5000)])
    store.checkpoint()

    def progress(done: int) -> None:
        if done == 20:
            clock.advance(61)
            parts_of(store).monitor.tick()

    collection.create_index("v", progress=progress)
    assert collection.count_documents({"v": {"$gte": 0}}, hint="v_1") == 5000
    check_store(store)


def test_a_build_lets_go_of_its_snapshot(store: lowtide.Store, collection: Collection) -> None:
    collection.create_index("v")
    with pytest.raises(ZeroDivisionError):
        collection.create_index("w", progress=lambda done: done // 0)
    assert store.stats().snapshots == []


@pytest.mark.parametrize("unique", [False, True])
def test_a_build_that_a_crash_cut_short_beside_writers_is_finished_after_it(
    store: lowtide.Store, collection: Collection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unique: bool
) -> None:
    """The crash comes after a step that left out some documents, before these are read again."""

    def meanwhile(keys: list[bytes]) -> None:
        at = len(steps.documents)
        if at <= 8:
            collection.update_one({"_id": 10 * at - 5}, {"$set": {"v": 1000 + at}})
            collection.insert_one({"_id": 1000 + at, "v": 10 * at - 4})
            collection.delete_one({"_id": 1000 + at})

    copies: list[Path] = []
    steps = Steps(monkeypatch, meanwhile)
    collection.create_index(
        "v",
        unique=unique,
        progress=lambda done: copies.append(killed(store.path, tmp_path / f"copy-{done}-{len(copies)}")),
    )
    monkeypatch.undo()
    assert len(copies) >= 10
    for copy in copies:
        with lowtide.open(copy, checkpointer="thread") as crashed:
            assert crashed["c"].index_information()["v_1"]["building"]
            check_store(crashed)
            crashed["c"].create_index("v", unique=unique)
            assert crashed["c"].count_documents({"v": {"$gte": 0}}, hint="v_1") == 100
            check_store(crashed)


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("hot", [False, True])
def test_a_build_beside_threads_at_full_speed_takes_few_steps(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, unique: bool, hot: bool
) -> None:
    """They change any document, or all of them the same two."""
    monkeypatch.setattr(index_build, "STEP", 50)
    collection = store.collection("c")
    collection.insert_many([{"_id": number, "v": number} for number in range(1000)])
    built = threading.Event()

    def write(writer: int) -> None:
        random, number = Random(writer), 0
        while not built.is_set():
            number += 1
            value = (writer + 1) * 10**9 + number
            _id = random.choice((3, 997)) if hot else random.randrange(1000)
            collection.update_one({"_id": _id}, {"$set": {"v": [value, -value] if number % 3 == 0 else value}})

    steps = Steps(monkeypatch, lambda _: None)
    with Schedule() as schedule:
        writers = [schedule.start(lambda writer=writer: write(writer)) for writer in range(3)]  # type: ignore[misc]
        try:
            collection.create_index("v", unique=unique)
        finally:
            built.set()
        for writer in writers:
            writer.finish()
    assert len(steps.documents) <= 40
    check_store(store)
