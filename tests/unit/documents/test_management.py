"""Management of collections: creating and dropping indexes, schemas, renaming, dropping, listing."""

from __future__ import annotations

from typing import Any

import pytest

import lowtide
from lowtide import DocumentRefused, DuplicateKeyError, OperationFailure, UsageError, WriteError
from lowtide.documents.indexes import build

ID = {"_id_": {"key": [("_id", 1)]}}


def fill(store: lowtide.Store, count: int = 5, name: str = "users") -> lowtide.Collection:
    found = store.collection(name)
    found.insert_many([{"_id": each, "n": each, "city": "ab"[each % 2]} for each in range(count)])
    return found


def ids(found: Any) -> list[Any]:
    return [each["_id"] for each in found]


@pytest.mark.parametrize(
    ("keys", "options", "name", "information"),
    [
        ("n", {}, "n_1", {"key": [("n", 1)]}),
        ([("city", 1), ("n", -1)], {}, "city_1_n_-1", {"key": [("city", 1), ("n", -1)]}),
        ({"n": -1}, {"name": "mine"}, "mine", {"key": [("n", -1)]}),
        ("n", {"unique": True}, "n_1", {"key": [("n", 1)], "unique": True}),
        ("x", {"sparse": True}, "x_1", {"key": [("x", 1)], "sparse": True}),
        (
            "n",
            {"partialFilterExpression": {"city": "a"}},
            "n_1",
            {"key": [("n", 1)], "partialFilterExpression": {"city": "a"}},
        ),
        ([("_id", -1)], {}, "_id_-1", {"key": [("_id", -1)]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("in_transaction", [False, True])
def test_an_index_is_made_named_and_shown(
    store: lowtide.Store, keys: Any, options: Any, name: str, information: Any, in_transaction: bool
) -> None:
    users = fill(store)
    if in_transaction:
        with store.transaction() as tx:
            assert tx["users"].create_index(keys, **options) == name
            assert users.index_information() == ID, "nobody sees it before the commit"
    else:
        assert users.create_index(keys, **options) == name
    assert users.index_information() == {**ID, name: information}
    assert users.create_index(keys, **options) == name, "made again, it is the same"


@pytest.mark.parametrize(
    ("keys", "options", "reason"),
    [
        *(("n", {"name": "_id_"}, "named by"), ("n", {"name": ""}, "named by"), ("n", {"name": "a/b"}, "named by")),
        *(("n", {"name": 5}, "named by"), ("n", {"name": "x" * 61}, "60 bytes"), ("f" * 70, {}, "give a shorter one")),
        ("", {}, "not a valid field path"),
        ("n", {"partialFilterExpression": {"$or": [{"a": 1}, {"b": 1}]}}, "no more"),
        ("n", {"partialFilterExpression": {"a": {"$ne": 1}}}, "no more"),
        ("n", {"partialFilterExpression": {"a": {"$bad": 1}}}, "bad"),
        ("n", {"sparse": True, "partialFilterExpression": {"a": 1}}, "not both"),
        ("other", {"name": "n_1"}, "has the index 'n_1' already"),
        ("n", {"unique": True}, "has the index 'n_1' already"),
        ("n", {"name": "second"}, "has the index 'n_1' already"),
    ],
    ids=str,
)
def test_an_index_that_cannot_be_made_is_refused(store: lowtide.Store, keys: Any, options: Any, reason: str) -> None:
    users = fill(store)
    users.create_index("n")
    with pytest.raises(OperationFailure, match=reason):
        users.create_index(keys, **options)
    assert list(users.index_information()) == ["_id_", "n_1"]


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_unique_index_over_duplicates_is_refused_and_leaves_nothing(
    store: lowtide.Store, in_transaction: bool
) -> None:
    users = fill(store)
    tx = store.begin()
    with pytest.raises(DuplicateKeyError) as caught:
        (tx["users"] if in_transaction else users).create_index("city", unique=True)
    tx.rollback()
    assert caught.value.details == {"collection": "users", "index": "city_1", "keyValue": {"city": "a"}, "_id": 0}
    assert users.index_information() == ID
    assert list(store.keyspace("index/users/city_1").scan()) == []


def test_an_index_that_cannot_hold_a_document_is_refused_and_leaves_nothing(store: lowtide.Store) -> None:
    users = fill(store)
    users.insert_one({"_id": 9, "a": [1], "b": [2]})
    with pytest.raises(WriteError, match="_id 9"):
        users.create_index(["a", "b"])
    assert users.index_information() == ID


def test_it_is_built_in_steps_and_tells_how_far_it_is(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "STEP", 4)
    users = fill(store, 10)
    told: list[int] = []
    seen: list[Any] = []

    def progress(done: int) -> None:
        told.append(done)
        seen.append(users.index_information()["n_1"].get("building"))
        users.insert_one({"_id": 100 + done, "n": 100 + done})
        users.delete_one({"_id": done - 1})
        assert users.find({"n": 5}).explain()["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"

    users.create_index("n", progress=progress)
    assert (told[0], set(seen)) == (4, {True})
    assert "building" not in users.index_information()["n_1"]
    assert ids(users.find().hint("n_1")) == ids(users.find())
    assert store.verify().ok


def test_a_build_that_was_interrupted_goes_on(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "STEP", 4)
    users = fill(store, 10)

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        users.create_index("n", unique=True, progress=interrupt)
    assert users.index_information()["n_1"] == {"key": [("n", 1)], "unique": True, "building": True}
    with pytest.raises(OperationFailure, match="no such index is ready"):
        users.find().hint("n_1").to_list()
    users.update_one({"_id": 9}, {"$set": {"n": 90}})
    assert users.create_index("n", unique=True) == "n_1"
    assert ids(users.find().hint("n_1")) == list(range(10))


def test_an_index_dropped_while_it_is_built_ends_the_build(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "STEP", 4)
    users = fill(store, 10)
    with pytest.raises(OperationFailure):
        users.create_index("n", progress=lambda done: users.drop_index("n_1") if done == 4 else None)
    assert users.index_information() == ID
    assert list(store.keyspace("index/users/n_1").scan()) == []


@pytest.mark.parametrize("how", ["n_1", "n", [("n", 1)], {"n": 1}], ids=str)
def test_dropping_an_index(store: lowtide.Store, how: Any) -> None:
    users = fill(store)
    users.create_index("n")
    users.create_index("city")
    if how == "n":
        with pytest.raises(OperationFailure, match="no index 'n'; there are 'n_1', 'city_1'"):
            users.drop_index(how)
        return
    users.drop_index(how)
    assert list(users.index_information()) == ["_id_", "city_1"]
    assert list(store.keyspace("index/users/n_1").scan()) == []
    assert users.find({"n": 3}).explain()["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    users.update_many({}, {"$inc": {"n": 1}})
    users.create_index("n")
    assert ids(users.find({"n": {"$gt": 4}})) == [4]


def test_dropping_all_indexes_and_ones_that_are_not_there(store: lowtide.Store) -> None:
    users = fill(store)
    users.drop_indexes()
    for keys in ("n", "city"):
        users.create_index(keys)
    users.drop_indexes()
    assert users.index_information() == ID
    for missing in ("n_1", [("n", 1)]):
        with pytest.raises(OperationFailure, match="has no index"):
            users.drop_index(missing)
    for primary in ("_id_", "_id", [("_id", 1)]):
        with pytest.raises(OperationFailure, match="cannot drop the index '_id_'" if primary != "_id" else "no index"):
            users.drop_index(primary)


def test_an_array_makes_an_index_multikey_for_good(store: lowtide.Store) -> None:
    users = fill(store)
    users.create_index("tags")
    assert "multikey" not in users.index_information()["tags_1"]
    users.insert_one({"_id": 9, "tags": ["x", "y"]})
    assert users.index_information()["tags_1"]["multikey"]
    assert ids(users.find({"tags": {"$in": ["x", "y"]}})) == [9]
    users.delete_one({"_id": 9})
    assert users.index_information()["tags_1"]["multikey"]


def test_a_schema_is_set_shown_and_removed(store: lowtide.Store) -> None:
    users = fill(store)
    schema = {"properties": {"n": {"type": "integer", "maximum": 2}}, "required": ["n"]}
    violations = users.set_schema(schema)
    assert [(found, each.path) for found, each in violations] == [(3, "n"), (4, "n")]
    assert users.schema() == schema
    with pytest.raises(DocumentRefused, match="field 'n'") as caught:
        users.insert_one({"_id": 9, "n": 7})
    assert caught.value.path == "n"
    for refused in (
        lambda: users.update_one({"_id": 1}, {"$set": {"n": "x"}}),
        lambda: users.replace_one({"_id": 1}, {}),
        lambda: users.update_many({}, {"$inc": {"n": 2}}),
        lambda: users.update_one({"_id": 8}, {"$set": {"a": 1}}, upsert=True),
        lambda: users.find_one_and_update({"_id": 1}, {"$unset": {"n": 1}}),
    ):
        with pytest.raises(DocumentRefused):
            refused()
    assert [each["n"] for each in users.find()] == [0, 1, 2, 3, 4]
    users.delete_one({"_id": 4})
    assert users.set_schema(None) == []
    assert users.schema() is None
    users.insert_one({"_id": 9, "n": 7})
    with pytest.raises(UsageError):
        users.set_schema({"type": "no such type"})


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"properties": {"n": {"$ref": "#/properties/n"}}}])
def test_a_schema_that_cannot_be_asked_is_not_set(store: lowtide.Store, schema: Any) -> None:
    users = fill(store)
    users.set_schema({"required": ["n"]})
    with pytest.raises(OperationFailure, match="refers to itself"):
        users.set_schema(schema)
    assert users.schema() == {"required": ["n"]}
    with store.transaction() as tx, pytest.raises(OperationFailure, match="refers to itself"):
        tx["users"].set_schema(schema)
    assert users.schema() == {"required": ["n"]}


def test_renaming_takes_everything_along(store: lowtide.Store) -> None:
    users = fill(store)
    users.create_index("n", unique=True)
    users.rename("people")
    people = store["people"]
    assert store.list_collection_names() == ["people"]
    assert (ids(people.find()), ids(users.find())) == ([0, 1, 2, 3, 4], [])
    assert list(people.index_information()) == ["_id_", "n_1"]
    with pytest.raises(DuplicateKeyError):
        people.insert_one({"_id": 9, "n": 3})
    assert users.index_information() == ID
    users.insert_one({"_id": "new", "n": 3})
    assert store.list_collection_names() == ["people", "users"]
    assert ids(people.find()) == [0, 1, 2, 3, 4]
    people.rename("users", dropTarget=True)
    assert store.list_collection_names() == ["users"]
    assert ids(users.find({"n": {"$gt": 2}})) == [3, 4]
    users.rename("people")
    users.rename("people", dropTarget=True) if users.find_one() else users.insert_one({"_id": 1})
    assert store.list_collection_names() == ["people", "users"]
    assert store.verify().ok


def test_a_name_that_is_used_again_and_again_never_shares_documents(store: lowtide.Store) -> None:
    for number in range(4):
        store["users"].insert_one({"_id": number})
        store["users"].create_index("n")
        store["users"].rename(f"old{number}")
    store["users"].insert_one({"_id": "last"})
    store["old0"].rename("gone")
    store["old0"].insert_one({"_id": "again"})
    held = {name: ids(store[name].find()) for name in store.list_collection_names()}
    assert held == {"gone": [0], "old0": ["again"], "old1": [1], "old2": [2], "old3": [3], "users": ["last"]}
    spaces = [space for name in held for space in store[name].keyspaces()[1:]]
    assert len(set(spaces)) == len(spaces)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        *(("users", "users", "already"), ("users", "other", "already; drop it"), ("nobody", "x", "no collection")),
        *(("users", "a/b", "collection's name"), ("users", "", "non-empty string"), ("users", None, "collection")),
    ],
)
def test_a_renaming_that_cannot_be(store: lowtide.Store, old: str, new: Any, reason: str) -> None:
    fill(store)
    fill(store, 2, "other")
    with pytest.raises(UsageError, match=reason):
        store[old].rename(new)
    assert store.list_collection_names() == ["other", "users"]
    assert (store["users"].count_documents({}), store["other"].count_documents({})) == (5, 2)


def test_dropping_a_collection_leaves_nothing(store: lowtide.Store) -> None:
    users = fill(store)
    users.create_index("n", unique=True)
    kept = store.snapshot()
    users.drop()
    assert store.list_collection_names() == []
    assert (users.index_information(), users.schema(), users.find_one()) == (ID, None, None)
    assert kept["users"].count_documents({"n": {"$gt": 2}}) == 2, "a snapshot still sees it"
    assert kept.list_collection_names() == ["users"]
    kept.close()
    users.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 1}])
    assert store.list_collection_names() == ["users"]
    users.drop()
    users.drop()
    store["never"].drop()
    assert store.list_collection_names() == []


def test_listing_is_of_one_instant_and_of_each_transaction(store: lowtide.Store) -> None:
    fill(store, 1, "b")
    store["a"].create_index("n")
    with store.snapshot() as snapshot, store.transaction() as tx:
        tx["c"].insert_one({})
        tx["b"].delete_many({})
        assert tx.list_collection_names() == ["a", "c"]
        assert store.list_collection_names() == ["a", "b"]
        tx["a"].drop()
        assert tx.list_collection_names() == ["c"]
        tx["c"].rename("d")
        assert tx.list_collection_names() == ["d"]
        assert snapshot.list_collection_names() == ["a", "b"]
    assert store.list_collection_names() == ["d"]


def test_everything_is_there_after_reopening(open_store: Any) -> None:
    store = open_store()
    users = fill(store)
    users.create_index("n", unique=True, partialFilterExpression={"n": {"$gt": 1}})
    users.rename("people")
    store.close()
    people = open_store()["people"]
    assert people.index_information()["n_1"]["partialFilterExpression"] == {"n": {"$gt": 1}}
    assert people.find({"n": 3}).explain()["executionStats"]["totalDocsExamined"] == 1
    with pytest.raises(DuplicateKeyError):
        people.insert_one({"n": 4})
    people.insert_one({"n": 1})


LEVELS = ["read_committed", "snapshot_read", "snapshot", "serializable"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("manage", "change"),
    [
        (lambda users: users.create_index("n"), lambda users: users.insert_one({"_id": 9, "n": 9})),
        (lambda users: users.create_index("n"), lambda users: users.update_one({"_id": 1}, {"$set": {"n": 7}})),
        (lambda users: users.create_index("n"), lambda users: users.delete_one({"_id": 1})),
        (lambda users: users.drop_index("city_1"), lambda users: users.insert_one({"_id": 9, "city": "z"})),
        (lambda users: users.drop(), lambda users: users.insert_one({"_id": 9})),
        (lambda users: users.drop(), lambda users: users.create_index("x")),
    ],
    ids=["index-insert", "index-update", "index-delete", "drop-index-insert", "drop-insert", "drop-index"],
)
def test_in_a_transaction_it_fails_if_somebody_writes_meanwhile(
    store: lowtide.Store, level: str, manage: Any, change: Any
) -> None:
    """Whichever commits first: every document has its index entries, and nothing is left of what was dropped."""
    for manager_first in (False, True):
        users = fill(store, name=f"users{manager_first}")
        users.create_index("city")
        one, other = store.begin(level), store.begin(level)
        manage(one[users.name])
        change(other[users.name])
        first, second = (one, other) if manager_first else (other, one)
        first.commit()
        with pytest.raises(lowtide.ConflictError):
            second.commit()
        for name in list(users.index_information())[1:]:
            assert sorted(ids(users.find().hint(name))) == ids(users.find())
    assert store.verify().ok


def test_the_order_of_the_documents_needs_no_index(store: lowtide.Store) -> None:
    assert store["a"].create_index("_id") == store["a"].create_index([("_id", 1)]) == "_id_"
    assert list(store["a"].index_information()) == ["_id_"]
    assert store.list_collection_names() == []
