"""Documents and their index entries: written and refused together, and always equal to those of a new build."""

from __future__ import annotations

import random
from typing import Any

import pytest

import lowtide
from lowtide import DuplicateKeyError, WriteError

INDEXES: list[tuple[Any, dict[str, Any]]] = [
    ("a", {}),
    ([("a", -1), ("b", 1)], {}),
    ("b", {"sparse": True}),
    ("b.c", {}),
    ([("a", 1), ("_id", 1)], {"partialFilterExpression": {"a": {"$gt": 1}}}),
    ("u", {"unique": True, "sparse": True}),
]


def entries(store: lowtide.Store, name: str = "users") -> dict[str, list[tuple[bytes, bytes]]]:
    spaces = [each for each in store[name].keyspaces() if each.startswith("index/")]
    return {each: list(store.keyspace(each).scan()) for each in spaces}


def rebuilt(store: lowtide.Store, name: str = "users") -> dict[str, list[tuple[bytes, bytes]]]:
    """The entries as they would be if the indexes were made now."""
    collection = store[name]
    collection.drop_indexes()
    for keys, options in INDEXES:
        collection.create_index(keys, **options)
    return entries(store, name)


def some_value(chance: random.Random) -> Any:
    return chance.choice(
        [None, 0, 1, 2, 3, "x", "y" * 400, [], [1, 2], [None, "x"], {"c": 1}, {"c": [1, 2]}, [{"c": 5}]]
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [None, "none", "read_committed", "snapshot_read", "serializable"])
def test_after_any_writes_the_entries_are_those_of_a_fresh_build(
    store: lowtide.Store, seed: int, level: str | None
) -> None:
    chance = random.Random(seed)
    for keys, options in INDEXES:
        store["users"].create_index(keys, **options)
    for _ in range(12):
        if level is None:
            write_some(chance, store["users"])
        else:
            with store.transaction(level) as tx:
                for _ in range(3):
                    write_some(chance, tx["users"])
    assert store["users"].count_documents({}) > 0
    before = entries(store)
    assert before == rebuilt(store)
    assert store.verify().ok


def write_some(chance: random.Random, users: lowtide.Collection) -> None:
    """One statement at random; what is refused changes nothing."""
    _id = chance.randrange(8)
    document = {name: some_value(chance) for name in "ab" if chance.random() < 0.8}
    if chance.random() < 0.5:
        document["u"] = chance.randrange(6)
    try:
        match chance.randrange(7):
            case 0 | 1:
                users.insert_one({"_id": _id, **document})
            case 2:
                users.replace_one({"_id": _id}, document, upsert=True)
            case 3:
                users.update_many({"a": some_value(chance)}, {"$set": document or {"a": 1}})
            case 4:
                users.update_many({}, {"$inc": {"u": 1}})
            case 5:
                users.delete_one({"_id": _id})
            case _:
                users.update_one({"_id": _id}, {"$unset": {"a": 1}, "$set": {"b": some_value(chance)}}, upsert=True)
    except WriteError:
        pass


@pytest.fixture
def users(store: lowtide.Store) -> lowtide.Collection:
    found = store["users"]
    found.create_index("email", unique=True)
    found.insert_many([{"_id": 1, "email": "a"}, {"_id": 2, "email": "b"}])
    return found


@pytest.mark.parametrize(
    ("call", "value", "holder"),
    [
        (lambda users: users.insert_one({"_id": 3, "email": "a"}), "a", 1),
        (lambda users: users.update_one({"_id": 2}, {"$set": {"email": "a"}}), "a", 1),
        (lambda users: users.replace_one({"_id": 1}, {"email": "b"}), "b", 2),
        (lambda users: users.update_many({}, {"$set": {"email": "c"}}), "c", 1),
        (lambda users: users.update_one({"_id": 3}, {"$set": {"email": "b"}}, upsert=True), "b", 2),
        (lambda users: users.find_one_and_update({"_id": 1}, {"$set": {"email": "b"}}), "b", 2),
        (lambda users: users.insert_one({"_id": 3, "email": ["x", "b"]}), ["x", "b"], 2),
    ],
)
@pytest.mark.parametrize("level", [None, "none", "read_committed", "snapshot", "serializable"])
def test_a_value_that_is_there_is_refused_and_leaves_nothing(
    store: lowtide.Store, users: lowtide.Collection, call: Any, value: Any, holder: int, level: str | None
) -> None:
    before = entries(store)
    tx = store.begin(level or "snapshot")
    with pytest.raises(DuplicateKeyError) as caught:
        call(tx["users"] if level is not None else users)
    tx.commit()
    assert caught.value.details == {
        "collection": "users",
        "index": "email_1",
        "keyValue": {"email": value},
        "_id": holder,
    }
    assert users.find().to_list() == [{"_id": 1, "email": "a"}, {"_id": 2, "email": "b"}]
    assert entries(store) == before
    assert "multikey" not in users.index_information()["email_1"]


def test_missing_is_a_value_too_for_a_unique_index_but_not_for_a_sparse_one(
    store: lowtide.Store, users: lowtide.Collection
) -> None:
    users.insert_one({"_id": 3})
    for again in ({"_id": 4}, {"_id": 4, "email": None}):
        with pytest.raises(DuplicateKeyError):
            users.insert_one(again)
    store["other"].create_index("email", unique=True, sparse=True)
    store["other"].insert_many([{"_id": 1}, {"_id": 2}, {"_id": 3, "email": None}])
    with pytest.raises(DuplicateKeyError):
        store["other"].insert_one({"_id": 4, "email": None})


def test_a_value_that_was_given_up_can_be_taken_in_the_same_transaction(
    store: lowtide.Store, users: lowtide.Collection
) -> None:
    with store.transaction() as tx:
        mine = tx["users"]
        mine.update_one({"_id": 1}, {"$set": {"email": "c"}})
        mine.update_one({"_id": 2}, {"$set": {"email": "a"}})
        mine.delete_one({"_id": 1})
        mine.insert_one({"_id": 3, "email": "c"})
    assert users.find().hint("email_1").to_list() == [{"_id": 2, "email": "a"}, {"_id": 3, "email": "c"}]


def test_values_are_the_same_across_types_and_arrays_hold_each_of_theirs(users: lowtide.Collection) -> None:
    users.insert_one({"_id": 3, "email": [1, 2, 1.0]})
    for taken in (1.0, 2, [3, 2]):
        with pytest.raises(DuplicateKeyError):
            users.insert_one({"_id": 4, "email": taken})
    users.insert_one({"_id": 4, "email": True})
    users.update_one({"_id": 3}, {"$set": {"email": [2, 3]}})
    users.insert_one({"_id": 5, "email": 1})
    assert users.find_one({"email": 3}) == {"_id": 3, "email": [2, 3]}


def test_long_values_of_a_unique_index_are_told_apart(users: lowtide.Collection) -> None:
    users.insert_many([{"_id": 3, "email": "x" * 500}, {"_id": 4, "email": "x" * 500 + "y"}])
    with pytest.raises(DuplicateKeyError):
        users.insert_one({"email": "x" * 500})
    assert users.find_one({"email": "x" * 500 + "y"}) == {"_id": 4, "email": "x" * 500 + "y"}
    assert [each["_id"] for each in users.find({"email": {"$gt": "x" * 500}})] == [4]
    assert [each["_id"] for each in users.find(sort="email")] == [1, 2, 3, 4]
    assert users.count_documents({"email": {"$gte": "x"}}) == 2
