"""Which transactions on collections conflict: over documents, unique values, and what a serializable query has read
(C1, C5, C6, C7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import lowtide
from lowtide import Isolation
from lowtide.documents.collection import Collection
from tests.conftest import OpenStore
from tests.isolation.crowd import run_beside, run_together
from tests.isolation.world import BUFFERED, FIRST_COMMITTER_WINS, World, commits
from tests.support.collections import check_store
from tests.support.patience import PATIENCE

SERIALIZABLE = Isolation.SERIALIZABLE
UPDATE, DELETE, REPLACE, INSERT, TOUCH = "update", "delete", "replace", "insert", "touch"

WORK: dict[str, Callable[[Collection, int], object]] = {
    UPDATE: lambda collection, who: collection.update_one({"_id": 1}, {"$set": {"v": who}}),
    DELETE: lambda collection, who: collection.delete_one({"_id": 1}),
    REPLACE: lambda collection, who: collection.replace_one({"_id": 1}, {"v": who, "who": who}),
    INSERT: lambda collection, who: collection.insert_one({"_id": 2, "v": who}),
    TOUCH: lambda collection, who: collection.update_one({"_id": 1}, {"$set": {"no index": who}}),
}
PAIRS = [
    *((UPDATE, UPDATE), (UPDATE, DELETE), (DELETE, UPDATE), (DELETE, DELETE), (INSERT, INSERT)),
    *((REPLACE, UPDATE), (UPDATE, REPLACE), (DELETE, TOUCH), (TOUCH, DELETE), (TOUCH, UPDATE)),
]


@pytest.mark.parametrize("level", BUFFERED)
@pytest.mark.parametrize("indexed", [False, True])
def test_of_two_who_write_one_document_the_first_to_commit_wins(world: World, level: Isolation, indexed: bool) -> None:
    """C1. Below SNAPSHOT, too: the entries of the one would not fit the document of the other."""
    for first, second in PAIRS:
        collection = world.store.collection("c")
        collection.delete_many({})
        collection.insert_one({"_id": 1, "v": 0})
        if indexed:
            collection.create_index("v")
        world.meanwhile()
        one, other = world.begin(level), world.begin(level)
        WORK[first](one["c"], 10)
        WORK[second](other["c"], 20)
        world.meanwhile()
        assert commits(one)
        world.meanwhile()
        assert not commits(other)
        left = check_store(world.store).get("c", {})
        assert {each["v"] for each in left.values()} <= {0, 10}
        assert (1 in left, 2 in left) == (first != DELETE, first == INSERT)


@pytest.mark.parametrize("level", BUFFERED)
def test_a_document_written_to_a_collection_that_was_dropped_meanwhile_conflicts(
    world: World, level: Isolation
) -> None:
    """However long ago that was, and whatever is left of the collection's row."""
    collection = world.store.collection("c")
    collection.create_index("v")
    collection.insert_one({"_id": 1, "v": 1})
    world.settle()
    tx = world.begin(level)
    tx["c"].insert_one({"_id": 2, "v": 2})
    world.meanwhile()
    collection.drop()
    world.meanwhile()
    world.meanwhile()
    assert not commits(tx)
    assert check_store(world.store) == {}


@pytest.mark.parametrize("level", BUFFERED)
def test_different_documents_and_reading_never_conflict(world: World, level: Isolation) -> None:
    """C1: also where both have the same value in an index that is not unique."""
    collection = world.store.collection("c")
    collection.create_index("v")
    collection.insert_many([{"_id": number, "v": 5} for number in range(4)])
    world.settle()
    one, other, reader = world.begin(level), world.begin(level), world.begin(level)
    assert one["c"].find_one({"_id": 0}) == other["c"].find_one({"_id": 0}) == reader["c"].find_one({"_id": 0})
    one["c"].update_one({"_id": 1}, {"$set": {"v": 6}})
    one["c"].insert_one({"_id": 8, "v": 5})
    other["c"].update_one({"_id": 2}, {"$set": {"v": 6}})
    other["c"].insert_one({"_id": 9, "v": 5})
    assert reader["c"].count_documents({"v": 5}) == 4
    assert commits(one)
    world.meanwhile()
    assert commits(other)
    assert commits(reader)
    assert [each["_id"] for each in collection.find({"v": 6})] == [1, 2]
    check_store(world.store)


# Unique values


def with_values(world: World) -> Collection:
    collection = world.store.collection("c")
    collection.create_index("v", unique=True)
    collection.insert_many([{"_id": number, "v": 100 + number} for number in range(3)])
    world.settle()
    return collection


@pytest.mark.parametrize("level", BUFFERED)
def test_a_value_that_another_took_first_is_refused_and_the_row_stays_under_its_old_one(
    world: World, level: Isolation
) -> None:
    """C5: T1 moves document 1 to 743 and stays open; T2 inserts 743 and commits; T1 fails."""
    collection = with_values(world)
    first = world.begin(level)
    first["c"].update_one({"_id": 1}, {"$set": {"v": 743}})
    collection.insert_one({"_id": "other", "v": 743})
    world.meanwhile()
    with pytest.raises(lowtide.DuplicateKeyError) as error:
        first.commit()
    assert isinstance(error.value, lowtide.ConflictError)
    assert (error.value.details["keyValue"], error.value.details["_id"]) == ({"v": 743}, "other")
    assert collection.find_one({"v": 101}) == {"_id": 1, "v": 101}
    assert collection.find_one({"v": 743}) == {"_id": "other", "v": 743}
    assert len(check_store(world.store)["c"]) == 4


TAKING: dict[str, Callable[[Collection], object]] = {
    "insert": lambda c: c.insert_one({"_id": "new", "v": 101}),
    "update": lambda c: c.update_one({"_id": 2}, {"$set": {"v": 101}}),
    "by the index": lambda c: c.update_one({"v": 102}, {"$inc": {"v": -1}}),
    "replace": lambda c: c.replace_one({"_id": 2}, {"v": 101}),
    "upsert": lambda c: c.update_one({"_id": "new"}, {"$set": {"v": 101}}, upsert=True),
    "array": lambda c: c.update_one({"_id": 2}, {"$set": {"v": [7, 101]}}),
    "equal number": lambda c: c.insert_one({"_id": "new", "v": 101.0}),
    "find and": lambda c: c.find_one_and_update({"_id": 2}, {"$set": {"v": 101}}),
    "many": lambda c: c.update_many({}, {"$set": {"v": 9}}),
    "null twice": lambda c: [c.insert_one({"_id": "new"}), c.insert_one({"_id": "newer", "v": None})],
}


@pytest.mark.parametrize("taking", TAKING)
def test_a_value_that_is_there_is_refused_at_once_and_leaves_nothing(plain: World, taking: str) -> None:
    """C5, one after the other: of the store, and in a transaction at every level, that goes on."""
    collection = with_values(plain)
    before = check_store(plain.store)["c"]
    with pytest.raises(lowtide.DuplicateKeyError):
        TAKING[taking](collection)
    collection.delete_many({"_id": "new"})
    assert check_store(plain.store)["c"] == before
    for level in BUFFERED:
        tx = plain.begin(level)
        with pytest.raises(lowtide.DuplicateKeyError):
            TAKING[taking](tx["c"])
        tx["c"].delete_many({"_id": "new"})
        tx["c"].insert_one({"_id": level.name, "v": level.name})
        tx.commit()
        before[level.name] = {"_id": level.name, "v": level.name}
        assert check_store(plain.store)["c"] == before


@pytest.mark.parametrize("level", BUFFERED)
def test_a_value_may_go_from_one_document_to_another_within_a_transaction(world: World, level: Isolation) -> None:
    collection = with_values(world)
    with world.store.transaction(level) as tx:
        tx["c"].delete_one({"_id": 0})
        tx["c"].insert_one({"_id": "heir", "v": 100})
        tx["c"].update_one({"_id": 1}, {"$set": {"v": 1000}})
        world.meanwhile()
        tx["c"].update_one({"_id": 2}, {"$set": {"v": 101}})
        tx["c"].update_one({"_id": 1}, {"$set": {"v": 102}})
    assert {each["v"]: each["_id"] for each in collection.find()} == {100: "heir", 101: 2, 102: 1}
    check_store(world.store)


def test_of_many_threads_that_want_one_value_exactly_one_gets_it(open_store: OpenStore) -> None:
    """C5, at once: by inserts and by updates, of the store itself and in transactions; nothing is left of the rest."""
    store = open_store(checkpointer="thread")
    collection = store.collection("c")
    collection.create_index("v", unique=True, sparse=True)
    collection.insert_many([{"_id": f"row {number}"} for number in range(4)])
    got: list[tuple[int, int]] = []
    start = threading.Barrier(4)

    def want(thread: int) -> None:
        for value in range(25):
            start.wait(PATIENCE)
            try:
                if thread == 0:
                    collection.insert_one({"_id": f"{thread} {value}", "v": value})
                elif thread == 1:
                    collection.update_one({"_id": "row 1"}, {"$set": {"v": value}})
                else:
                    level = Isolation.READ_COMMITTED if thread == 2 else Isolation.SNAPSHOT
                    with store.transaction(level) as tx:
                        tx["c"].insert_one({"_id": f"{thread} {value}", "v": value})
            except lowtide.DuplicateKeyError:
                continue
            got.append((value, thread))

    run_together(*[partial(want, thread) for thread in range(4)])
    assert sorted(value for value, _ in got) == list(range(25))
    documents = check_store(store)["c"]
    kept = [value for value, thread in got if thread != 1]
    assert sorted(each["v"] for each in documents.values() if "v" in each and each["_id"] != "row 1") == sorted(kept)


# One document that all want


@pytest.mark.parametrize("level", [None, *Isolation])
def test_a_document_that_many_increment_has_all_of_it_and_is_never_missing(
    open_store: OpenStore, level: Isolation | None
) -> None:
    """C6: by statements of the store, and by transactions that are repeated; readers come by the index, too."""
    store = open_store(checkpointer="thread", collect_threshold=1)
    collection = store.collection("c")
    collection.create_index("n")
    collection.create_index("name", unique=True)
    collection.insert_one({"_id": 1, "n": 0, "name": "hot"})
    committed: list[int] = []

    def increment(source: lowtide.Store | lowtide.Transaction) -> None:
        result = source.collection("c").update_one({"name": "hot"}, {"$inc": {"n": 1}})
        assert result.modified_count == 1, "a writer did not find the document"

    def count() -> None:
        for turn in range(40):
            if level is None:
                increment(store)
            else:
                store.run(increment, level, attempts=10_000)
            committed.append(1)
            if turn % 20 == 0:
                store.checkpoint()

    def look() -> None:
        assert collection.find_one({"_id": 1}) is not None
        assert collection.find_one({"name": "hot"}) is not None
        assert len(list(collection.find({"n": {"$gte": 0}}))) == 1
        assert collection.count_documents({"n": {"$gte": 0}}) == 1

    run_beside(lambda: run_together(*[count] * 3), [look])
    assert len(committed) == 120
    assert check_store(store) == {"c": {1: {"_id": 1, "n": 120, "name": "hot"}}}


# What a serializable query has read


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_write_skew_is_refused_at_serializable_alone(world: World, level: Isolation) -> None:
    """C7: two accounts of one owner may not both be emptied; each sees the other one full, by an index."""
    collection = world.store.collection("c")
    collection.create_index([("owner", 1), ("balance", 1)])
    collection.insert_many([{"_id": number, "owner": "Ann", "balance": 100} for number in range(2)])
    collection.insert_many([{"_id": 10 + number, "owner": "Bob", "balance": 100} for number in range(2)])
    world.settle()
    transactions = [world.begin(level) for _ in range(2)]
    for number, tx in enumerate(transactions):
        found = tx["c"].find({"owner": "Ann", "balance": {"$gt": 0}}, hint="owner_1_balance_1")
        assert sum(each["balance"] for each in found) == 200
        tx["c"].update_one({"_id": number}, {"$set": {"balance": 0}})
    world.meanwhile()
    assert commits(transactions[0])
    world.meanwhile()
    assert commits(transactions[1]) == (level is Isolation.SNAPSHOT)
    check_store(world.store)


READS: dict[str, Callable[[Collection], object]] = {
    "find": lambda c: list(c.find({"v": {"$gte": 10, "$lt": 20}})),
    "count": lambda c: c.count_documents({"v": {"$gte": 10, "$lt": 20}}),
    "sorted": lambda c: list(c.find({"v": {"$gte": 10, "$lt": 20}}, sort=[("v", -1)])),
    "aggregate": lambda c: list(c.aggregate([{"$match": {"v": {"$gte": 10, "$lt": 20}}}, {"$count": "n"}])),
    "distinct": lambda c: c.distinct("w", {"v": {"$gte": 10, "$lt": 20}}),
    "update": lambda c: c.update_many({"v": {"$gte": 10, "$lt": 20}, "w": "nobody"}, {"$set": {"x": 1}}),
    "or": lambda c: list(c.find({"$or": [{"v": {"$gte": 10, "$lt": 15}}, {"v": {"$gte": 15, "$lt": 20}}]})),
    "in": lambda c: list(c.find({"v": {"$in": list(range(10, 20))}})),
}

INSIDE: dict[str, Callable[[Collection], object]] = {
    "insert": lambda c: c.insert_one({"_id": "new", "v": 15}),
    "insert at the edge": lambda c: c.insert_one({"_id": "new", "v": 10}),
    "insert an array": lambda c: c.insert_one({"_id": "new", "v": [1000, 15]}),
    "move in": lambda c: c.update_one({"_id": 30}, {"$set": {"v": 19}}),
    "move out": lambda c: c.update_one({"_id": 15}, {"$set": {"v": 500}}),
    "delete": lambda c: c.delete_one({"_id": 15}),
}
OUTSIDE: dict[str, Callable[[Collection], object]] = {
    "insert": lambda c: c.insert_one({"_id": "new", "v": 25}),
    "insert at the edge": lambda c: c.insert_one({"_id": "new", "v": 20}),
    "insert a string": lambda c: c.insert_one({"_id": "new", "v": "15"}),
    "insert none": lambda c: c.insert_one({"_id": "new"}),
    "move": lambda c: c.update_one({"_id": 30}, {"$set": {"v": 20}}),
    "change": lambda c: c.update_one({"_id": 30}, {"$set": {"w": 15}}),
    "delete": lambda c: c.delete_one({"_id": 30}),
    "elsewhere": lambda c: c.insert_one({"_id": "new", "v": -15}),
}


@pytest.mark.parametrize("read", READS)
def test_a_serializable_query_conflicts_with_what_falls_into_its_range_alone(plain: World, read: str) -> None:
    """C7: a phantom inside the range of the index is a conflict; what is outside is none of its business."""
    store = plain.store
    for inside, works in ((True, INSIDE), (False, OUTSIDE)):
        for name, work in works.items():
            collection = store.collection("c")
            collection.drop()
            collection.create_index("v")
            collection.insert_many([{"_id": number, "v": number, "w": number % 2} for number in range(0, 40, 3)])
            tx = plain.begin(SERIALIZABLE)
            READS[read](tx["c"])
            tx["other"].insert_one({})
            work(collection)
            assert commits(tx) != inside, f"{name}, {'inside' if inside else 'outside'}"


@pytest.mark.parametrize("unique", [False, True])
def test_a_serializable_query_that_found_nothing_conflicts_with_what_it_looked_for(plain: World, unique: bool) -> None:
    """By one value, which a unique index holds under one key."""
    collection = plain.store.collection("c")
    collection.create_index("name", unique=unique)
    queries: list[Callable[[Collection], Any]] = [
        lambda c: c.find_one({"name": "Ann"}),
        lambda c: list(c.find({"name": "Ann"})),
        lambda c: c.count_documents({"name": "Ann"}),
        lambda c: c.update_one({"name": "Ann"}, {"$set": {"x": 1}}).matched_count or None,
    ]
    for number, query in enumerate(queries):
        for name, expected in (("Ann", False), (f"Bob {number}", True)):
            tx = plain.begin(SERIALIZABLE)
            assert not query(tx["c"])
            tx["other"].insert_one({})
            collection.insert_one({"_id": name, "name": name})
            assert commits(tx) == expected
            collection.delete_one({"_id": "Ann"})


def test_a_query_that_stops_early_has_read_no_further(plain: World) -> None:
    """The first by an order of the index: what comes behind it is not read."""
    collection = plain.store.collection("c")
    collection.create_index("v")
    collection.insert_many([{"_id": number, "v": number} for number in range(100)])
    for value, expected in ((200, True), (-1, False)):
        tx = plain.begin(SERIALIZABLE)
        assert tx["c"].find_one({}, sort=[("v", 1)]) == {"_id": 0, "v": 0}
        tx["other"].insert_one({})
        collection.insert_one({"_id": value, "v": value})
        assert commits(tx) == expected


def test_blind_writes_and_readers_never_conflict_at_serializable(plain: World) -> None:
    """C7."""
    collection = plain.store.collection("c")
    collection.create_index("v")
    collection.insert_many([{"_id": number, "v": number} for number in range(10)])
    blind, reader = plain.begin(SERIALIZABLE), plain.begin(SERIALIZABLE)
    blind["c"].insert_one({"v": 5})
    assert len(list(reader["c"].find({"v": {"$gte": 0}}))) == 10
    collection.insert_one({"v": 5})
    collection.update_many({}, {"$inc": {"v": 1}})
    assert len(list(reader["c"].find({"v": {"$gte": 0}}))) == 10
    assert commits(blind)
    assert commits(reader)
    assert len(check_store(plain.store)["c"]) == 12
