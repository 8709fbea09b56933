"""What a transaction sees of a collection, by an index and without one (I2, I3, I5, I6, I9, P3, P4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import lowtide
from lowtide import Isolation
from lowtide.documents.collection import Collection
from lowtide.documents.read_collection import ReadCollection
from tests.conftest import OpenStore
from tests.isolation.crowd import run_beside
from tests.isolation.world import BUFFERED, FIRST_COMMITTER_WINS, LEVELS, World, roll_back
from tests.support.collections import check_collection, check_store

BOTH_WAYS = pytest.mark.parametrize("reverse", [False, True])
PLANS = ["v_1", "_id_", "v_1_w_-1", "v_-1"]


@pytest.fixture(autouse=True)
def _small_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few documents at a time, so that every cursor has most of them still to come."""
    monkeypatch.setattr("lowtide.documents.reader._FIRST_FETCH", 2)
    monkeypatch.setattr("lowtide.documents.reader._LARGEST_FETCH", 8)


def fill(world: World, count: int) -> Collection:
    """Documents whose ``_id`` and ``v`` run against each other, with indexes, settled where the place wants them."""
    collection = world.store.collection("c")
    for keys in ("v", [("v", -1)], [("v", 1), ("w", -1)]):
        collection.create_index(keys)
    refill(collection, count)
    world.settle()
    return collection


def refill(collection: Collection, count: int) -> None:
    collection.delete_many({})
    collection.insert_many([{"_id": number, "v": count - number, "w": number % 3} for number in range(count)])


def pairs(found: Any) -> list[tuple[int, int]]:
    return [(each["_id"], each["v"]) for each in found]


def scan(collection: ReadCollection, plan: str, reverse: bool) -> Iterator[dict[str, Any]]:
    """All documents by one plan, in the order of ``v``, or of ``_id``."""
    direction = -1 if reverse else 1
    if plan == "_id_":
        return iter(collection.find({"_id": {"$gte": 0}}, sort=[("_id", direction)], hint=plan))
    return iter(collection.find({"v": {"$gte": -1000}}, sort=[("v", direction)], hint=plan))


def in_order(found: list[tuple[int, int]], plan: str, reverse: bool) -> list[tuple[int, int]]:
    return sorted(found, key=lambda pair: pair if plan == "_id_" else pair[::-1], reverse=reverse)


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_document_that_is_deleted_and_made_again_is_seen_once_as_it_was(world: World, level: Isolation) -> None:
    """I2: by every way to it; the new one is equal, or differs where no index looks."""
    collection = fill(world, 4)
    for again in ({"_id": 1, "v": 3, "w": 1}, {"_id": 1, "v": 3, "w": 1, "new": True}):
        tx = world.begin(level)
        old = tx["c"].find_one({"_id": 1})
        collection.delete_one({"_id": 1})
        world.meanwhile()
        assert tx["c"].find_one({"v": 3}) == old
        collection.insert_one(again)
        world.meanwhile()
        for plan in (*PLANS, "$natural"):
            assert list(tx["c"].find({"_id": 1, "v": 3}, hint=plan)) == [old]
        assert tx["c"].count_documents({"v": 3}) == tx["c"].count_documents({}) - 3 == 1
        tx.rollback()
    check_store(world.store)


@BOTH_WAYS
@pytest.mark.parametrize("level", LEVELS)
def test_a_scan_by_an_index_has_no_phantom_no_duplicate_and_no_gap(
    world: World, level: Isolation, reverse: bool
) -> None:
    """I3: others insert, move and delete before and behind it, with upkeep in between, and so does the transaction that
    scans; the cursor shows what there was when it began, also that of a transaction below SNAPSHOT."""
    collection = fill(world, 60)
    for plan in PLANS[reverse::2]:
        tx = world.begin(level)
        expected = in_order(pairs(tx["c"].find()), plan, reverse)
        seen = []
        for position, document in enumerate(scan(tx["c"], plan, reverse)):
            seen.append((document["_id"], document["v"]))
            if position % 20 == 5:
                with world.store.transaction() as other:
                    other["c"].update_many({"_id": {"$mod": [8, 0]}}, {"$inc": {"v": 30 - position}})
                    other["c"].delete_many({"_id": {"$mod": [12, 2]}})
                    other["c"].insert_many([{"_id": 200 + position, "v": -5}, {"_id": 300 + position, "v": 500}])
                world.meanwhile()
            if position % 20 == 15:
                tx["c"].update_many({"_id": {"$mod": [8, 1]}}, {"$inc": {"v": 1000}})
                tx["c"].delete_many({"_id": {"$mod": [12, 3]}})
                tx["c"].insert_one({"_id": 1001 + position, "v": 3})
        assert seen == expected
        check_collection(tx, "c")
        roll_back(tx)
        check_store(world.store)
        refill(collection, 60)


@pytest.mark.usefixtures("tiny_chunks")
def test_the_rest_of_the_index_vanishes_under_a_cursor(world: World) -> None:
    """For a cursor of the store itself, of a snapshot, and of a transaction."""
    collection = fill(world, 4)
    for number, plan in enumerate(PLANS):
        snapshot, transactions = world.store.snapshot(), [world.begin(level) for level in LEVELS]
        collections: list[ReadCollection] = [collection, snapshot.collection("c"), *(tx["c"] for tx in transactions)]
        cursors = [scan(each, plan, bool(number % 2)) for each in collections]
        seen = [[next(cursor)] for cursor in cursors]
        if number % 2:
            collection.delete_many({})
        else:
            collection.drop()
        world.meanwhile()
        for begun, cursor in zip(seen, cursors, strict=True):
            found = pairs([*begun, *cursor])
            assert found == in_order([(each, 4 - each) for each in range(4)], plan, bool(number % 2))
        snapshot.close()
        for tx in transactions:
            roll_back(tx)
        for keys in ("v", [("v", -1)], [("v", 1), ("w", -1)]):
            collection.create_index(keys)
        refill(collection, 4)
        world.meanwhile()
    check_store(world.store)


@pytest.mark.parametrize(("plan", "reverse"), [("v_1", False), ("v_-1", False), ("v_1", True)])
@pytest.mark.parametrize("level", LEVELS)
def test_removing_each_result_and_adding_others_while_iterating_yields_exactly_the_results(
    plain: World, level: Isolation, plan: str, reverse: bool
) -> None:
    """I9: a cursor reads one instant at every level, also at NONE, where each removal is committed at once."""
    fill(plain, 120)
    tx = plain.begin(level)
    seen = []
    for document in scan(tx["c"], plan, reverse):
        seen.append((document["_id"], document["v"]))
        tx["c"].delete_one({"_id": document["_id"]})
        tx["c"].insert_one({"_id": 1000 + document["_id"], "v": document["v"]})
        tx["c"].update_one({"_id": 1000 + document["_id"]}, {"$inc": {"v": -1 if reverse else 1}})
        if len(seen) % 40 == 0:
            plain.meanwhile()
    assert seen == in_order([(number, 120 - number) for number in range(120)], plan, reverse)
    assert tx["c"].count_documents({"_id": {"$lt": 1000}}) == 0
    assert tx["c"].count_documents({"v": {"$gte": -1000}}) == 120
    tx.commit()
    assert len(check_store(plain.store)["c"]) == 120


@pytest.mark.parametrize("size", [50, 1500])
def test_four_readers_see_a_batch_whole_or_not_at_all(open_store: OpenStore, size: int) -> None:
    """I5: by the index, without it, and by counting entries alone."""
    store = open_store(checkpointer="thread", collect_threshold=1)
    collection = store.collection("c")
    collection.create_index("batch")

    def write() -> None:
        for turn in range(6 if size <= 50 else 2):
            collection.insert_many([{"_id": number, "batch": turn} for number in range(size)])
            collection.update_many({"batch": turn}, {"$set": {"batch": -turn - 1}})
            store.checkpoint()
            collection.delete_many({"batch": {"$lt": 0}})

    def look(reader: int) -> None:
        if reader == 0:
            found = collection.count_documents({"batch": {"$gte": -100}})
        elif reader == 1:
            found = collection.count_documents({})
        elif reader == 2:
            found = len(list(collection.find({"batch": {"$gte": -100}})))
        else:
            with store.snapshot() as snapshot:
                found = len(list(snapshot.collection("c").find({"batch": {"$gte": 0}}))) + len(
                    list(snapshot.collection("c").find({"batch": {"$lt": 0}}))
                )
                assert found == len(check_collection(snapshot, "c"))
        assert found in (0, size)

    run_beside(write, [partial(look, reader) for reader in range(4)])
    assert check_store(store) in ({"c": {}}, {})


@pytest.mark.parametrize("level", LEVELS)
def test_own_writes_are_found_by_the_index_whatever_became_of_them(world: World, level: Isolation) -> None:
    """I6: insert, delete, insert of one document; an indexed value that goes from Foo to Bar and back."""
    collection = world.store.collection("c")
    collection.create_index("v")
    collection.create_index("u", unique=True, sparse=True)
    collection.insert_one({"_id": 0, "v": "Foo", "u": 0})
    world.settle()
    tx = world.begin(level)
    mine = tx["c"]
    for _ in range(2):
        mine.insert_one({"_id": 1, "v": "Foo", "u": 1})
        assert [each["_id"] for each in mine.find({"v": "Foo"})] == [0, 1]
        world.meanwhile()
        mine.delete_one({"_id": 1})
        assert [each["_id"] for each in mine.find({"v": "Foo"})] == [0]
        assert mine.find_one({"u": 1}) is None
    mine.insert_one({"_id": 1, "v": "Foo", "u": 1})
    for old, new in (("Foo", "Bar"), ("Bar", "Foo"), ("Foo", "Bar"), ("Bar", "Foo")):
        mine.update_many({"v": old}, {"$set": {"v": new}})
        world.meanwhile()
        assert mine.count_documents({"v": old}) == 0
        assert [each["_id"] for each in mine.find({"v": new}, sort=[("v", -1), ("_id", 1)])] == [0, 1]
        check_collection(tx, "c")
    with pytest.raises(lowtide.DuplicateKeyError):
        mine.update_one({"_id": 0}, {"$set": {"u": 1}})
    tx.commit()
    world.meanwhile()
    assert check_store(world.store)["c"] == {0: {"_id": 0, "v": "Foo", "u": 0}, 1: {"_id": 1, "v": "Foo", "u": 1}}
    assert collection.count_documents({"v": "Foo"}) == 2


# Statements


@pytest.mark.parametrize("level", LEVELS)
def test_an_update_does_not_meet_its_own_writes_and_the_next_one_does(plain: World, level: Isolation) -> None:
    """P4: each document moves forward over the very index that it was found by."""
    collection = fill(plain, 100)
    for plan in ("v_1", "v_-1", "$natural"):
        refill(collection, 100)
        move_all(plain, level, plan)


def move_all(plain: World, level: Isolation, plan: str) -> None:
    tx = plain.begin(level)
    result = tx["c"].update_many({"v": {"$gte": 1}}, {"$inc": {"v": 10}}, hint=plan)
    assert (result.matched_count, result.modified_count) == (100, 100)
    assert pairs(tx["c"].find({"v": {"$gte": 1}}, sort="v", hint="v_1")) == [(99 - n, 11 + n) for n in range(100)]
    plain.store.checkpoint()
    tx["c"].update_many({"v": {"$lte": 20}}, {"$inc": {"v": -1000}}, hint=plan)
    tx["c"].update_many({"v": {"$lte": 20}}, {"$inc": {"v": 1000}}, hint=plan)
    assert tx["c"].delete_many({"v": {"$lte": 20}}, hint=plan).deleted_count == 10
    assert tx["c"].count_documents({"v": {"$gte": -2000}}) == 90
    tx.commit()
    assert len(check_store(plain.store)["c"]) == 90


FAILING: dict[str, Callable[[Collection], object]] = {
    "update_many": lambda c: c.update_many({"_id": {"$gte": 2}}, {"$inc": {"v": 10}}),
    "insert": lambda c: c.insert_one({"_id": 9, "v": 5, "u": 3}),
    "update": lambda c: c.update_one({"_id": 1}, {"$set": {"u": 3, "v": 50}}),
    "replace": lambda c: c.replace_one({"_id": 1}, {"u": 3, "v": [5, 6]}),
    "upsert": lambda c: c.update_one({"_id": 10}, {"$set": {"u": 3, "v": [5, 6]}}, upsert=True),
    "same _id": lambda c: c.insert_one({"_id": 1, "v": 6, "u": 60}),
    "two arrays": lambda c: c.update_one({"_id": 1}, {"$set": {"v": [1, 2], "u": [7, 8]}}),
    "unique index": lambda c: c.create_index("same", unique=True),
    "index of arrays": lambda c: c.create_index([("left", 1), ("right", 1)]),
    "rename": lambda c: c.rename("taken"),
    "bulk": lambda c: c.bulk_write([lowtide.UpdateMany({"_id": {"$gte": 2}}, {"$inc": {"v": 10}})]),
    "many": lambda c: c.insert_many([{"_id": 2, "v": 1}]),
}


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("level", LEVELS)
def test_a_statement_that_fails_undoes_itself_alone_with_its_entries(
    plain: World, level: Isolation, failing: str
) -> None:
    """P3: what was written before it, in the transaction and in a savepoint, stays; what comes after goes on."""
    collection = plain.store.collection("c")
    collection.create_index("v")
    collection.create_index([("u", 1)], unique=True, sparse=True)
    collection.create_index([("u", 1), ("v", 1)])
    collection.insert_many([{"_id": n, "v": n, "u": n, "same": 1} for n in range(5)])
    collection.update_one({"_id": 4}, {"$set": {"v": "no number", "left": [1], "right": [2]}})
    plain.store.collection("taken").insert_one({"_id": 1})
    tx = plain.begin(level)
    mine = tx["c"]
    mine.update_one({"_id": 0}, {"$set": {"v": 70}})
    before = check_collection(tx, "c")
    information = mine.index_information()
    with pytest.raises(lowtide.OperationFailure):
        FAILING[failing](mine)
    assert check_collection(tx, "c") == before
    assert mine.index_information() == information
    if level is not Isolation.NONE:
        with tx.savepoint():
            mine.update_one({"_id": 3}, {"$set": {"v": 30}})
            with pytest.raises(lowtide.OperationFailure):
                FAILING[failing](mine)
            with tx.savepoint() as inner:
                mine.delete_one({"_id": 3})
                mine.insert_one({"_id": 3, "v": [3, 4]})
                mine.insert_one({"_id": 33, "v": 3})
                check_collection(tx, "c")
                inner.rollback()
            assert check_collection(tx, "c")[3]["v"] == 30
    mine.update_one({"_id": 1}, {"$inc": {"v": 100}})
    tx.commit()
    found = check_store(plain.store)["c"]
    assert list(found) == [0, 1, 2, 3, 4]
    assert (found[0]["v"], found[1]["v"]) == (70, 101)
    assert collection.index_information() == information
    assert not collection.index_information()["v_1"].get("multikey")


def in_turn(*works: Callable[[], object]) -> None:
    for work in works:
        work()


@pytest.mark.parametrize("level", BUFFERED)
def test_a_savepoint_that_is_undone_undoes_indexes_and_names_with_it(plain: World, level: Isolation) -> None:
    collection = fill(plain, 5)
    tx = plain.begin(level)
    tx["c"].update_one({"_id": 0}, {"$set": {"v": 70}})
    before = tx["c"].index_information()
    for undone in (
        lambda: tx["c"].create_index("w", unique=False),
        lambda: tx["c"].drop_index("v_1"),
        lambda: tx["c"].drop(),
        lambda: tx["c"].rename("d"),
        lambda: in_turn(partial(tx["c"].rename, "d"), lambda: tx["c"].insert_one({"_id": "new"})),
        lambda: in_turn(tx["c"].drop, lambda: tx["c"].insert_one({"_id": 0, "v": [1, 2]})),
        lambda: in_turn(tx["c"].drop, partial(tx["c"].create_index, "v"), lambda: tx["c"].insert_one({"v": 1})),
    ):
        with tx.savepoint() as savepoint:
            undone()
            for name in tx.list_collection_names():
                check_collection(tx, name)
            savepoint.rollback()
        assert tx["c"].index_information() == before
        assert tx.list_collection_names() == ["c"]
        assert len(check_collection(tx, "c")) == 5
    tx.commit()
    assert len(check_store(plain.store)["c"]) == 5
    assert [each["_id"] for each in collection.find({"v": 70})] == [0]
