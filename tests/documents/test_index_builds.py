"""Indexes that are built while documents are written (the argument is in ``documents.indexes.build``).

``progress`` is called between two steps of a build, and a step enters one document here. So what a test does there
comes after some documents and before others. A gate after a step's work is between that work and its commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import product
from random import Random
from typing import Any

import pytest

import lowtide
from lowtide import Isolation
from lowtide.documents.collection import Collection
from lowtide.documents.indexes import build as index_build
from tests.documents.makings import Maker
from tests.race.gates import Gate
from tests.support.collections import check_collection, check_store
from tests.support.patience import PATIENCE
from tests.support.schedule import Schedule

BUFFERED = [level for level in Isolation if level is not Isolation.NONE]


@pytest.fixture
def collection(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """Five documents. An index build enters one of them in each step."""
    monkeypatch.setattr(index_build, "STEP", 1)
    return filled(store)


def filled(store: lowtide.Store) -> Collection:
    """Put the five documents into a collection that has nothing else."""
    found = store.collection("c")
    found.drop()
    found.insert_many([{"_id": number, "v": number * 10} for number in range(5)])
    return found


def at(step: int, work: Callable[[], object]) -> Callable[[int], None]:
    """Does ``work`` when the given number of documents is entered."""

    def progress(done: int) -> None:
        if done == step:
            work()

    return progress


def at_first(step: int, work: Callable[[], object]) -> Callable[[int], None]:
    """Does ``work`` when the given number of documents is entered for the first time."""
    left = [work]
    return at(step, lambda: left.pop()() if left else None)


def found_by_index(collection: Collection, name: str = "v_1") -> list[Any]:
    return sorted(each["_id"] for each in collection.find({"v": {"$exists": True}}, hint=name))


CHANGES: dict[str, Callable[[Collection, int], object]] = {
    "update": lambda collection, _id: collection.update_one({"_id": _id}, {"$set": {"v": 77}}),
    "to an array": lambda collection, _id: collection.update_one({"_id": _id}, {"$set": {"v": [7, 8]}}),
    "to a long value": lambda collection, _id: collection.update_one({"_id": _id}, {"$set": {"v": "x" * 500}}),
    "unset": lambda collection, _id: collection.update_one({"_id": _id}, {"$unset": {"v": 1}}),
    "there and back": lambda collection, _id: [
        collection.update_one({"_id": _id}, {"$inc": {"v": 1}}),
        collection.update_one({"_id": _id}, {"$inc": {"v": -1}}),
    ],
    "replace": lambda collection, _id: collection.replace_one({"_id": _id}, {"w": 1}),
    "delete": lambda collection, _id: collection.delete_one({"_id": _id}),
    "delete and insert": lambda collection, _id: [
        collection.delete_one({"_id": _id}),
        collection.insert_one({"_id": _id, "v": 78}),
    ],
    "insert": lambda collection, _id: collection.insert_one({"_id": _id + 0x100, "v": 79}),
    "insert before": lambda collection, _id: collection.insert_one({"_id": -_id - 1, "v": 79}),
}


@pytest.mark.usefixtures("collection")
@pytest.mark.parametrize("unique", [False, True])
def test_what_is_written_between_two_steps_is_in_the_index(store: lowtide.Store, unique: bool) -> None:
    """To the first document, the last one that was entered, the next one and the last one of all."""
    for change, _id in product(CHANGES.values(), (0, 2, 3, 4)):
        collection = filled(store)
        write = partial(change, collection, _id)
        collection.create_index("v", unique=unique, progress=at(3, write))
        assert "building" not in collection.index_information()["v_1"]
        check_store(store)


@pytest.mark.usefixtures("collection")
@pytest.mark.parametrize("unique", [False, True])
def test_what_is_written_while_a_step_stands_before_its_commit_is_in_the_index(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, unique: bool
) -> None:
    """The step has read the document, and is about to enter what it was."""
    for change in CHANGES.values():
        collection = filled(store)
        with monkeypatch.context() as patch, Schedule() as schedule:
            gate = Gate(patch, index_build, "_enter")
            build = schedule.start(partial(collection.create_index, "v", unique=unique))
            gate.reached()
            change(collection, 0)
            gate.open()
            build.finish()
        check_store(store)


@pytest.mark.parametrize("seed", range(4))
def test_an_index_that_is_built_among_writes_of_all_kinds_has_what_the_documents_say(
    store: lowtide.Store, collection: Collection, seed: int
) -> None:
    make = Maker(seed)
    random, keys = make.random, make.keys()

    def write(done: int) -> None:
        for _ in range(random.randint(0, 3)):
            try:
                scribble(collection, make)
            except lowtide.WriteError:
                continue
        if random.random() < 0.1:
            store.checkpoint()

    for number in range(30):
        collection.replace_one({"_id": number}, make.body(), upsert=True)
    try:
        collection.create_index(keys, progress=write)
    except lowtide.WriteError:
        assert list(collection.index_information()) == ["_id_"]
    check_store(store)


def scribble(collection: Collection, make: Maker) -> None:
    """Some write to some document."""
    random = make.random
    _id = random.randrange(40)
    match random.randrange(5):
        case 0:
            collection.insert_one({"_id": _id, **make.body()})
        case 1:
            collection.delete_one({"_id": _id})
        case 2:
            collection.replace_one({"_id": _id}, make.body(), upsert=True)
        case 3:
            collection.update_one({"_id": _id}, {"$set": {random.choice("abc"): make.value()}})
        case _:
            collection.update_many({"a": make.value()}, {"$set": {random.choice("abc"): make.value()}})


@pytest.mark.usefixtures("collection")
def test_a_document_that_gives_up_a_value_that_another_has_too_leaves_that_its_entry(store: lowtide.Store) -> None:
    """Both have the same value while a unique index is built, and only the first is in it when the other one gives way:
    the build goes on, and the first must still be found."""
    for change in ("update", "unset", "replace", "delete"):
        collection = filled(store)
        collection.update_one({"_id": 4}, {"$set": {"v": 0}})
        collection.create_index("v", unique=True, progress=at(2, partial(CHANGES[change], collection, 4)))
        assert collection.find_one({"v": 0}) == {"_id": 0, "v": 0}
        check_store(store)


@pytest.mark.usefixtures("collection")
@pytest.mark.parametrize("level", BUFFERED)
def test_a_writer_that_left_another_ones_entry_alone_relies_on_it(store: lowtide.Store, level: Isolation) -> None:
    """It saw that the value was entered for another document, and left the entry. If that document gives it up before
    the writer commits, a step enters the writer's document, as it still is: then the writer must not commit."""
    for change in ("update", "unset", "replace", "delete"):
        collection = filled(store)
        collection.update_one({"_id": 3}, {"$set": {"v": 0}})  # as document 0 has
        tx = store.begin(level)

        def give_up(change: str = change, tx: Any = tx, collection: Collection = collection) -> None:
            CHANGES[change](tx["c"], 3)
            collection.update_one({"_id": 0}, {"$set": {"v": 1}})

        def commit(tx: Any = tx) -> None:
            with pytest.raises(lowtide.ConflictError):
                tx.commit()

        works = {2: give_up, 4: commit}
        collection.create_index("v", unique=True, progress=lambda done, works=works: works.pop(done, int)())  # type: ignore[misc]
        assert works == {}
        assert collection.find_one({"v": 0}) == {"_id": 3, "v": 0}
        check_store(store)


def test_a_duplicate_that_is_written_before_the_build_comes_to_it_ends_the_build(
    store: lowtide.Store, collection: Collection
) -> None:
    """The writer could not know; the build does, and leaves nothing behind."""
    with pytest.raises(lowtide.DuplicateKeyError) as error:
        collection.create_index("v", unique=True, progress=at(2, lambda: collection.insert_one({"_id": 9, "v": 40})))
    assert error.value.details["keyValue"] == {"v": 40}
    assert list(collection.index_information()) == ["_id_"]
    assert len(check_store(store)["c"]) == 6
    assert store.keyspaces().count("index/c/v_1") <= 1


def test_a_duplicate_of_what_is_entered_already_is_refused_while_the_index_is_built(
    store: lowtide.Store, collection: Collection
) -> None:
    refused = []

    def insert() -> None:
        with pytest.raises(lowtide.DuplicateKeyError):
            collection.insert_one({"_id": 9, "v": 0})
        refused.append(1)

    collection.create_index("v", unique=True, progress=at(2, insert))
    assert refused == [1]
    assert sorted(check_store(store)["c"]) == [0, 1, 2, 3, 4]


MANAGEMENT: dict[str, Callable[[Collection], object]] = {
    "create_index": lambda collection: collection.create_index("w"),
    "drop_index": lambda collection: collection.drop_index("v_1"),
    "drop": lambda collection: collection.drop(),
    "rename": lambda collection: collection.rename("d", dropTarget=True),
}
"""What changes a collection that has the index ``v_1``."""


@pytest.mark.usefixtures("collection")
@pytest.mark.parametrize("how", MANAGEMENT)
@pytest.mark.parametrize("level", BUFFERED)
def test_a_transaction_that_wrote_before_an_index_or_a_collection_came_or_went_cannot_commit_after(
    store: lowtide.Store, level: Isolation, how: str
) -> None:
    """It knows other indexes than there are, so its entries would be missing, or be left over."""
    for write in ("insert", "update", "delete"):
        filled(store).create_index("v")
        tx = store.begin(level)
        CHANGES[write](tx["c"], 1)
        MANAGEMENT[how](store.collection("c"))
        with pytest.raises(lowtide.ConflictError):
            tx.commit()
        check_store(store)


@pytest.mark.usefixtures("collection")
@pytest.mark.parametrize("how", MANAGEMENT)
@pytest.mark.parametrize("level", BUFFERED)
def test_an_index_or_a_collection_that_comes_or_goes_in_a_transaction_never_misses_later_writes(
    store: lowtide.Store, level: Isolation, how: str
) -> None:
    """The other way round. A collection may be renamed beside writes: they follow it."""
    for write in ("insert", "update", "delete", "insert before"):
        collection = filled(store)
        collection.create_index("v")
        tx = store.begin(level)
        MANAGEMENT[how](tx["c"])
        CHANGES[write](collection, 1)
        if how == "rename":
            tx.commit()
        else:
            with pytest.raises(lowtide.ConflictError):
                tx.commit()
        check_store(store)


@pytest.mark.parametrize("level", BUFFERED)
def test_a_drop_of_a_collection_without_indexes_conflicts_with_the_first_one(
    store: lowtide.Store, collection: Collection, level: Isolation
) -> None:
    """The drop saw no index, so it would leave the entries."""
    tx = store.begin(level)
    tx["c"].drop()
    collection.create_index("v")
    with pytest.raises(lowtide.ConflictError):
        tx.commit()
    assert len(check_store(store)["c"]) == 5


@pytest.mark.parametrize("how", ["drop_index", "drop", "rename"])
def test_a_build_whose_index_goes_away_says_so(store: lowtide.Store, collection: Collection, how: str) -> None:
    goes: dict[str, Callable[[], None]] = {
        "drop_index": lambda: collection.drop_index("v_1"),
        "drop": collection.drop,
        "rename": lambda: collection.rename("d"),
    }
    with pytest.raises(lowtide.OperationFailure, match="while it was built"):
        collection.create_index("v", progress=at(3, goes[how]))
    assert list(collection.index_information()) == ["_id_"]
    check_store(store)
    if how == "rename":
        moved = store.collection("d")
        moved.create_index("v")
        assert found_by_index(moved) == [0, 1, 2, 3, 4]


def test_a_build_does_not_go_on_in_an_index_of_the_same_name_that_came_after_its_own(
    store: lowtide.Store, collection: Collection
) -> None:
    """The second build has entered one document when the first one, which was at the third, goes on: from the first
    document again."""
    stands, go_on = threading.Event(), threading.Event()

    def stand(done: int) -> None:
        stands.set()
        assert go_on.wait(PATIENCE)

    second: list[Any] = []

    def come_after() -> None:
        collection.drop_index("v_1")
        second.append(schedule.start(lambda: collection.create_index("v", progress=stand)))
        assert stands.wait(PATIENCE)

    with Schedule() as schedule:
        try:
            collection.create_index("v", progress=at_first(3, come_after))
            assert "building" not in collection.index_information()["v_1"]
            assert sorted(each["_id"] for each in collection.find({"v": {"$gte": 0}})) == [0, 1, 2, 3, 4]
            check_store(store)
        finally:
            go_on.set()
        second[0].finish()
    assert found_by_index(collection) == [0, 1, 2, 3, 4]
    check_store(store)


def test_a_build_does_not_go_on_in_another_collection_that_took_the_name(
    store: lowtide.Store, collection: Collection
) -> None:
    other = store.collection("other")
    other.insert_many([{"_id": number, "v": number} for number in range(5)])

    def take_over() -> None:
        with pytest.raises(ZeroDivisionError):  # half-built, as after a crash
            other.create_index("v", progress=lambda done: done // 0)
        other.rename("c", dropTarget=True)

    collection.create_index("v", progress=at_first(3, take_over))
    assert "building" not in collection.index_information()["v_1"]
    assert sorted(each["_id"] for each in collection.find({"v": {"$gte": 0}})) == [0, 1, 2, 3, 4]
    check_store(store)


def test_a_build_that_was_interrupted_is_finished_by_the_next_one(store: lowtide.Store, collection: Collection) -> None:
    with pytest.raises(ZeroDivisionError):
        collection.create_index("v", progress=at(2, lambda: 1 // 0))
    assert collection.index_information()["v_1"]["building"]
    assert collection.find({"v": 10}).explain()["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    for change in CHANGES.values():
        change(collection, 2)
        collection.delete_many({"_id": {"$in": [0x102, -3]}})
        check_store(store)
    collection.create_index("v")
    assert "building" not in collection.index_information()["v_1"]
    check_store(store)


def test_two_who_build_the_same_index_at_once_both_end(store: lowtide.Store, collection: Collection) -> None:
    collection.insert_many([{"v": number % 7} for number in range(60)])
    started = threading.Barrier(3)

    def create(turn: int) -> str:
        started.wait(PATIENCE)
        return collection.create_index("v")

    with Schedule() as schedule:
        builds = [schedule.start(lambda turn=turn: create(turn)) for turn in range(3)]  # type: ignore[misc]
        assert [build.finish() for build in builds] == ["v_1"] * 3
    assert "building" not in collection.index_information()["v_1"]
    check_store(store)


@pytest.mark.parametrize("unique", [False, True])
def test_an_index_built_beside_threads_that_write_has_what_the_documents_say(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, unique: bool
) -> None:
    """With values that collide now and then: a writer that is refused gets DuplicateKeyError, and all others commit."""
    monkeypatch.setattr(index_build, "STEP", 5)
    collection = store.collection("c")
    collection.insert_many([{"_id": number, "v": number} for number in range(150)])
    built = threading.Event()
    refused: list[int] = []

    def write(seed: int) -> None:
        random = Random(seed)
        while not built.is_set():
            _id = random.randrange(200)
            try:
                match random.randrange(3):
                    case 0:
                        collection.replace_one({"_id": _id}, {"v": [random.randrange(10_000), -_id - 1]}, upsert=True)
                    case 1:
                        collection.update_one({"_id": _id}, {"$set": {"v": random.randrange(10_000)}})
                    case _:
                        collection.delete_one({"_id": _id})
            except lowtide.DuplicateKeyError:
                assert unique
                refused.append(_id)

    with Schedule() as schedule:
        writers = [schedule.start(lambda seed=seed: write(seed)) for seed in range(3)]  # type: ignore[misc]
        try:
            for _ in range(3):
                try:
                    collection.create_index("v", unique=unique)
                except lowtide.DuplicateKeyError:
                    assert unique
                else:
                    check_collection(store, "c")
                    collection.drop_index("v_1")
        finally:
            built.set()
        for writer in writers:
            writer.finish()
    check_store(store)
