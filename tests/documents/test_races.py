"""Concurrent statements: collections are renamed, dropped and swapped, and writers never notice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

import lowtide
from lowtide import Isolation
from lowtide.documents import management
from lowtide.documents.catalog import CATALOG
from lowtide.engine.versions.visibility import Reader
from tests.isolation.crowd import run_beside, run_together
from tests.support.collections import check_store
from tests.support.parts import parts_of

BUFFERED = [level for level in Isolation if level is not Isolation.NONE]
THREADS = 3


# Renaming and dropping


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("level", BUFFERED)
def test_a_name_that_gets_its_first_document_meanwhile_is_not_taken_by_a_rename(
    store: lowtide.Store, level: Isolation, indexed: bool
) -> None:
    """The document would be in a keyspace that belongs to no collection."""
    store.collection("a").insert_one({"_id": 1})
    if indexed:
        store.collection("a").create_index("v")
    tx = store.begin(level)
    tx["a"].rename("b")
    store.collection("b").insert_one({"_id": 2})
    with pytest.raises(lowtide.ConflictError):
        tx.commit()
    assert check_store(store) == {"a": {1: {"_id": 1}}, "b": {2: {"_id": 2}}}


@pytest.mark.parametrize("level", BUFFERED)
def test_the_first_document_of_a_name_that_a_rename_took_meanwhile_conflicts(
    store: lowtide.Store, level: Isolation
) -> None:
    store.collection("a").insert_one({"_id": 1})
    tx = store.begin(level)
    tx["b"].insert_one({"_id": 2})
    store.collection("a").rename("b")
    with pytest.raises(lowtide.ConflictError):
        tx.commit()
    assert check_store(store) == {"b": {1: {"_id": 1}}}


def test_the_first_documents_of_a_collection_may_be_inserted_by_several_at_once(store: lowtide.Store) -> None:
    first, second = store.begin(), store.begin(Isolation.SERIALIZABLE)
    first["new"].insert_one({"_id": 1})
    second["new"].insert_one({"_id": 2})
    first.commit()
    second.commit()
    assert list(check_store(store)["new"]) == [1, 2]


def test_names_go_round_in_circles_and_every_collection_keeps_its_own(store: lowtide.Store) -> None:
    random = Random(1)
    expected: dict[str, dict[Any, Any]] = {}
    for number in range(150):
        name, other = random.sample(["a", "b", "c"], 2)
        match random.randrange(4):
            case 0:
                store.collection(name).insert_one({"_id": number, "v": number})
                expected.setdefault(name, {})[number] = {"_id": number, "v": number}
            case 1 if name in expected:
                store.collection(name).rename(other, dropTarget=True)
                expected[other] = expected.pop(name)
            case 2 if name in expected:
                store.collection(name).create_index(random.choice(["v", "w"]))
            case 3 if random.random() < 0.4:
                store.collection(name).drop()
                expected.pop(name, None)
        found = check_store(store)
        assert found == expected
        for each in found:
            assert store.collection(each).count_documents({"v": {"$gte": 0}}) == len(found[each])
        if number % 20 == 0:
            store.checkpoint()


@pytest.mark.parametrize("level", list(Isolation))
def test_a_drop_leaves_no_entry_of_what_is_inserted_meanwhile(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, level: Isolation
) -> None:
    """Between each two parts of the work; at NONE, where every part might be a commit, too."""
    empty = management._empty
    for calls in (1, 2, 3):
        collection = store.collection("c")
        collection.create_index("v")
        collection.create_index("w")
        collection.insert_many([{"_id": number, "v": number, "w": [number, -1]} for number in range(5)])
        left = [calls]

        def be_overtaken(*arguments: Any, left: list[int] = left, **named: Any) -> None:
            empty(*arguments, **named)
            left[0] -= 1
            if left[0] == 0:
                store.collection("c").insert_one({"_id": 9, "v": 9, "w": 9})

        monkeypatch.setattr(management, "_empty", be_overtaken)
        tx = store.begin(level)
        try:
            tx["c"].drop()
            tx.commit()
        except lowtide.ConflictError:
            assert level is not Isolation.NONE
        monkeypatch.setattr(management, "_empty", empty)
        assert left[0] <= 0
        check_store(store)
        collection.create_index("v")
        check_store(store)
        collection.drop()


def test_a_collection_that_is_swapped_for_another_always_has_its_documents(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader has seen where the collection lies, and has still to read from there, when it is swapped."""
    current, following = store.collection("current"), store.collection("following")
    current.insert_one({"_id": 1, "v": "old"})
    current.create_index("v")
    rows = parts_of(store).engine.catalog.prefix_of(CATALOG)
    reads: dict[str, Callable[[], Any]] = {
        "by _id": lambda: current.find_one({"_id": 1}),
        "by _id, bare": lambda: current.find_one(1),
        "by a filter": lambda: current.find_one({"_id": {"$gte": 1}}),
        "by an index": lambda: current.find_one({"v": {"$gte": ""}}),
        "by a cursor": lambda: next(current.find(), None),
    }
    for read in reads.values():
        following.insert_one({"_id": 1, "v": "new"})
        swapped: list[int] = []

        def swap_once(
            get: Callable[..., Any], self: Reader, key: bytes, *more: Any, swapped: list[int] = swapped
        ) -> Any:
            found = get(self, key, *more)
            if key.startswith(rows) and not swapped:
                swapped.append(1)
                following.rename("current", dropTarget=True)
                current.create_index("v")
            return found

        with monkeypatch.context() as patch:
            for name in ("get", "get_latest"):
                original = getattr(Reader, name)
                patch.setattr(Reader, name, lambda *some, original=original: swap_once(original, *some))
            found = read()
        assert swapped
        assert found in ({"_id": 1, "v": "old"}, {"_id": 1, "v": "new"})
        check_store(store)


def test_a_document_that_a_collection_never_had_is_not_read_from_it(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is renamed, and the document changed, between the two reads of ``find_one``."""
    collection = store.collection("a")
    collection.insert_one({"_id": 1, "v": "a's"})
    rows = parts_of(store).engine.catalog.prefix_of(CATALOG)
    get = Reader.get_latest
    renamed: list[int] = []

    def rename_once(self: Reader, key: bytes) -> bytes | None:
        found = get(self, key)
        if key.startswith(rows) and not renamed:
            renamed.append(1)
            collection.rename("b")
            store.collection("b").update_one({}, {"$set": {"v": "b's"}})
        return found

    monkeypatch.setattr(Reader, "get_latest", rename_once)
    assert collection.find_one({"_id": 1}) in ({"_id": 1, "v": "a's"}, None)


def test_what_is_inserted_while_a_collection_moves_to_and_fro_is_in_one_place_or_the_other(
    store: lowtide.Store,
) -> None:
    """A document whose insert returned is found. The ids are spread over both names."""
    store.collection("a").create_index("v")
    inserted: list[int] = []
    done = threading.Event()

    def insert(writer: int) -> None:
        for number in range(80):
            _id = writer * 1000 + number
            store.collection("a").insert_one({"_id": _id, "v": number % 5})
            inserted.append(_id)

    def move() -> None:
        turn = 0
        while not done.is_set() or turn < 10:
            turn += 1
            name, other = ("a", "b") if turn % 2 else ("b", "c")
            try:
                store.collection(name).rename(other)
            except lowtide.OperationFailure:  # nothing was inserted since
                for target in ("b", "c"):
                    moved.append({each["_id"] for each in store.collection(target).find()})
                    store.collection(target).drop()

    moved: list[set[int]] = []

    def work() -> None:
        try:
            run_together(*[partial(insert, writer) for writer in range(THREADS)])
        finally:
            done.set()

    run_together(work, move)
    there = [each for documents in check_store(store).values() for each in documents]
    everything = [*there, *(each for some in moved for each in some)]
    assert sorted(everything) == sorted(inserted)


def test_drops_and_writes_beside_each_other_leave_a_whole_collection(store: lowtide.Store) -> None:
    """G8, with a collection of garbage at every commit and checkpoints."""
    left = [30]

    def write(seed: int) -> None:
        random = Random(seed)
        while left[0]:
            collection = store.collection("c")
            with_array = [random.randrange(5), random.randrange(5)]
            collection.replace_one({"_id": random.randrange(20)}, {"v": with_array, "w": seed}, upsert=True)
            collection.delete_many({"v": random.randrange(5), "w": seed})

    def drop() -> None:
        try:
            for turn in range(30):
                store.collection("c").create_index("v")
                store.collection("c").create_index([("w", -1), ("v", 1)])
                (store.collection("c").drop if turn % 2 else store.collection("c").drop_indexes)()
                if turn % 10 == 0:
                    store.checkpoint()
                store.collect_garbage()
                left[0] -= 1
        finally:
            left[0] = 0

    run_together(drop, *[partial(write, seed) for seed in range(THREADS)])
    check_store(store)


# Statements of the store itself


def test_statements_of_many_threads_lose_nothing(store: lowtide.Store) -> None:
    """Each is repeated until it goes through: counters, lists, claims from a queue, upserts."""
    collection = store.collection("c")
    collection.create_index("state")
    collection.create_index("n", unique=True, sparse=True)
    collection.insert_many([{"_id": f"job {number}", "state": "new"} for number in range(40)])
    collection.insert_one({"_id": "sum", "count": 0, "log": []})
    claimed: list[str] = []
    refused: list[int] = []

    def work(thread: int) -> None:
        for number in range(20):
            collection.update_one({"_id": "sum"}, {"$inc": {"count": 1}, "$push": {"log": [thread, number]}})
            job = collection.find_one_and_update({"state": "new"}, {"$set": {"state": "taken"}})
            if job is not None:
                claimed.append(job["_id"])
            collection.update_one({"_id": f"upsert {number}"}, {"$inc": {"hits": 1}}, upsert=True)
            try:
                collection.insert_one({"n": number})
            except lowtide.DuplicateKeyError:
                refused.append(number)

    def look() -> None:
        found = collection.find_one({"_id": "sum"})
        assert found is not None
        assert found["count"] == len(found["log"])
        assert collection.count_documents({"state": {"$in": ["new", "taken"]}}) == 40

    run_beside(lambda: run_together(*[partial(work, thread) for thread in range(THREADS)]), [look])
    documents = check_store(store)["c"]
    assert documents["sum"]["count"] == THREADS * 20
    assert sorted(map(tuple, documents["sum"]["log"])) == [(a, b) for a in range(THREADS) for b in range(20)]
    assert sorted(claimed) == sorted(f"job {number}" for number in range(40))
    assert [documents[f"upsert {number}"]["hits"] for number in range(20)] == [THREADS] * 20
    assert len(refused) == (THREADS - 1) * 20
    assert sorted(each["n"] for each in documents.values() if "n" in each) == list(range(20))
