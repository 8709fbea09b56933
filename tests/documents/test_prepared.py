"""Prepared and unprepared statements give the same answers and the same content: on known shapes, with values of
changing types, while indexes and schemas come and go.

Statements are prepared in transactions that read one instant. Below SNAPSHOT each statement has its own instant, and
takes the general path. So the same statements run at both levels, on two stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import lowtide
from lowtide import ReturnDocument

FIELDS = ("a", "b", "c")
plain = st.integers(0, 3) | st.sampled_from([1.0, 2.5, -0.0, True, "x", "y", b"x", 2**70, "x" * 400])
values = plain | st.sampled_from([None, [1, "x"], [], {"x": 1}])
ids = st.integers(0, 7)
comparisons = st.dictionaries(st.sampled_from(("$eq", "$gt", "$gte", "$lt", "$lte")), values, min_size=1, max_size=2)
conditions = st.dictionaries(st.sampled_from(FIELDS), values | values | comparisons, max_size=2)
members = st.lists(ids | ids | st.sampled_from(["x", 1.0, None, [1]]), max_size=4)
filters = (
    conditions
    | ids.map(lambda number: {"_id": number})
    | st.builds(lambda several, more: {"_id": {"$in": several}, **more}, members, conditions)
)
updates = st.dictionaries(
    st.sampled_from(("$set", "$inc", "$unset", "$push")),
    st.dictionaries(st.sampled_from(FIELDS), values, min_size=1, max_size=2),
    min_size=1,
    max_size=2,
)
sorts = st.none() | st.lists(
    st.tuples(st.sampled_from(("_id", *FIELDS)), st.sampled_from([1, -1])), min_size=1, max_size=2
)
documents = st.builds(
    lambda number, fields: {"_id": number, **fields}, ids, st.dictionaries(st.sampled_from(FIELDS), values)
)
flat = st.builds(
    lambda number, fields: {"_id": number, **fields},
    st.integers(0, 40),
    st.dictionaries(st.sampled_from(FIELDS), plain | st.none()),
)
INDEXES: list[tuple[Any, dict[str, Any]]] = [
    ("a", {}),
    ([("a", 1), ("b", -1)], {}),
    ("b", {"unique": True, "sparse": True}),
    ([("c", -1)], {"sparse": True}),
    ("c", {"partialFilterExpression": {"c": {"$gt": 0}}, "name": "partial"}),
]
SCHEMA = {"properties": {"a": {"type": ["integer", "string", "null"]}}}

steps = st.one_of(
    st.tuples(st.just("find_one"), filters, sorts),
    st.tuples(st.just("find"), filters, sorts, st.integers(0, 2), st.integers(0, 3)),
    st.tuples(st.just("count"), filters),
    st.tuples(st.just("insert_one"), documents),
    st.tuples(st.just("insert_many"), st.lists(documents, min_size=1, max_size=3)),
    st.tuples(st.just("insert_many"), st.lists(flat, min_size=1, max_size=6)),
    st.tuples(st.just("update_one"), filters, updates, sorts),
    st.tuples(st.just("update_many"), filters, updates),
    st.tuples(st.just("find_one_and_update"), filters, updates, sorts),
    st.tuples(st.just("delete_one"), filters),
    st.tuples(st.just("undo"), updates),
    st.tuples(st.just("create_index"), st.integers(0, len(INDEXES) - 1)),
    st.tuples(st.just("drop_indexes")),
    st.tuples(st.just("set_schema"), st.booleans()),
    st.tuples(st.just("commit")),
    st.tuples(st.just("checkpoint")),
)


class Side:
    """A store at one level, and the transaction that is open on it."""

    def __init__(self, directory: Path, isolation: str) -> None:
        self.store = lowtide.open(directory, durability="relaxed")
        self._isolation = isolation
        self._begin()

    def _begin(self) -> None:
        self.tx = self.store.begin(self._isolation)

    def reset(self) -> None:
        self.tx.rollback()
        self.store["x"].drop()
        self._begin()

    def answer(self, step: tuple[Any, ...]) -> Any:
        try:
            return self._answer(*step)
        except lowtide.Error as error:
            return type(error), str(error)

    def _answer(self, kind: str, *given: Any) -> Any:
        documents = self.tx["x"]
        match kind:
            case "find_one":
                return documents.find_one(given[0], sort=given[1])
            case "find":
                filter, sort, skip, limit = given
                found = documents.find(filter, sort=sort or [("_id", 1)], skip=skip, limit=limit).to_list()
                return [found, len(documents.find(filter).to_list())]
            case "count":
                return documents.count_documents(given[0])
            case "insert_one":
                return documents.insert_one(dict(given[0])).inserted_id
            case "insert_many":
                return documents.insert_many([dict(each) for each in given[0]]).inserted_ids
            case "update_one":
                return documents.update_one(*given[:2], sort=given[2])
            case "update_many":
                return documents.update_many(*given)
            case "find_one_and_update":
                filter, update, sort = given
                wanted = ReturnDocument.AFTER
                return documents.find_one_and_update(filter, update, sort=sort, return_document=wanted)
            case "delete_one":
                return documents.delete_one(given[0]).deleted_count
            case "undo":
                with self.tx.savepoint() as savepoint:
                    documents.update_many({}, given[0])
                    documents.update_one({"_id": 1}, given[0])
                    savepoint.rollback()
                return documents.find_one({"_id": 1})
            case "create_index":
                keys, options = INDEXES[given[0]]
                return documents.create_index(keys, **options)
            case "drop_indexes":
                return documents.drop_indexes()
            case "set_schema":
                return documents.set_schema(SCHEMA if given[0] else None)
        if kind == "commit" or kind == "checkpoint":
            self.tx.commit()
            if kind == "checkpoint":
                self.store.checkpoint()
            self._begin()
        return None


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Side]]:
    found = [Side(tmp_path_factory.mktemp(level), level) for level in ("snapshot", "serializable", "read_committed")]
    yield found
    for side in found:
        side.tx.rollback()
        side.store.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, min_size=5, max_size=25))
def test_prepared_statements_answer_as_the_general_ones_do(sides: list[Side], program: list[tuple[Any, ...]]) -> None:
    for side in sides:
        side.reset()
    for step in program:
        answers = [side.answer(step) for side in sides]
        assert repr(answers[0]) == repr(answers[2]), step
        assert repr(answers[1]) == repr(answers[2]), step
    for side in sides:
        side.answer(("commit",))
    left = [side.store["x"].find().sort("_id").to_list() for side in sides]
    assert repr(left[0]) == repr(left[1]) == repr(left[2])
    for side in sides:
        collection = side.store["x"]
        for path in FIELDS:
            for value in (0, 1, 2.5, "x", None, True):
                by_index = collection.find({path: value}).sort("_id").to_list()
                assert repr(by_index) == repr(collection.find({path: value}).sort("_id").hint("$natural").to_list())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[lowtide.Store]:
    with lowtide.open(tmp_path / "store", durability="relaxed") as opened:
        yield opened


def test_what_a_transaction_changes_in_the_catalog_holds_for_its_next_statement(store: lowtide.Store) -> None:
    store["x"].insert_many([{"_id": number, "a": number % 3} for number in range(9)])
    with store.transaction() as tx:
        documents = tx["x"]
        assert documents.find_one({"_id": 4}) == {"_id": 4, "a": 1}
        with tx.savepoint() as savepoint:
            documents.create_index("a")
            documents.insert_many([{"_id": 20, "a": 1}, {"_id": 21, "a": 1}])
            assert [each["_id"] for each in documents.find({"a": 1})] == [1, 4, 7, 20, 21]
            savepoint.rollback()
        documents.insert_one({"_id": 30, "a": 1})
        documents.create_index("a")
        documents.insert_one({"_id": 31, "a": 1})
        documents.insert_many([{"_id": 32, "a": 1}, {"_id": 33, "a": 2}])
        assert [each["_id"] for each in documents.find({"a": 1})] == [1, 4, 7, 30, 31, 32]
    assert [each["_id"] for each in store["x"].find({"a": 1})] == [1, 4, 7, 30, 31, 32]


def test_of_the_ids_that_are_asked_for_those_are_found_that_match_the_rest(store: lowtide.Store) -> None:
    store["x"].insert_many([{"_id": number, "a": number % 3, "b": [number]} for number in range(9)])
    asked = {"_id": {"$in": [7, 4, 5, 100, 4]}, "a": {"$lt": 2}}
    for source in (store, store.begin(), store.begin("read_committed")):
        assert [each["_id"] for each in source["x"].find(asked)] == [4, 7]
        assert [each["_id"] for each in source["x"].find(asked).sort("_id", -1)] == [7, 4]
        assert [each["_id"] for each in source["x"].find(asked).sort("b", -1).limit(1)] == [7]
        assert source["x"].count_documents(asked) == 2
        assert source["x"].find_one(asked) == {"_id": 4, "a": 1, "b": [4]}
    assert store["x"].update_many(asked, {"$inc": {"a": 5}}).modified_count == 2
    assert [each["a"] for each in store["x"].find({"_id": {"$in": [4, 7]}})] == [6, 6]


def test_of_an_array_each_element_has_an_entry_however_the_document_came(store: lowtide.Store) -> None:
    store["x"].create_index("a")
    store["x"].insert_many([{"_id": 1, "a": [1, 2]}, {"_id": 2, "a": 2}])
    store["x"].insert_one({"_id": 3, "a": [2, 3]})
    store["x"].insert_one({"_id": 4, "a": (2, 4)})
    assert [each["_id"] for each in store["x"].find({"a": 2})] == [1, 2, 3, 4]
    assert [each["_id"] for each in store["x"].find({"a": 4})] == [4]


@pytest.mark.parametrize("direction", [1, -1])
def test_a_find_of_many_documents_goes_on_where_its_first_ones_end(store: lowtide.Store, direction: int) -> None:
    store["x"].insert_many([{"_id": number, "a": number // 700} for number in range(2000)])
    store["x"].create_index("a")
    with store.transaction() as tx:
        cursor = tx["x"].find({"a": {"$gte": 1}}).sort("a", direction)
        first = next(cursor)
        tx["x"].delete_many({"_id": {"$gt": 750}})
        tx["x"].insert_one({"_id": 3000, "a": 1})
        found = [first, *cursor]
        assert sorted(each["_id"] for each in found) == list(range(700, 2000))
        assert [each["a"] for each in found] == sorted((each["a"] for each in found), reverse=direction < 0)
        assert tx["x"].count_documents({"a": {"$gte": 1}}) == 52
    assert len(store["x"].find({"a": 0}).to_list()) == 700
    assert len(store["x"].find({"_id": {"$gte": 0}}).skip(10).limit(600).to_list()) == 600


def test_an_update_moves_the_entries_of_its_document(store: lowtide.Store) -> None:
    documents = store["x"]
    documents.create_index([("a", 1), ("b", -1)])
    documents.create_index("c")
    documents.insert_many([{"_id": number, "a": 1, "b": number, "c": 0} for number in range(4)])
    documents.update_one({"_id": 1}, {"$set": {"a": 2}})
    documents.update_many({"a": 1, "b": {"$gte": 2}}, {"$inc": {"b": 5}, "$set": {"c": 9}})
    assert [each["_id"] for each in documents.find({"a": 1}).sort("b", -1)] == [3, 2, 0]
    assert [each["_id"] for each in documents.find({"a": 2})] == [1]
    assert [each["_id"] for each in documents.find({"a": 1, "b": {"$lt": 6}})] == [0]
    assert [each["_id"] for each in documents.find({"c": 9})] == [2, 3]
    documents.update_many({"c": 0}, {"$unset": {"c": ""}})
    documents.update_many({"a": 1}, {"$set": {"c": "x" * 400}})
    assert [each["_id"] for each in documents.find({"c": None})] == [1]
    assert [each["_id"] for each in documents.find({"c": "x" * 400})] == [0, 2, 3]
    assert documents.find({"c": 9}).to_list() == documents.find({"c": 0}).to_list() == []
