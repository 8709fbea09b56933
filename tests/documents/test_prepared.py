"""Prepared and unprepared statements answer the same and leave the same: on shapes that are known, with values of
changing types, while indexes and schemas come and go.

Statements are prepared in transactions that read one instant. Below SNAPSHOT each statement has its own instant, and
goes the general way. So the same statements run at both levels, on two stores.
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
