"""The methods that write: arguments, results and errors as in PyMongo, and each statement is atomic."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

import lowtide
from lowtide import DuplicateKeyError, InvalidDocument, OperationFailure, ReturnDocument, WriteError
from lowtide.documents.results import DeleteResult, UpdateResult

PEOPLE = [
    {"_id": 1, "name": "Ann", "city": "Oslo", "age": 33},
    {"_id": 2, "name": "Bob", "city": "Oslo", "age": 30},
    {"_id": 3, "name": "Cid", "city": "Bergen", "age": 25},
]


@pytest.fixture
def users(store: lowtide.Store) -> lowtide.Collection:
    found = store.collection("users")
    found.insert_many([dict(each) for each in PEOPLE])
    return found


def everything(collection: Any) -> list[dict[str, Any]]:
    return list(collection.find())


def test_insert_one_gives_back_the_id_and_keeps_the_document(users: lowtide.Collection) -> None:
    document = {"name": "Dan", "tags": (1, 2), "_id": 4}
    result = users.insert_one(document)
    assert (result.inserted_id, result.acknowledged) == (4, True)
    assert document == {"name": "Dan", "tags": (1, 2), "_id": 4}, "the caller's stays as it was"
    found = users.find_one({"_id": 4})
    assert found == {"_id": 4, "name": "Dan", "tags": [1, 2]}
    assert found is not None
    assert next(iter(found)) == "_id", "which comes first, as in MongoDB"


def test_insert_one_makes_an_id_and_writes_it_into_the_document_as_pymongo_does(users: lowtide.Collection) -> None:
    document: dict[str, Any] = {"name": "Dan"}
    made = users.insert_one(document).inserted_id
    assert isinstance(made, UUID)
    assert document == {"name": "Dan", "_id": made}
    assert users.find_one(made) == {"_id": made, "name": "Dan"}
    assert users.insert_one({}).inserted_id > made


@pytest.mark.parametrize("value", ["x", 70, -(2**70), b"\x00", UUID(int=4)], ids=repr)
def test_ids_of_every_type_are_found_again(users: lowtide.Collection, value: Any) -> None:
    users.insert_one({"_id": value, "a": 1})
    assert users.find_one({"_id": value}) == {"_id": value, "a": 1}
    assert users.find_one(value) == {"_id": value, "a": 1}
    assert users.count_documents({"_id": value}) == 1
    assert users.update_one({"_id": value}, {"$set": {"a": 2}}).modified_count == 1
    assert users.delete_one({"_id": value}).deleted_count == 1


@pytest.mark.parametrize(
    ("document", "path"),
    [
        *(({"_id": None}, "_id"), ({"_id": 1.5}, "_id"), ({"_id": [1]}, "_id"), ({"_id": True}, "_id")),
        *(({"_id": {"a": 1}}, "_id"), ({"_id": "x" * 300}, "_id"), ({"a": float("nan")}, "a"), ([1], ""), (None, "")),
        *(({"a": {"b": object}}, "a.b"), ({"$a": 1}, "$a"), ("text", ""), (MappingProxyType({"a": 1}), "_id")),
    ],
    ids=str,
)
def test_documents_that_cannot_be_stored_are_refused(users: lowtide.Collection, document: Any, path: str) -> None:
    for attempt in (users.insert_one, lambda each: users.insert_many([{"_id": 9}, each])):
        with pytest.raises(InvalidDocument) as caught:
            attempt(document)
        assert caught.value.path == path
    assert everything(users) == PEOPLE


@pytest.mark.parametrize("_id", [1, 2])
def test_an_id_that_is_there_is_a_duplicate(users: lowtide.Collection, _id: int) -> None:
    with pytest.raises(DuplicateKeyError, match="collection 'users', index '_id_'") as caught:
        users.insert_one({"_id": _id, "name": "Zoe"})
    assert caught.value.details == {"collection": "users", "index": "_id_", "keyValue": {"_id": _id}, "_id": _id}
    assert everything(users) == PEOPLE


def test_an_integer_that_python_would_not_print_can_be_a_duplicate(users: lowtide.Collection) -> None:
    users.insert_one({"_id": 10**5000})
    with pytest.raises(DuplicateKeyError, match="duplicate key in collection 'users'") as caught:
        users.insert_one({"_id": 10**5000})
    assert caught.value.details["_id"] == 10**5000


def test_insert_many_takes_any_iterable(users: lowtide.Collection) -> None:
    documents: list[dict[str, Any]] = [{"_id": 4}, {}]
    result = users.insert_many(each for each in documents)
    assert result.inserted_ids == [4, documents[1]["_id"]]
    assert users.count_documents({}) == 5


@pytest.mark.parametrize("documents", [[], {}, {"_id": 4}, "text", b"bytes"], ids=repr)
def test_insert_many_refuses_what_is_no_list(users: lowtide.Collection, documents: Any) -> None:
    with pytest.raises(OperationFailure, match="insert_many requires"):
        users.insert_many(documents)


@pytest.mark.parametrize(
    ("filter", "update", "options", "result", "first"),
    [
        ({"_id": 1}, {"$inc": {"age": 1}}, {}, (1, 1, None), {**PEOPLE[0], "age": 34}),
        ({"_id": 1}, {"$set": {"age": 33}}, {}, (1, 0, None), PEOPLE[0]),
        ({"_id": 1}, {"$set": {"age": 33.0}}, {}, (1, 1, None), {**PEOPLE[0], "age": 33.0}),
        ({"_id": 9}, {"$inc": {"age": 1}}, {}, (0, 0, None), PEOPLE[0]),
        ({"city": "Oslo"}, {"$unset": {"age": 1}}, {}, (1, 1, None), {"_id": 1, "name": "Ann", "city": "Oslo"}),
        ({"city": "Oslo"}, {"$set": {"x": 1}}, {"sort": [("age", 1)]}, (1, 1, None), PEOPLE[0]),
        ({}, {"$set": {"x": 1}}, {}, (1, 1, None), {**PEOPLE[0], "x": 1}),
        ({}, {"$set": {"x": 1}}, {"hint": "_id_"}, (1, 1, None), {**PEOPLE[0], "x": 1}),
        ({"_id": 1}, {"$set": {"age": 5}}, {"upsert": True}, (1, 1, None), {**PEOPLE[0], "age": 5}),
    ],
    ids=str,
)
def test_update_one(users: lowtide.Collection, filter: Any, update: Any, options: Any, result: Any, first: Any) -> None:
    found = users.update_one(filter, update, **options)
    assert (found.matched_count, found.modified_count, found.upserted_id) == result
    assert found.acknowledged
    document = users.find_one(1)
    assert document == first
    assert document is not None
    assert type(document.get("age")) is type(first.get("age"))


def test_a_sort_tells_which_one_is_updated_replaced_or_deleted(users: lowtide.Collection) -> None:
    users.update_one({}, {"$set": {"youngest": True}}, sort=[("age", 1)])
    assert users.find_one({"youngest": True}, {"_id": 1}) == {"_id": 3}
    users.replace_one({}, {"oldest": True}, sort={"age": -1})
    assert users.find_one({"oldest": True}) == {"_id": 1, "oldest": True}
    users.delete_one({}, sort="name")
    assert users.find_one(1) is None, "what has no name comes first"


@pytest.mark.parametrize(
    ("filter", "update", "stored"),
    [
        ({"_id": 9, "city": "Rome"}, {"$set": {"age": 1}}, {"_id": 9, "city": "Rome", "age": 1}),
        ({"_id": {"$eq": 9}}, {"$setOnInsert": {"a": 1}}, {"_id": 9, "a": 1}),
        ({"_id": 9, "age": {"$gt": 3}}, {"$inc": {"n": 1}}, {"_id": 9, "n": 1}),
        ({"_id": 9}, {"$push": {"list": 1}}, {"_id": 9, "list": [1]}),
        ({"city": "Rome"}, {"$set": {"_id": 9}}, {"_id": 9, "city": "Rome"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("many", [False, True])
def test_an_upsert_inserts_what_filter_and_update_say(
    users: lowtide.Collection, filter: Any, update: Any, stored: Any, many: bool
) -> None:
    result = (users.update_many if many else users.update_one)(filter, update, upsert=True)
    assert result == UpdateResult(0, 0, 9, did_upsert=True)
    assert users.find_one(9) == stored


def test_an_upsert_without_an_id_makes_one(users: lowtide.Collection) -> None:
    result = users.update_one({"city": "Rome"}, {"$set": {"age": 1}}, upsert=True)
    assert isinstance(result.upserted_id, UUID)
    assert users.find_one({"city": "Rome"}) == {"_id": result.upserted_id, "city": "Rome", "age": 1}
    found = users.find_one_and_update(
        {"city": "Bonn"}, {"$set": {"age": 2}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    assert found is not None
    assert isinstance(found["_id"], UUID)
    assert users.find_one(found["_id"]) == found


def test_update_many_changes_all_or_none(users: lowtide.Collection) -> None:
    result = users.update_many({"city": "Oslo"}, {"$inc": {"age": 1}})
    assert (result.matched_count, result.modified_count) == (2, 2)
    users.update_one({"_id": 3}, {"$set": {"age": "old"}})
    before = everything(users)
    with pytest.raises(WriteError):
        users.update_many({}, {"$inc": {"age": 1}})
    assert everything(users) == before


def test_update_many_finds_before_it_changes(users: lowtide.Collection) -> None:
    """Through the very index along which the documents move."""
    users.create_index("age")
    assert users.update_many({"age": {"$gt": 0}}, {"$inc": {"age": 5}}, hint="age_1").modified_count == 3
    assert [each["age"] for each in users.find(sort="_id")] == [38, 35, 30]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda users: users.update_one({}, {"age": 1}), "operator"),
        (lambda users: users.update_one({}, {}), "operator"),
        (lambda users: users.update_one({}, {"$bad": {"a": 1}}), "bad"),
        (lambda users: users.update_one({"$bad": 1}, {"$set": {"a": 1}}), "bad"),
        (lambda users: users.update_one({"a": {"$bad": 1}}, {"$set": {"a": 1}}), "bad"),
        (lambda users: users.replace_one({}, {"$set": {"a": 1}}), r"\$"),
        (lambda users: users.update_one({"_id": 1}, {"$set": {"_id": 2}}), "_id"),
        (lambda users: users.replace_one({"_id": 1}, {"_id": 2}), "_id"),
        (lambda users: users.delete_one({"$bad": 1}), "bad"),
        (lambda users: users.delete_many({"a": {"$bad": 1}}), "bad"),
        (lambda users: users.update_one({}, {"$set": {"a": 1}}, hint="nope"), "no such index"),
        (lambda users: users.delete_one("not a filter"), "filter"),
        (lambda users: users.find_one_and_delete({}, sort=[("a", 5)]), "1"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(users: lowtide.Collection, call: Any, reason: str) -> None:
    with pytest.raises(lowtide.UsageError, match=reason):
        call(users)
    assert everything(users) == PEOPLE


def test_replace_one_keeps_the_id_and_nothing_else(users: lowtide.Collection) -> None:
    assert users.replace_one({"city": "Oslo"}, {"a": 1}) == UpdateResult(1, 1)
    assert users.find_one(1) == {"_id": 1, "a": 1}
    assert users.replace_one({"_id": 1}, {"_id": 1, "a": 1}) == UpdateResult(1, 0)
    assert users.replace_one({"_id": 9}, {"a": 1}) == UpdateResult(0, 0)
    assert users.replace_one({"_id": 9, "x": 5}, {"a": 1}, upsert=True) == UpdateResult(0, 0, 9, did_upsert=True)
    assert users.find_one(9) == {"_id": 9, "a": 1}, "of the filter, a replacement takes the _id alone"
    made = users.replace_one({"b": 1}, {"c": 1}, True).upserted_id
    assert users.find_one(made) == {"_id": made, "c": 1}


def test_deleting(users: lowtide.Collection) -> None:
    assert users.delete_one({"city": "Oslo"}) == DeleteResult(1)
    assert users.delete_one({"_id": 1}) == DeleteResult(0)
    users.insert_many([dict(PEOPLE[0]), {"_id": 4, "city": "Rome"}])
    assert users.delete_many({"city": {"$in": ["Oslo", "Rome"]}}).deleted_count == 3
    assert users.delete_many({}).deleted_count == 1
    assert users.delete_many({}).deleted_count == 0


@pytest.mark.parametrize("after", [False, True, ReturnDocument.BEFORE, ReturnDocument.AFTER])
def test_find_one_and_update_returns_the_document_as_it_was_or_is(users: lowtide.Collection, after: Any) -> None:
    is_after = after in (True, ReturnDocument.AFTER)
    found = users.find_one_and_update({"_id": 1}, {"$inc": {"age": 1}}, return_document=after)
    assert found == {**PEOPLE[0], "age": 34 if is_after else 33}
    missing = users.find_one_and_update({"_id": 9}, {"$set": {"a": [1]}}, upsert=True, return_document=after)
    assert missing == ({"_id": 9, "a": [1]} if is_after else None)
    assert users.find_one_and_update({"_id": 8}, {"$set": {"a": 1}}, return_document=after) is None


def test_find_one_and_update_with_projection_sort_and_array_filters(users: lowtide.Collection) -> None:
    found = users.find_one_and_update({"city": "Oslo"}, {"$set": {"a": 1}}, {"name": 1, "_id": 0}, [("age", 1)])
    assert found == {"name": "Bob"}
    users.update_one({"_id": 1}, {"$set": {"n": [1, 5, 9]}})
    changed = users.find_one_and_update(
        {"_id": 1},
        {"$set": {"n.$[each]": 0}},
        projection=["n"],
        return_document=ReturnDocument.AFTER,
        array_filters=[{"each": {"$gt": 3}}],
    )
    assert changed == {"_id": 1, "n": [1, 0, 0]}


def test_find_one_and_replace_and_delete(users: lowtide.Collection) -> None:
    assert users.find_one_and_replace({"_id": 1}, {"a": 1}) == PEOPLE[0]
    assert users.find_one_and_replace({"_id": 1}, {"a": 2}, return_document=ReturnDocument.AFTER) == {"_id": 1, "a": 2}
    assert users.find_one_and_replace({"_id": 9}, {"a": 2}) is None
    assert users.find_one_and_replace({"_id": 9}, {"a": 2}, upsert=True) is None
    assert users.find_one_and_delete({"_id": 9}) == {"_id": 9, "a": 2}
    assert users.find_one_and_delete({"_id": 9}) is None
    assert users.find_one_and_delete({"age": {"$gt": 1}}, {"name": 1}, sort={"age": 1}) == {"_id": 3, "name": "Cid"}


def test_an_unknown_return_document_is_refused_before_anything_changes(users: lowtide.Collection) -> None:
    with pytest.raises(OperationFailure, match="after"):
        users.find_one_and_update({"_id": 1}, {"$inc": {"age": 1}}, return_document="after")  # type: ignore[arg-type]
    assert everything(users) == PEOPLE


def test_the_positional_operator_means_the_element_that_matched(users: lowtide.Collection) -> None:
    users.update_one({"_id": 1}, {"$set": {"n": [1, 5, 9]}})
    users.create_index("n")
    assert users.update_one({"n": 5}, {"$set": {"n.$": 50}}).modified_count == 1
    assert users.find_one({"n": 50}, {"n": 1}) == {"_id": 1, "n": [1, 50, 9]}
    assert users.find_one({"n": 5}) is None


def test_what_is_given_and_returned_is_not_the_stores_own(store: lowtide.Store, users: lowtide.Collection) -> None:
    inner: dict[str, Any] = {"list": [1]}
    document = {"_id": 5, "inner": inner}
    users.insert_one(document)
    inner["list"].append(2)
    with store.transaction() as tx:
        mine = tx["users"]
        mine.insert_one({"_id": 6, "inner": inner})
        inner["list"].append(3)
        first = mine.find_one(6)
        assert first == {"_id": 6, "inner": {"list": [1, 2]}}
        first["inner"]["list"].clear()
        assert mine.find_one(6) == {"_id": 6, "inner": {"list": [1, 2]}}
        operand = {"deep": [1]}
        mine.update_one({"_id": 6}, {"$set": {"inner": operand}})
        operand["deep"].append(2)
        returned = mine.find_one_and_update({"_id": 6}, {"$set": {"a": 1}}, return_document=ReturnDocument.AFTER)
        assert returned is not None
        returned["inner"]["deep"].append(3)
        assert mine.find_one(6) == {"_id": 6, "inner": {"deep": [1]}, "a": 1}
    assert users.find_one(5) == {"_id": 5, "inner": {"list": [1]}}
    assert users.find_one(6) == {"_id": 6, "inner": {"deep": [1]}, "a": 1}


def test_any_mapping_is_inserted_if_it_has_an_id(users: lowtide.Collection) -> None:
    class Frozen(Mapping[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return {"a": (1,), "_id": 7}[name]

        def __iter__(self) -> Any:
            return iter(("a", "_id"))

        def __len__(self) -> int:
            return 2

    assert users.insert_one(Frozen()).inserted_id == 7
    assert users.find_one(7) == {"_id": 7, "a": [1]}
    assert users.insert_one(MappingProxyType({"_id": 8})).inserted_id == 8


@pytest.mark.parametrize(
    "call",
    [
        lambda users: users.delete_one(None),
        lambda users: users.delete_many(None),
        lambda users: users.find_one_and_delete(None),
        lambda users: users.update_one(None, {"$set": {"a": 1}}),
        lambda users: users.update_many(None, {"$set": {"a": 1}}),
        lambda users: users.replace_one(None, {}),
        lambda users: users.find_one_and_update(None, {"$set": {"a": 1}}),
        lambda users: users.find_one_and_replace(None, {}),
        lambda users: users.bulk_write([lowtide.DeleteMany(None)]),  # type: ignore[arg-type]
    ],
)
def test_what_writes_is_told_to_mean_everything(users: lowtide.Collection, call: Any) -> None:
    with pytest.raises(OperationFailure, match=r"give \{\} for every document"):
        call(users)
    assert everything(users) == PEOPLE


def test_find_one_and_shows_the_element_that_matched(users: lowtide.Collection) -> None:
    users.update_one({"_id": 1}, {"$set": {"tags": ["a", "b", "c"]}})
    wanted = {"_id": 1, "tags": ["b"]}
    assert users.find_one_and_update({"tags": "b"}, {"$inc": {"age": 1}}, {"tags.$": 1}) == wanted
    assert users.find_one_and_delete({"tags": "b"}, {"tags.$": 1}) == wanted


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda users: users.insert_many(None), "a list of documents, got NoneType"),
        (lambda users: users.bulk_write(None), "a list of operations, got NoneType"),
        (lambda users: users.find().hint(5), "an index must have 1 to 32 fields, such as .*, got 5"),
        (lambda users: users.find_one_and_update({}, {"$set": {"a": 1}}, return_document="after"), "not 'after'"),
        (lambda users: users.distinct(None), "a field path, a string, got None"),
        (lambda users: users.aggregate([]).to_list(-1), "length must be an integer of at least 0, got -1"),
        (lambda users: users.to_arrow("name"), "a list of field names, got 'name'"),
        (lambda users: users.to_arrow(5), "a list of field names, got 5"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_in_words(users: lowtide.Collection, call: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=reason):
        call(users)
    assert everything(users) == PEOPLE
