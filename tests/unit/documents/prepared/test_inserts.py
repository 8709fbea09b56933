"""Documents that are prepared by column equal those that are prepared one by one, or fall back to that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import lowtide
from lowtide.documents.operations import prepare
from lowtide.documents.prepared import inserts
from lowtide.documents.prepared.inserts import prepare_batch, prepare_one
from lowtide.errors import BulkWriteError, InvalidDocument, OperationFailure


class Text(str):
    __slots__ = ()


plain = st.integers(-3, 3) | st.sampled_from([2**63, 2**70, 0.0, -0.0, 1.5, True, None, "x", "\x00", b"x", "$x"])
nested = st.sampled_from([[1], [], {}, {"x": 1}, [[{"x": [None]}]], {"x": {"y": ["z", 1.5]}}])
others = nested | st.sampled_from(
    [
        float("nan"),
        Text("x"),
        UUID(int=3),
        Decimal(1),
        datetime(2030, 1, 1, tzinfo=UTC),
        (1,),
        [float("nan")],
        {"$x": 1},
    ]
)
names = st.sampled_from(("a", "b", "$c", Text("d"), "", "é"))
ids = st.integers(-3, 300) | st.sampled_from(["x", "y", "\x00", "\ud800", "z" * 300, b"x", None, 1.5, True])
bodies = st.dictionaries(names, plain | plain | plain | others, max_size=3)
documents = st.builds(lambda number, body: {"_id": number, **body}, ids, bodies) | bodies
lists = st.lists(documents, max_size=4) | st.lists(
    st.builds(
        lambda number, body: {"_id": number, **body},
        st.integers(0, 9),
        st.dictionaries(st.sampled_from(("a", "b")), plain | nested, max_size=2),
    ),
    min_size=1,
    max_size=5,
)


@given(lists)
def test_what_is_prepared_by_column_is_as_if_prepared_one_by_one(given_documents: list[dict[str, Any]]) -> None:
    found = prepare_batch(given_documents)
    if found is None:
        return
    expected = [prepare(dict(each)) for each in given_documents]
    assert found.ids == [each.id for each in expected]
    assert found.keys == [each.key for each in expected]
    assert found.encoded == [each.encoded for each in expected]
    assert len(set(found.keys)) == len(found.keys)


def outcome(prepare: Callable[[Any], Any], document: Any) -> Any:
    try:
        return prepare(document)
    except lowtide.Error as error:
        return type(error), str(error)


@given(st.lists(documents, min_size=1, max_size=4))
def test_a_document_whose_names_were_seen_before_is_prepared_as_any_other(
    given_documents: list[dict[str, Any]],
) -> None:
    """Also one whose names merely equal them, and one with values that the document before did not have."""
    for each in given_documents:
        known = {"_id": 1, **{name: None for name in each if name != "_id"}}
        outcome(prepare_one, known)
        if "_id" in each:  # else each call generates another one
            assert outcome(prepare_one, dict(each)) == outcome(prepare, dict(each))


@pytest.mark.parametrize(
    "value", [UUID(int=3), Decimal(1), datetime(2030, 1, 1), 2**70, float("nan"), "\ud800", {"$x": 1}, (1,), object()]
)
def test_known_names_say_nothing_of_values(value: Any) -> None:
    prepare_one({"_id": 1, "a": 1})
    assert outcome(prepare_one, {"_id": 1, "a": value}) == outcome(prepare, {"_id": 1, "a": value})


def test_names_that_cannot_be_stored_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inserts, "_known_names", set())
    for refused in ({"_id": 1, "$a": 1}, {"_id": 1, 2: 1}, {"_id": 1, "a": object()}):
        with pytest.raises(InvalidDocument):
            prepare_one(refused)
    prepare_one({"a": 1, "_id": 1})
    prepare_one({"a": 1})
    prepare_one({"_id": 1, Text("a"): 1})
    prepare_one({"_id": 1, **{f"f{number}": 1 for number in range(64)}})
    assert not inserts._known_names
    prepare_one({"_id": 1, "a": 1})
    assert inserts._known_names == {("_id", "a")}


def test_names_that_differ_all_the_time_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inserts, "_known_names", set())
    for number in range(inserts._MOST_SHAPES + 3):
        prepare_one({"_id": 1, f"f{number}": 1})
    assert len(inserts._known_names) == 3


def test_plain_documents_are_prepared_by_column() -> None:
    assert prepare_batch([{"_id": each, "a": "x", "b": 1.5, "c": None} for each in range(3)]) is not None
    assert prepare_batch([{"_id": "x", "a": True}, {"_id": "y", "b": b"x"}]) is not None
    assert prepare_batch([{"_id": "x", "a": [1, {"b": [2]}]}, {"_id": "y", "a": {"b": {}}}]) is not None


def _itself() -> dict[str, Any]:
    inner: list[Any] = []
    inner += [inner] * 1000
    return {"a": inner}


OTHERS: list[dict[Any, Any]] = [
    {"a": [float("nan")]},
    {"a": {"$b": 1}},
    {"a": [{"b": (1,)}]},
    {"a": {Text("b"): 1}},
    {"a": [[[[[[[[[1]]]]]]]]]},
    _itself(),
    {"a": UUID(int=1)},
    {"a": float("nan")},
    {"a": Text("x")},
    {"a": 2**70},
    {"$a": 1},
    {Text("a"): 1},
]


@pytest.mark.parametrize("body", OTHERS)
def test_others_are_not(body: dict[str, Any]) -> None:
    assert prepare_batch([{"_id": 1}, {"_id": 2, **body}]) is None


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lowtide.Store]:
    with lowtide.open(tmp_path_factory.mktemp("inserts"), durability="relaxed") as opened:
        yield opened


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 3), st.lists(lists, min_size=1, max_size=3))
def test_each_index_finds_what_was_inserted(store: lowtide.Store, count: int, several: list[Any]) -> None:
    indexes: list[Any] = ["a", [("a", -1), ("b", 1)], "b.c"]
    for each in indexes[:count]:
        store["x"].create_index(each)
    for documents in several:
        with contextlib.suppress(InvalidDocument, BulkWriteError, OperationFailure):
            store["x"].insert_many([dict(each) for each in documents])
    found = store["x"].find().to_list()
    for path in ("a", "b"):
        for value in {repr(each.get(path)): each.get(path) for each in found}.values():
            asked = store["x"].find({path: {"$eq": value}}).sort("_id")
            assert repr(asked.to_list()) == repr(asked.clone().hint("$natural").to_list())
    store["x"].drop()


def test_a_document_that_is_there_is_named_and_those_before_it_are_inserted(store: lowtide.Store) -> None:
    store["y"].insert_one({"_id": 2})
    with pytest.raises(BulkWriteError) as caught:
        store["y"].insert_many([{"_id": each, "a": each} for each in range(5)])
    assert [each["index"] for each in caught.value.details["writeErrors"]] == [2]
    assert [each["_id"] for each in store["y"].find()] == [0, 1, 2]


def test_one_that_was_deleted_in_the_same_transaction_is_inserted_again(store: lowtide.Store) -> None:
    store["z"].create_index("a")
    store["z"].insert_many([{"_id": each, "a": each} for each in range(3)])
    with store.transaction() as tx:
        tx["z"].delete_one({"_id": 1})
        tx["z"].insert_many([{"_id": 1, "a": 7}, {"_id": 8, "a": 7}])
        assert [each["_id"] for each in tx["z"].find({"a": 7})] == [1, 8]
    assert [each["_id"] for each in store["z"].find({"a": 7})] == [1, 8]
    assert store["z"].find({"a": 1}).to_list() == []
    assert store.verify().ok
