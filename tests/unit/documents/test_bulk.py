"""Bulk writes: counts, errors in PyMongo's form, ordered and unordered, in one transaction."""

from __future__ import annotations

from typing import Any

import pytest

import lowtide
from lowtide import (
    BulkWriteError,
    DeleteMany,
    DeleteOne,
    InsertOne,
    OperationFailure,
    ReplaceOne,
    UpdateMany,
    UpdateOne,
    UsageError,
)


@pytest.fixture
def users(store: lowtide.Store) -> lowtide.Collection:
    found = store.collection("users")
    found.insert_many([{"_id": each, "n": each} for each in range(3)])
    return found


def stored(collection: Any) -> dict[Any, Any]:
    return {each["_id"]: each.get("n") for each in collection.find()}


def test_each_operation_sees_what_those_before_it_did(users: lowtide.Collection) -> None:
    result = users.bulk_write(
        [
            InsertOne({"_id": 3, "n": 3}),
            UpdateOne({"_id": 3}, {"$inc": {"n": 10}}),
            UpdateMany({"n": {"$lt": 2}}, {"$inc": {"n": 100}}),
            ReplaceOne({"_id": 2}, {"n": 7}),
            UpdateOne({"_id": 9}, {"$set": {"n": 9}}, upsert=True),
            ReplaceOne({"_id": "x"}, {"n": 1}, upsert=True),
            UpdateOne({"_id": 9}, {"$set": {"n": 9}}),
            DeleteOne({"_id": 0}),
            DeleteMany({"n": {"$gt": 100}}),
        ]
    )
    assert stored(users) == {2: 7, 3: 13, 9: 9, "x": 1}
    assert (result.inserted_count, result.matched_count, result.modified_count) == (1, 5, 4)
    assert (result.deleted_count, result.upserted_count, result.upserted_ids) == (2, 2, {4: 9, 5: "x"})
    assert result.acknowledged


def test_array_filters_are_passed_on(users: lowtide.Collection) -> None:
    users.update_many({}, {"$set": {"n": [1, 5]}})
    change = {"$set": {"n.$[large]": 0}}
    users.bulk_write([UpdateOne({"_id": 0}, change, array_filters=[{"large": {"$gt": 3}}])])
    users.bulk_write([UpdateMany({"_id": {"$gt": 0}}, change, array_filters=[{"large": {"$lt": 3}}])])
    assert stored(users) == {0: [1, 0], 1: [0, 5], 2: [0, 5]}


OPERATIONS: list[Any] = [
    InsertOne({"_id": 5}),
    InsertOne({"_id": 1}),
    UpdateMany({}, {"$inc": {"n": 1}}),
    DeleteOne({"_id": 2}),
    InsertOne({"_id": 5}),
    UpdateOne({"_id": 8}, {"$set": {"n": 8}}, upsert=True),
]


def test_ordered_it_stops_at_the_first_that_fails_and_keeps_what_was_done(users: lowtide.Collection) -> None:
    with pytest.raises(BulkWriteError) as caught:
        users.bulk_write(OPERATIONS)
    details = caught.value.details
    assert [each["index"] for each in details["writeErrors"]] == [1]
    assert (details["nInserted"], details["nModified"], details["nRemoved"]) == (1, 0, 0)
    assert stored(users) == {0: 0, 1: 1, 2: 2, 5: None}
    assert "operation 1: duplicate key in collection 'users'" in str(caught.value)


def test_unordered_it_goes_on_and_tells_of_every_failure(users: lowtide.Collection) -> None:
    with pytest.raises(BulkWriteError) as caught:
        users.bulk_write(OPERATIONS, ordered=False)
    details = caught.value.details
    first, second = details["writeErrors"]
    assert (first["index"], first["code"], first["keyValue"]) == (1, 11000, {"_id": 1})
    assert (second["index"], second["code"], second["keyValue"]) == (4, 11000, {"_id": 5})
    assert first["errmsg"].startswith("duplicate key")
    assert (details["nInserted"], details["nMatched"], details["nModified"], details["nRemoved"]) == (1, 4, 4, 1)
    assert (details["nUpserted"], details["upserted"]) == (1, [{"index": 5, "_id": 8}])
    assert stored(users) == {0: 1, 1: 2, 5: 1, 8: 8}


def test_an_operation_that_fails_undoes_itself_whole(users: lowtide.Collection) -> None:
    users.insert_one({"_id": 3, "n": "text"})
    with pytest.raises(BulkWriteError) as caught:
        users.bulk_write([UpdateMany({}, {"$inc": {"n": 1}}), InsertOne({"_id": 4})], ordered=False)
    (error,) = caught.value.details["writeErrors"]
    assert (error["index"], error["code"]) == (0, 121)
    assert stored(users) == {0: 0, 1: 1, 2: 2, 3: "text", 4: None}


def test_a_schema_refuses_one_operation(users: lowtide.Collection) -> None:
    users.set_schema({"properties": {"n": {"type": "number"}}})
    with pytest.raises(BulkWriteError) as caught:
        users.insert_many([{"_id": 7, "n": "x"}, {"_id": 8, "n": 1}], ordered=False)
    (error,) = caught.value.details["writeErrors"]
    assert (error["index"], error["code"]) == (0, 121)
    assert stored(users)[8] == 1


@pytest.mark.parametrize(
    ("ordered", "inserted", "failed"), [(True, [7], [1]), (False, [7, 8, 9], [1, 3, 4])], ids=["ordered", "not"]
)
def test_insert_many(users: lowtide.Collection, ordered: bool, inserted: list[int], failed: list[int]) -> None:
    with pytest.raises(BulkWriteError) as caught:
        users.insert_many([{"_id": each} for each in (7, 1, 8, 7, 2, 9)], ordered=ordered)
    details = caught.value.details
    assert [each["index"] for each in details["writeErrors"]] == failed
    assert details["nInserted"] == len(inserted)
    assert list(stored(users)) == [0, 1, 2, *inserted]


def test_insert_many_refuses_duplicates_among_themselves_by_a_unique_index(users: lowtide.Collection) -> None:
    users.create_index("n", unique=True)
    with pytest.raises(BulkWriteError) as caught:
        users.insert_many([{"_id": 7, "n": 7}, {"_id": 8, "n": 7.0}, {"_id": 9, "n": 0}], ordered=False)
    first, second = caught.value.details["writeErrors"]
    assert (first["keyValue"], second["keyValue"]) == ({"n": 7.0}, {"n": 0})
    assert list(stored(users)) == [0, 1, 2, 7]
    assert [each["_id"] for each in users.find().hint("n_1")] == [0, 1, 2, 7], "a refused document leaves no entry"


@pytest.mark.parametrize(
    "requests", [[], {}, "text", [{"insert": 1}], [InsertOne], [InsertOne({}), None], [("insert", {})]], ids=repr
)
def test_what_is_no_list_of_operations_is_refused(users: lowtide.Collection, requests: Any) -> None:
    with pytest.raises(OperationFailure):
        users.bulk_write(requests)
    assert stored(users) == {0: 0, 1: 1, 2: 2}


def test_in_a_transaction_it_is_a_part_of_that(store: lowtide.Store, users: lowtide.Collection) -> None:
    tx = store.begin()
    with pytest.raises(BulkWriteError):
        tx["users"].bulk_write(OPERATIONS)
    assert stored(tx["users"]) == {0: 0, 1: 1, 2: 2, 5: None}
    assert stored(users) == {0: 0, 1: 1, 2: 2}
    tx.rollback()
    assert stored(users) == {0: 0, 1: 1, 2: 2}


def test_misuse_is_no_failure_of_an_operation(store: lowtide.Store, users: lowtide.Collection) -> None:
    with store.transaction(read_only=True) as tx, pytest.raises(UsageError, match="read-only") as caught:
        tx["users"].bulk_write([InsertOne({"_id": 9})], ordered=False)
    assert not isinstance(caught.value, BulkWriteError)
    ended = store.begin()
    ended.rollback()
    with pytest.raises(UsageError, match="cannot be used any more") as caught:
        ended["users"].bulk_write([InsertOne({"_id": 9})])
    assert not isinstance(caught.value, BulkWriteError)


def test_of_the_store_it_is_one_commit(store: lowtide.Store, users: lowtide.Collection) -> None:
    before = store.stats().last_commit
    users.bulk_write([InsertOne({"_id": 7}), UpdateMany({}, {"$inc": {"n": 1}}), DeleteOne({"_id": 0})])
    assert store.stats().last_commit == before + 1
    users.insert_many([{"_id": each} for each in range(100, 200)])
    assert store.stats().last_commit == before + 2


def test_operations_take_a_hint_and_a_sort(users: lowtide.Collection) -> None:
    users.bulk_write(
        [
            UpdateOne({}, {"$set": {"n": 10}}, sort=[("n", -1)], hint="_id_"),
            ReplaceOne({"n": {"$lt": 5}}, {"n": 20}, sort=[("n", -1)], hint="_id_"),
            UpdateMany({}, {"$inc": {"n": 1}}, hint="_id_"),
            DeleteOne({"n": 1}, hint="_id_"),
        ]
    )
    assert stored(users) == {1: 21, 2: 11}
    for operation in (
        UpdateOne({}, {"$set": {"n": 1}}, hint="none"),
        UpdateMany({}, {"$set": {"n": 1}}, hint="none"),
        ReplaceOne({}, {}, hint="none"),
        DeleteOne({}, hint="none"),
        DeleteMany({}, hint="none"),
    ):
        with pytest.raises(BulkWriteError, match="hint 'none': no such index"):
            users.bulk_write([operation])


def test_errors_have_the_numbers_of_mongodb(users: lowtide.Collection) -> None:
    with pytest.raises(lowtide.DuplicateKeyError) as duplicate:
        users.insert_one({"_id": 1})
    with pytest.raises(BulkWriteError) as several:
        users.insert_many([{"_id": 1}])
    with pytest.raises(OperationFailure) as wrong:
        users.find({"n": {"$none": 1}})
    assert (duplicate.value.code, several.value.code, wrong.value.code) == (11000, 65, None)
    assert lowtide.DocumentRefused.code == 121
