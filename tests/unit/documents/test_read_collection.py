"""The methods that read: find_one in all its forms, projections, counts, distinct values, pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

import lowtide
from lowtide import OperationFailure, UsageError
from lowtide.documents.projection import compile_projection

PEOPLE = [
    {"_id": 1, "name": "Ann", "city": "Oslo", "age": 33, "tags": ["x", "y"]},
    {"_id": 2, "name": "Bob", "city": "Oslo", "age": 30, "tags": []},
    {"_id": "c", "name": "Cid", "city": "Bergen", "age": 25.5},
]


INDEXES: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "indexed": [(each, {}) for each in ("name", "city", "age", "tags", [("city", 1), ("age", -1)])],
    "unique": [("name", {"unique": True}), ("age", {"unique": True})],
    "descending": [([("name", -1)], {}), ([("age", -1), ("city", 1)], {"sparse": True})],
}


@pytest.fixture(params=["plain", "indexed", "unique", "descending", "transaction", "snapshot"])
def users(request: pytest.FixtureRequest, store: lowtide.Store) -> Iterator[lowtide.ReadCollection]:
    """The same documents, read in every way: with and without indexes, of the store, a transaction, a snapshot."""
    found = store.collection("users")
    documents = [dict(each) for each in PEOPLE]
    if request.param == "transaction":
        with store.transaction("serializable") as tx:
            tx["users"].insert_many(documents)
            yield tx["users"]
        return
    found.insert_many(documents)
    for keys, options in INDEXES.get(request.param, ()):
        found.create_index(keys, **options)
    if request.param == "snapshot":
        with store.snapshot() as snapshot:
            found.delete_many({})
            yield snapshot.collection("users")
        return
    yield found


FOUND: list[tuple[Any, ...]] = [
    *((None, 1), ({}, 1), (1, 1), (2, 2), ("c", "c"), ("C", None), ({"_id": 2}, 2), ({"_id": 2.0}, 2)),
    *(({"_id": True}, None), ({"_id": None}, None), ({"_id": "x" * 1000}, None), ("x" * 1000, None), (2.0, 2)),
    *(({"_id": {"$gt": 1}}, 2), ({"_id": {"$gte": "a"}}, "c"), ({"_id": {"$regex": "^c"}}, "c")),
    *(
        ({"_id": 2, "name": "Ann"}, None),
        ({"_id": 2, "name": "Bob"}, 2),
        ({"name": "Bob"}, 2),
        ({"name": "B"}, None),
    ),
    *(({"age": 30}, 2), ({"age": 30.0}, 2), ({"age": True}, None), ({"age": {"$lt": 30}}, "c"), ({"tags": "y"}, 1)),
    *(
        ({"tags": []}, 2),
        ({"tags": None}, "c"),
        ({"tags": ["x", "y"]}, 1),
        ({"city": "Oslo", "age": {"$lt": 33}}, 2),
    ),
    *(({"$or": [{"name": "Bob"}, {"age": 25.5}]}, 2), ({"name": {"$in": ["Cid", "Zoe"]}}, "c")),
    *(
        ({"name": "n" * 400}, None),
        ({"nothing": {"$exists": False}}, 1),
        ({"age": datetime(2020, 1, 1, tzinfo=UTC)}, None),
    ),
]


def test_find_one(users: lowtide.ReadCollection) -> None:
    for filter, expected in FOUND:
        wanted = next((each for each in PEOPLE if each["_id"] == expected), None) if expected is not None else None
        assert users.find_one(filter) == wanted, filter


def test_find_one_with_sort_skip_and_hint(users: lowtide.ReadCollection) -> None:
    def name(**options: Any) -> Any:
        found = users.find_one({}, {"name": 1, "_id": 0}, **options)
        return found["name"] if found is not None else None

    assert name(sort=[("age", 1)]) == "Cid"
    assert name(sort="name", skip=1) == "Bob"
    assert name(sort={"age": -1}, skip=2) == "Cid"
    assert name(skip=3) is None
    assert name(hint=[("$natural", -1)]) == "Cid"
    assert users.find_one(2, sort=[("age", 1)]) == PEOPLE[1]
    assert users.find_one(2, skip=1) is None
    assert users.find_one({"name": "Bob"}, skip=1) is None


PROJECTED: list[tuple[Any, ...]] = [
    *((None, PEOPLE[1]), ({}, PEOPLE[1]), ([], PEOPLE[1]), (["name"], {"_id": 2, "name": "Bob"})),
    *(
        ({"name": 1}, {"_id": 2, "name": "Bob"}),
        ({"name": True, "_id": 0}, {"name": "Bob"}),
        ({"_id": 1}, {"_id": 2}),
    ),
    ({"tags": 0, "city": 0, "age": 0}, {"_id": 2, "name": "Bob"}),
]


def test_projections(users: lowtide.ReadCollection) -> None:
    filters: list[dict[str, Any]] = [{"_id": 2}, {"name": "Bob"}, {"age": {"$in": [30]}}]
    for projection, expected in PROJECTED:
        assert users.find_one(2, projection) == expected, projection
        for filter in filters:
            assert users.find_one(filter, projection) == expected, (filter, projection)
            assert users.find(filter, projection).to_list() == [expected], (filter, projection)


def test_a_projection_leaves_out_what_the_filter_and_the_sort_read(store: lowtide.Store) -> None:
    rows = [{"_id": n, "a": n % 7, "b": {"c": n % 5, "d": n}, "e": [n, n + 1], "f": f"{n % 3}"} for n in range(600)]
    store["rows"].insert_many(rows)
    store["rows"].create_index([("f", 1), ("a", 1)])
    filters: list[dict[str, Any]] = [{"f": "1"}, {"f": "1", "a": {"$gt": 3}}, {"b.c": 2}, {"$or": [{"a": 1}, {"e": 5}]}]
    projections: list[Any] = [["e"], {"_id": 1}, {"b.d": 1, "_id": 0}, {"e": {"$slice": 1}, "f": 1}, {"b": 0}, None]
    with store.transaction(read_only=True) as tx, store.snapshot() as snapshot:
        for filter, projection in product(filters, projections):
            for sort in (None, [("a", -1), ("_id", 1)], [("f", 1), ("a", 1)]):
                whole = store["rows"].find(filter, sort=sort).to_list()
                project = compile_projection(projection)
                wanted = [project(each) if project is not None else each for each in whole]
                for rows_of in (store["rows"], tx["rows"], snapshot["rows"]):
                    assert rows_of.find(filter, projection, sort=sort).to_list() == wanted
                    assert rows_of.find(filter, projection, 3, 5, sort=sort).to_list() == wanted[3:8]
                    assert rows_of.find_one(filter, projection, sort=sort) == wanted[0]


def test_distinct_values_do_not_depend_on_what_is_decoded(store: lowtide.Store) -> None:
    store["rows"].insert_many([{"_id": n, "a": n % 3, "b": {"c": [n % 2, 7]}, "f": n % 5} for n in range(50)])
    for _ in range(2):
        assert store["rows"].distinct("a", {"f": 2}) == [2, 1, 0]
        assert store["rows"].distinct("b.c", {"f": {"$gt": 3}}) == [0, 7, 1]
        assert store["rows"].distinct("_id", {"f": 1, "a": 0}) == [6, 21, 36]
        assert store["rows"].distinct("") == store["rows"].distinct("$a") == []
        if store["rows"].index_information().keys() == {"_id_"}:
            store["rows"].create_index([("f", 1)])


REFUSED: list[tuple[Any, ...]] = [
    (lambda users: users.find_one({"a": {"$bad": 1}}), r"\$bad"),
    (lambda users: users.find({"$bad": 1}), r"\$bad"),
    (lambda users: users.find({}, {"a": 1, "b": 0}), "a|b"),
    (lambda users: users.find_one({}, {"a": 1, "b": 0}), "a|b"),
    (lambda users: users.find_one({}, sort=[("a", 7)]), "1"),
    (lambda users: users.find_one({}, skip=-1), "skip"),
    (lambda users: users.find_one(2, skip="1"), "skip"),
    (lambda users: users.find({}, skip=-1), "skip"),
    (lambda users: users.find({}, limit="x"), "limit"),
    (lambda users: users.count_documents({"a": {"$bad": 1}}), r"\$bad"),
    (lambda users: users.count_documents({}, limit=0), "limit"),
    (lambda users: users.count_documents({}, hint="nope"), "no such index"),
    (lambda users: users.distinct("a", {"$bad": 1}), r"\$bad"),
    (lambda users: users.aggregate([{"$bad": 1}]), r"\$bad"),
    (lambda users: users.aggregate({"$match": {}}), "pipeline|list|stage"),
]


def test_what_makes_no_sense_is_refused_when_it_is_asked(users: lowtide.ReadCollection) -> None:
    for call, reason in REFUSED:
        with pytest.raises(OperationFailure, match=reason):
            call(users)


COUNTED: list[tuple[Any, ...]] = [
    *(({}, 3), (None, 3), ({"city": "Oslo"}, 2), ({"city": "Rome"}, 0), ({"_id": 1}, 1), ({"_id": {"$lt": 5}}, 2)),
    *(({"_id": {"$in": [1, "c", 7]}}, 2), ({"age": {"$gte": 25.5, "$lt": 33}}, 2), ({"age": {"$gt": 30}}, 1)),
    *(
        ({"tags": {"$exists": True}}, 2),
        ({"tags": None}, 1),
        ({"tags": {"$in": ["x", "y"]}}, 1),
        ({"name": {"$ne": "Ann"}}, 2),
    ),
    *(({"city": "Oslo", "age": {"$gt": 30}}, 1), ({"$or": [{"name": "Ann"}, {"city": "Oslo"}]}, 2)),
    *(
        ({"name": {"$regex": "^[AB]"}}, 2),
        ({"name": {"$regex": "^A"}}, 1),
        ({"age": {"$eq": 30, "$exists": True}}, 1),
    ),
    *(({"city": None, "name": "Ann"}, 0), ({"missing": None}, 3), ({"age": {"$type": "double"}}, 1)),
]


def test_counts(users: lowtide.ReadCollection) -> None:
    for filter, count in COUNTED:
        assert users.count_documents(filter) == count, filter
        assert len(users.find(filter).to_list()) == count, filter
        assert users.count_documents(filter, limit=1) == min(count, 1), filter
        assert users.count_documents(filter, skip=1) == max(count - 1, 0), filter
        assert users.count_documents(filter, skip=1, limit=1) == min(max(count - 1, 0), 1), filter
        assert users.count_documents(filter, hint="$natural") == count, filter


def test_the_estimate_is_exact(users: lowtide.ReadCollection) -> None:
    assert users.estimated_document_count() == 3


DISTINCT: list[tuple[Any, ...]] = [
    *(("city", None, ["Oslo", "Bergen"]), ("city", {"_id": 2}, ["Oslo"]), ("tags", None, ["x", "y"])),
    *(
        ("missing", None, []),
        ("tags", {"_id": 2}, []),
        ("_id", {"age": {"$lt": 31}}, [2, "c"]),
        ("city", {"age": 1}, []),
    ),
]


def test_distinct(users: lowtide.ReadCollection) -> None:
    for key, filter, expected in DISTINCT:
        found = users.distinct(key, filter)
        assert sorted(found, key=str) == sorted(expected, key=str), (key, filter)


def test_distinct_through_arrays(store: lowtide.Store) -> None:
    found = store["found"]
    found.insert_many(
        [{"a": [{"b": 1}, {}]}, {"a": [{"b": [2, 1.0]}]}, {"a": [[], [3]]}, {"a": {"b": None}}, {"a": []}]
    )
    assert found.distinct("a.b") == [1, 2, None]
    assert found.distinct("a") == [{"b": 1}, {}, {"b": [2, 1.0]}, [], [3], {"b": None}]


def test_aggregate(users: lowtide.ReadCollection) -> None:
    pipeline: list[Any] = [{"$match": {"city": "Oslo"}}, {"$sort": {"age": 1}}, {"$skip": 1}, {"$limit": 5}]
    assert users.aggregate(pipeline).to_list() == [PEOPLE[0]]
    grouped = users.aggregate([{"$group": {"_id": "$city", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
    assert list(grouped) == [{"_id": "Bergen", "n": 1}, {"_id": "Oslo", "n": 2}]
    assert [each["_id"] for each in users.aggregate([])] == [1, 2, "c"]
    joined = users.aggregate(
        [
            {"$match": {"_id": 1}},
            {"$lookup": {"from": "users", "localField": "city", "foreignField": "city", "as": "near"}},
        ]
    )
    assert [[each["_id"] for each in found["near"]] for found in joined] == [[1, 2]]


def test_what_a_collection_tells_of_itself(store: lowtide.Store) -> None:
    users = store["users"]
    assert (users.name, repr(users)) == ("users", "<collection 'users'>")
    assert users.keyspaces() == ["lowtide/collections", "documents/users"]
    assert users.index_information() == {"_id_": {"key": [("_id", 1)]}}
    assert users.schema() is None
    assert users.find_one() is None
    assert users.count_documents({}) == 0
    assert users.distinct("a") == []
    assert store.list_collection_names() == []
    users.create_index([("a", -1)], sparse=True)
    assert users.keyspaces() == ["lowtide/collections", "documents/users", "index/users/a_-1"]
    assert users.index_information() == {"_id_": {"key": [("_id", 1)]}, "a_-1": {"key": [("a", -1)], "sparse": True}}
    assert store.list_collection_names() == ["users"]


@pytest.mark.parametrize("name", ["", "a/b", "$x", None])
def test_a_collection_with_an_impossible_name_is_refused_at_once(store: lowtide.Store, name: Any) -> None:
    for make in (store.collection, store.begin().collection, store.snapshot().collection, store.__getitem__):
        with pytest.raises(UsageError, match="a collection"):
            make(name)


def test_counts_by_an_index_read_no_document(store: lowtide.Store) -> None:
    users = store["users"]
    users.insert_many([{"_id": each, "n": each % 3} for each in range(30)])
    users.create_index("n")
    with store.begin() as tx:
        documents = tx._tx.keyspace("documents/users")
        documents.put_many([(key, b"\xc1") for key, _ in documents.scan()])  # not MessagePack: decoding fails
    assert users.count_documents({"n": 1}) == 10
    assert users.count_documents({"_id": {"$lt": 5}}) == 5
    assert users.estimated_document_count() == 30


def test_a_transaction_looks_again_for_a_collection_that_it_dropped_or_made_itself(store: lowtide.Store) -> None:
    store["users"].insert_one({"_id": 1, "n": "old"})
    with store.transaction() as tx:
        users = tx["users"]
        with tx.savepoint() as savepoint:
            users.drop()
            assert users.find_one({"_id": 1}) is None
            users.insert_one({"_id": 1, "n": "new"})
            assert users.find_one({"_id": 1}) == {"_id": 1, "n": "new"}
            savepoint.rollback()
        assert users.find_one({"_id": 1}) == {"_id": 1, "n": "old"}
        users.drop()
        assert users.find_one({"_id": 1}) is None
        tx.rollback()
    assert store["users"].find_one({"_id": 1}) == {"_id": 1, "n": "old"}


def test_a_collection_of_the_store_finds_by_id_what_is_there_now(store: lowtide.Store) -> None:
    users, others = store["users"], store["others"]
    assert users.find_one({"_id": 1}) is None
    users.insert_one({"_id": 1, "n": 1})
    assert users.find_one({"_id": 1}) == users.find_one({"_id": 1}) == {"_id": 1, "n": 1}
    users.rename("others")
    assert users.find_one({"_id": 1}) is None
    assert others.find_one({"_id": 1}) == {"_id": 1, "n": 1}
    users.insert_one({"_id": 1, "n": 2})
    others.rename("users", dropTarget=True)
    assert users.find_one({"_id": 1}) == {"_id": 1, "n": 1}
    users.create_index("n")
    users.drop()
    assert users.find_one({"_id": 1}) is None
