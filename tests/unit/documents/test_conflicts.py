"""Conflicts in terms of documents: what the key of a conflict stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lowtide
from lowtide import ConflictError, DuplicateKeyConflict


@pytest.fixture
def users(store: lowtide.Store) -> lowtide.Collection:
    found = store["users"]
    found.insert_many([{"_id": 1, "n": 1}, {"_id": "two", "n": 2}])
    return found


def conflict(store: lowtide.Store, first: Callable[[Any], object], second: Callable[[Any], object]) -> ConflictError:
    """What the second of two transactions meets."""
    one, other = store.begin(), store.begin("serializable")
    first(one["users"])
    second(other["users"])
    one.commit()
    with pytest.raises(ConflictError) as caught:
        other.commit()
    assert f"commit {caught.value.committed_ts} changed it first" in str(caught.value)
    assert "retry the transaction" in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("first", "second", "_id"),
    [
        (lambda users: users.delete_one({"_id": 1}), lambda users: users.update_one({"_id": 1}, {"$set": {"n": 5}}), 1),
        (lambda users: users.update_one({"_id": 1}, {"$set": {"n": 5}}), lambda users: users.delete_one({"_id": 1}), 1),
    ],
)
def test_a_document_is_named_by_its_id(store: lowtide.Store, users: Any, first: Any, second: Any, _id: Any) -> None:
    assert f"the document with _id {_id!r} of collection 'users'" in str(conflict(store, first, second))


def test_a_document_that_was_only_read_is_named_too(store: lowtide.Store, users: lowtide.Collection) -> None:
    def read_and_write(mine: Any) -> None:
        mine.find_one("two")
        mine.insert_one({"_id": 3})

    found = conflict(store, lambda mine: mine.update_one({"_id": "two"}, {"$inc": {"n": 1}}), read_and_write)
    assert "this transaction read the document with _id 'two' of collection 'users'" in str(found)
    assert found.read


def test_two_deletions_of_one_document_conflict(store: lowtide.Store, users: lowtide.Collection) -> None:
    found = conflict(store, lambda mine: mine.delete_one({"_id": 1}), lambda mine: mine.delete_one({"_id": 1}))
    assert found.keyspace == "documents/users"


def test_a_collection_has_its_name_of_now(store: lowtide.Store, users: lowtide.Collection) -> None:
    users.rename("people")
    one, other = store.begin(), store.begin()
    for tx in (one, other):
        tx["people"].update_one({"_id": 1}, {"$inc": {"n": 1}})
    one.commit()
    with pytest.raises(ConflictError, match="the document with _id 1 of collection 'people'"):
        other.commit()


@pytest.mark.parametrize("change", ["insert", "update"])
def test_a_unique_value_is_a_duplicate_and_a_conflict(
    store: lowtide.Store, users: lowtide.Collection, change: str
) -> None:
    users.create_index("n", unique=True)

    def take(mine: Any) -> None:
        if change == "insert":
            mine.insert_one({"_id": 3, "n": 9})
        else:
            mine.update_one({"_id": "two"}, {"$set": {"n": 9}})

    one, other = store.begin(), store.begin()
    one["users"].update_one({"_id": 1}, {"$set": {"n": 9.0}})
    take(other["users"])
    one.commit()
    with pytest.raises(DuplicateKeyConflict) as caught:
        other.commit()
    assert caught.value.details == {"collection": "users", "index": "n_1", "keyValue": {"n": 9.0}, "_id": 1}
    assert isinstance(caught.value, ConflictError)
    assert isinstance(caught.value, lowtide.TransientError), "so that store.run begins anew, and meets the duplicate"
    assert isinstance(caught.value, lowtide.DuplicateKeyError)


def test_a_unique_value_that_was_given_up_is_a_conflict_alone(store: lowtide.Store, users: lowtide.Collection) -> None:
    users.create_index("n", unique=True)
    found = conflict(store, lambda mine: mine.delete_one({"_id": 1}), lambda mine: mine.delete_one({"n": 1}))
    assert not isinstance(found, DuplicateKeyConflict)


def test_keys_of_plain_keyspaces_are_named_as_they_are(store: lowtide.Store) -> None:
    one, other = store.begin(), store.begin()
    for tx in (one, other):
        tx.keyspace("fruit").put(b"apple", b"red")
    one.commit()
    with pytest.raises(ConflictError, match="key b'apple' of keyspace 'fruit'"):
        other.commit()


LEVELS = ["read_committed", "snapshot_read", "snapshot", "serializable"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("indexed", [False, True])
def test_an_id_that_another_has_inserted_first_is_a_duplicate(
    store: lowtide.Store, users: lowtide.Collection, level: str, indexed: bool
) -> None:
    if indexed:
        users.create_index("tags")
    first, second = store.begin(level), store.begin(level)
    first["users"].insert_one({"_id": b"x", "by": 1})
    second["users"].insert_one({"_id": b"x", "by": 2, "tags": [1]})
    second["users"].update_one({"_id": b"x"}, {"$set": {"more": True}})
    first.commit()
    with pytest.raises(DuplicateKeyConflict, match=r"index '_id_'.*gave {'_id': b'x'}") as caught:
        second.commit()
    assert caught.value.details == {"collection": "users", "index": "_id_", "keyValue": {"_id": b"x"}, "_id": b"x"}
    assert users.find_one(b"x") == {"_id": b"x", "by": 1}


@pytest.mark.parametrize("level", LEVELS)
def test_a_document_that_was_there_before_is_no_duplicate(
    store: lowtide.Store, users: lowtide.Collection, level: str
) -> None:
    first, second = store.begin(level), store.begin(level)
    first["users"].replace_one({"_id": 1}, {"by": 1})
    second["users"].delete_one({"_id": 1})
    second["users"].insert_one({"_id": 1, "by": 2})
    first.commit()
    with pytest.raises(ConflictError, match="the document with _id 1 of collection 'users'") as caught:
        second.commit()
    assert not isinstance(caught.value, DuplicateKeyConflict)


def test_a_range_of_an_index_that_was_read_is_named_by_the_index(
    store: lowtide.Store, users: lowtide.Collection
) -> None:
    users.create_index("n")

    def read_and_write(mine: Any) -> None:
        mine.count_documents({"n": {"$gte": 10}})
        mine.insert_one({"_id": 3})

    found = conflict(store, lambda mine: mine.insert_one({"_id": 4, "n": 11}), read_and_write)
    assert "this transaction read a part of index 'n_1' of collection 'users' as of commit" in str(found)
