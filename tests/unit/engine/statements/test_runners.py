"""Where statements run: transactions of all five levels, savepoints, snapshots, pins, and read-only stores."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

import lowtide
from lowtide import BulkWriteError, ConflictError, DuplicateKeyConflict, InsertOne, UsageError

LEVELS = [each.value for each in lowtide.Isolation]
BUFFERED = [each for each in LEVELS if each != "none"]
FIXED = ["snapshot", "serializable"]


@pytest.fixture
def users(store: lowtide.Store) -> lowtide.Collection:
    found = store["users"]
    found.insert_many([{"_id": each, "n": each, "city": "ab"[each % 2]} for each in range(4)])
    found.create_index("n")
    return found


def values(collection: Any) -> dict[Any, Any]:
    return {each["_id"]: each.get("n") for each in collection.find()}


@pytest.mark.parametrize("level", LEVELS)
def test_a_transaction_sees_its_own_writes_and_others_see_them_at_its_commit(
    store: lowtide.Store, users: lowtide.Collection, level: str
) -> None:
    with store.transaction(level) as tx:
        mine = tx.collection("users")
        mine.insert_one({"_id": 9, "n": 9})
        mine.update_one({"n": 1}, {"$set": {"n": 10}})
        mine.delete_one({"n": 2})
        assert values(mine) == {0: 0, 1: 10, 3: 3, 9: 9}
        assert [each["_id"] for each in mine.find({"n": {"$gt": 3}})] == [9, 1]
        assert mine.count_documents({"n": {"$gt": 3}}) == 2
        assert mine.find_one({"n": 2}) is None
        assert mine.find_one({"n": 10}, {"_id": 1}) == {"_id": 1}
        assert (values(users) == {0: 0, 1: 10, 3: 3, 9: 9}) is (level == "none")
    assert values(users) == {0: 0, 1: 10, 3: 3, 9: 9}
    assert [each["_id"] for each in users.find(sort="n")] == [0, 3, 9, 1]


@pytest.mark.parametrize("level", BUFFERED)
def test_a_rollback_leaves_nothing(store: lowtide.Store, users: lowtide.Collection, level: str) -> None:
    tx = store.begin(level)
    tx["users"].delete_many({})
    tx["users"].insert_one({"_id": 9, "n": [1, 2]})
    tx["new"].create_index("x")
    tx.rollback()
    assert values(users) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert users.index_information() == {"_id_": {"key": [("_id", 1)]}, "n_1": {"key": [("n", 1)]}}
    assert store.list_collection_names() == ["users"]
    with pytest.raises(UsageError, match="cannot be used any more"):
        tx["users"].insert_one({"_id": 1})
    with pytest.raises(UsageError, match="cannot be used any more"):
        tx["users"].find_one()


@pytest.mark.parametrize("level", LEVELS)
def test_what_others_commit_is_seen_as_the_level_says(
    store: lowtide.Store, users: lowtide.Collection, level: str
) -> None:
    with store.transaction(level, read_only=True) as tx:
        assert tx["users"].count_documents({}) == 4
        users.insert_one({"_id": 9, "n": 9})
        assert tx["users"].count_documents({}) == (4 if level in FIXED else 5)
        assert (tx["users"].find_one(9) is None) is (level in FIXED)


@pytest.mark.parametrize("level", BUFFERED)
def test_two_writers_of_one_document_do_not_lose_each_others_work_at_any_level(
    store: lowtide.Store, users: lowtide.Collection, level: str
) -> None:
    """Below SNAPSHOT, too: index entries are made from the document that was read."""
    first, second = store.begin(level), store.begin(level)
    first["users"].update_one({"_id": 1}, {"$inc": {"n": 10}})
    second["users"].update_one({"_id": 1}, {"$inc": {"n": 10}})
    first.commit()
    with pytest.raises(ConflictError, match="the document with _id 1 of collection 'users'") as caught:
        second.commit()
    assert caught.value.keyspace == "documents/users"
    assert values(users)[1] == 11
    assert [each["_id"] for each in users.find({"n": {"$gt": 3}})] == [1]


@pytest.mark.parametrize("level", BUFFERED)
def test_two_writers_of_different_documents_do_not_meet(
    store: lowtide.Store, users: lowtide.Collection, level: str
) -> None:
    first, second = store.begin(level), store.begin(level)
    first["users"].update_one({"_id": 1}, {"$inc": {"n": 10}})
    second["users"].update_one({"_id": 2}, {"$inc": {"n": 10}})
    first["fresh"].insert_one({"_id": 1})
    second["fresh"].insert_one({"_id": 2})
    first.commit()
    second.commit()
    assert values(users) == {0: 0, 1: 11, 2: 12, 3: 3}
    assert store["fresh"].count_documents({}) == 2


@pytest.mark.parametrize("level", BUFFERED)
def test_two_that_insert_one_id_or_one_unique_value_conflict(store: lowtide.Store, level: str) -> None:
    users = store["users"]
    users.create_index("email", unique=True)
    for documents in ([{"_id": 1}, {"_id": 1}], [{"_id": 2, "email": "x"}, {"_id": 3, "email": "x"}]):
        first, second = store.begin(level), store.begin(level)
        first["users"].insert_one(documents[0])
        second["users"].insert_one(documents[1])
        first.commit()
        with pytest.raises(ConflictError) as caught:
            second.commit()
    assert isinstance(caught.value, DuplicateKeyConflict)
    assert caught.value.details == {"collection": "users", "index": "email_1", "keyValue": {"email": "x"}, "_id": 2}
    assert "gave {'email': 'x'} to the document with _id 2 first" in str(caught.value)
    assert users.count_documents({}) == 2


@pytest.mark.parametrize("level", BUFFERED)
def test_who_writes_documents_relies_on_the_indexes_that_it_saw(store: lowtide.Store, level: str) -> None:
    users = store["users"]
    users.insert_one({"_id": 1, "n": 1})
    tx = store.begin(level)
    tx["users"].insert_one({"_id": 2, "n": 2})
    users.create_index("n")
    with pytest.raises(ConflictError, match="the indexes and schema of collection 'users'"):
        tx.commit()
    assert users.count_documents({"n": {"$gt": 0}}) == 1


def test_serializable_reads_are_index_ranges_and_not_whole_collections(
    store: lowtide.Store, users: lowtide.Collection
) -> None:
    def attempt(change: Callable[[], object]) -> None:
        with store.transaction("serializable") as tx:
            assert tx["users"].count_documents({"n": {"$gte": 2, "$lt": 10}}) >= 2
            change()
            tx["log"].insert_one({})

    attempt(lambda: users.insert_one({"_id": 7, "n": 70}))
    attempt(lambda: users.update_one({"_id": 0}, {"$set": {"n": -5}}))
    for change in (
        lambda: users.insert_one({"_id": 8, "n": 5}),
        lambda: users.update_one({"_id": 8}, {"$set": {"n": 60}}),
    ):
        with pytest.raises(ConflictError):
            attempt(change)
    users.delete_one({"_id": 8})
    attempt(lambda: None)
    assert store["log"].count_documents({}) == 3


@pytest.mark.parametrize("level", BUFFERED)
def test_a_savepoint_undoes_the_statements_in_it(store: lowtide.Store, users: lowtide.Collection, level: str) -> None:
    with store.transaction(level) as tx:
        mine = tx["users"]
        mine.update_one({"_id": 0}, {"$set": {"n": 50}})
        with contextlib.suppress(ZeroDivisionError), tx.savepoint():
            mine.delete_many({"n": {"$lt": 60}})
            mine.insert_one({"_id": 9, "n": [7, 8]})
            mine.create_index("city")
            assert values(mine) == {9: [7, 8]}
            raise ZeroDivisionError
        assert values(mine) == {0: 50, 1: 1, 2: 2, 3: 3}
        with tx.savepoint():
            mine.insert_one({"_id": 8, "n": 8})
        assert [each["_id"] for each in mine.find(sort=[("n", -1)])] == [0, 8, 3, 2, 1]
    assert values(users) == {0: 50, 1: 1, 2: 2, 3: 3, 8: 8}
    assert list(users.index_information()) == ["_id_", "n_1"]
    assert "multikey" not in users.index_information()["n_1"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_statement_that_fails_leaves_the_transaction_as_it_was(
    store: lowtide.Store, users: lowtide.Collection, level: str
) -> None:
    with store.transaction(level) as tx:
        mine = tx["users"]
        mine.insert_one({"_id": 9, "n": "text"})
        with pytest.raises(lowtide.WriteError):
            mine.update_many({}, {"$inc": {"n": 1}})
        with pytest.raises(lowtide.DuplicateKeyError):
            mine.insert_one({"_id": 9})
        assert values(mine) == {0: 0, 1: 1, 2: 2, 3: 3, 9: "text"}
    assert values(users) == {0: 0, 1: 1, 2: 2, 3: 3, 9: "text"}


def test_run_begins_anew_after_a_conflict(store: lowtide.Store, users: lowtide.Collection) -> None:
    attempts = []

    def work(tx: lowtide.Transaction) -> int:
        found = tx["users"].find_one({"_id": 1})
        assert found is not None
        attempts.append(found["n"])
        if len(attempts) == 1:
            users.update_one({"_id": 1}, {"$set": {"n": 100}})
        return tx["users"].update_one({"_id": 1}, {"$set": {"n": found["n"] + 1}}).modified_count

    assert store.run(work) == 1
    assert attempts == [1, 100]
    assert values(users)[1] == 101


def test_run_repeats_what_met_a_unique_value_until_it_is_a_duplicate(store: lowtide.Store) -> None:
    users = store["users"]
    users.create_index("email", unique=True)

    def work(tx: lowtide.Transaction) -> None:
        tx["users"].insert_one({"_id": 2, "email": "x"})
        if users.find_one() is None:
            users.insert_one({"_id": 1, "email": "x"})

    with pytest.raises(lowtide.DuplicateKeyError) as caught:
        store.run(work)
    assert not isinstance(caught.value, ConflictError), "begun anew, it saw the other one"


@pytest.mark.parametrize("level", ["none", None])
def test_statements_that_are_commits_of_their_own_never_conflict(store: lowtide.Store, level: str | None) -> None:
    store["users"].insert_one({"_id": 1, "n": 0})
    store["users"].create_index("n")

    def count() -> None:
        for _ in range(25):
            if level is None:
                store["users"].update_one({"_id": 1}, {"$inc": {"n": 1}})
            else:
                with store.transaction(level) as tx:
                    tx["users"].update_one({"_id": 1}, {"$inc": {"n": 1}})

    threads = [threading.Thread(target=count) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert store["users"].find().hint("n_1").to_list() == [{"_id": 1, "n": 100}]


WRITES: list[Callable[[Any], object]] = [
    lambda users: users.insert_one({"_id": 9}),
    lambda users: users.insert_many([{"_id": 9}]),
    lambda users: users.update_one({"_id": 1}, {"$set": {"n": 5}}),
    lambda users: users.delete_many({}),
    lambda users: users.create_index("city"),
    lambda users: users.drop_index("n_1"),
    lambda users: users.rename("people"),
    lambda users: users.drop(),
    lambda users: users.find_one_and_delete({}),
]


def test_a_read_only_transaction_refuses_every_write(store: lowtide.Store, users: lowtide.Collection) -> None:
    with store.transaction(read_only=True) as tx:
        for write in WRITES:
            with pytest.raises(UsageError, match="read-only"):
                write(tx["users"])
        assert values(tx["users"]) == {0: 0, 1: 1, 2: 2, 3: 3}
    with store.snapshot() as snapshot:
        assert not hasattr(snapshot["users"], "insert_one")


def test_a_store_that_is_only_read_follows_its_owner(store: lowtide.Store, users: lowtide.Collection) -> None:
    with lowtide.open(store.path, read_only=True) as reader:
        theirs = reader["users"]
        assert values(theirs) == {0: 0, 1: 1, 2: 2, 3: 3}
        assert [each["_id"] for each in theirs.find({"n": {"$gte": 2}}).hint("n_1")] == [2, 3]
        assert theirs.find({"n": 2}).explain()["executionStats"]["totalDocsExamined"] == 1
        assert reader.list_collection_names() == ["users"]
        with reader.transaction() as tx:
            assert tx["users"].count_documents({}) == 4
            users.insert_one({"_id": 9, "n": 9})
            assert tx["users"].find_one(9) is None
        assert theirs.find_one(9) == {"_id": 9, "n": 9}
        assert theirs.find_one({"n": 9}) == {"_id": 9, "n": 9}
        store["fresh"].insert_one({"_id": 1})
        assert reader["fresh"].find_one() == {"_id": 1}
        assert reader["nothing"].find().to_list() == []
        assert list(reader["users"].aggregate([{"$count": "n"}])) == [{"n": 5}]
        for write in WRITES:
            with pytest.raises(UsageError, match="read-only"):
                write(theirs)
        with pytest.raises((UsageError, BulkWriteError), match="read-only"):
            theirs.bulk_write([InsertOne({})])
    assert users.count_documents({}) == 5


def test_a_pin_keeps_collections_as_they_were(store: lowtide.Store, users: lowtide.Collection) -> None:
    with store.pin("before"):
        users.update_many({}, {"$inc": {"n": 100}})
        users.drop_index("n_1")
        store["later"].insert_one({})
        for snapshot in (store.snapshot("before"), lowtide.open_snapshot(store.path, "before")):
            with snapshot:
                old = snapshot["users"]
                assert values(old) == {0: 0, 1: 1, 2: 2, 3: 3}
                assert [each["_id"] for each in old.find({"n": {"$gt": 1}}).hint("n_1")] == [2, 3]
                assert snapshot.list_collection_names() == ["users"]
                assert snapshot["later"].find_one() is None


def test_a_pin_of_one_collection_holds_what_its_reader_needs(store: lowtide.Store, users: lowtide.Collection) -> None:
    store["other"].insert_one({"_id": 1})
    with store.pin("part", keyspaces=users.keyspaces()):
        users.delete_many({})
        for snapshot in (store.snapshot("part"), lowtide.open_snapshot(store.path, "part")):
            with snapshot:
                old = snapshot["users"]
                assert values(old) == {0: 0, 1: 1, 2: 2, 3: 3}
                assert old.find_one({"n": 2}) == {"_id": 2, "n": 2, "city": "a"}
                assert old.count_documents({"n": {"$gte": 2}}) == 2
                assert list(old.index_information()) == ["_id_", "n_1"]
                assert snapshot.list_collection_names() == ["users"]
                with pytest.raises(UsageError, match="documents/other"):
                    snapshot["other"].find_one()


def test_a_renamed_collection_is_pinned_by_its_keyspaces(store: lowtide.Store, users: lowtide.Collection) -> None:
    users.rename("people")
    people = store["people"]
    with store.pin("part", keyspaces=people.keyspaces()):
        people.drop()
        with lowtide.open_snapshot(store.path, "part") as snapshot:
            assert values(snapshot["people"]) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_a_closed_store_and_a_closed_snapshot_refuse(store: lowtide.Store, users: lowtide.Collection) -> None:
    snapshot = store.snapshot()
    old = snapshot["users"]
    snapshot.close()
    with pytest.raises(UsageError):
        old.find_one({"city": "a"})
    store.close()
    reads: list[Callable[[Any], object]] = [lambda users: users.find_one(), lambda users: users.count_documents({})]
    for call in (*WRITES, *reads):
        with pytest.raises(UsageError, match="closed"):
            call(users)
