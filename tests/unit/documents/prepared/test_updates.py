"""A prepared update does what the compiled one does, for documents with any values, or raises the same error."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.documents.prepared import updates
from lowtide.documents.prepared.bound import PreparedUpdate
from lowtide.documents.prepared.updates import prepare_update
from lowtide.documents.updates import compile_update
from lowtide.errors import Error
from lowtide.values.codec import encode_document

NOW = datetime(2030, 1, 1, tzinfo=UTC)
FIELDS = ("a", "b", "c")

values = (
    st.integers(-3, 3)
    | st.sampled_from([2**63, 2**64, -(2**80), 0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan")])
    | st.sampled_from([True, False, None, "x", "", b"x", UUID(int=3), Decimal("1.5"), NOW, [1], [], {"x": 1}])
)
fields = st.dictionaries(st.sampled_from((*FIELDS, "_id", "a.x", "$a", "")), values, min_size=1, max_size=3)
plain = st.dictionaries(st.sampled_from(FIELDS), values, min_size=1, max_size=3)
given_updates = st.dictionaries(
    st.sampled_from(("$set", "$inc", "$unset", "$push", "$mul")), plain | plain | fields, min_size=1, max_size=3
)
stored = st.dictionaries(st.sampled_from((*FIELDS, "d")), values.filter(lambda value: value == value), max_size=4)


def outcome(compiling: Any, update: dict[str, Any], document: dict[str, Any]) -> Any:
    try:
        compiled = compiling(update)
        new = compiled.apply(document, now=NOW)
        return encode_document({"_id": 7, **new}), list(new), compiled.fields, compiled.positional
    except Error as error:
        return type(error), str(error)


@given(given_updates, st.lists(stored, min_size=1, max_size=3))
def test_a_prepared_update_does_what_the_compiled_one_does(
    update: dict[str, Any], documents: list[dict[str, Any]]
) -> None:
    for document in documents:
        before = encode_document({"_id": 7, **document})
        assert outcome(prepare_update, update, document) == outcome(compile_update, update, document)
        assert encode_document({"_id": 7, **document}) == before, "the document was changed in place"


@given(given_updates, given_updates)
def test_an_update_is_bound_to_the_values_of_its_own_shape_only(update: dict[str, Any], other: dict[str, Any]) -> None:
    try:
        known, prepared = prepare_update(update), prepare_update(other)
    except Error:
        return
    if not isinstance(known, PreparedUpdate):
        return
    assert known.shape.bind(update) == known.values
    bound = known.shape.bind(other)
    if not isinstance(prepared, PreparedUpdate):
        assert bound is None
    elif bound is not None:
        fields = [(each, name) for each in update for name in update[each]]
        assert {(each, name) for each in other for name in other[each]} == set(fields)
        assert bound == [other[each][name] for each, name in fields]
        assert list(map(type, bound)) == list(map(type, known.values))
    else:
        assert prepared.shape is not known.shape


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"$set": {"a": 1}},
        {"$set": {"a": 1}, "$inc": {}},
        {"$set": {"a": 1}, "$inc": {"n": 1.0}},
        {"$set": {"a": True}, "$inc": {"n": 1}},
        {"$set": {"a": 1, "b": 1}, "$inc": {"n": 1}},
        {"$set": {"b": 1}, "$inc": {"n": 1}},
        {"$inc": {"a": 1}, "$set": {"n": 1}},
        {"$set": {"a": 1}, "$inc": {"n": 1}, "$push": {"b": 1}},
        {"$set": OrderedDict(a=1), "$inc": {"n": 1}},
        {"$set": [1], "$inc": {"n": 1}},
    ],
)
def test_an_update_of_another_shape_is_not_bound(other: dict[str, Any]) -> None:
    known = prepare_update({"$set": {"a": 5}, "$inc": {"n": 6}})
    assert isinstance(known, PreparedUpdate)
    assert known.shape.bind({"$inc": {"n": 8}, "$set": {"a": 7}}) == [7, 8]
    assert known.shape.bind(other) is None


def test_sets_and_increments_have_a_shape_together() -> None:
    update = {"$set": {"a": 1, "b": "x"}, "$inc": {"n": 2}, "$unset": {"c": ""}, "$push": {"list": 1}}
    prepared = prepare_update(update)
    assert not prepared.timed
    assert prepared.fields == frozenset(("a", "b", "n", "c", "list"))
    assert prepared.apply({"_id": 1, "c": 3, "n": 1}, now=NOW) == {"_id": 1, "n": 3, "a": 1, "b": "x", "list": [1]}


@pytest.mark.parametrize(
    "update", [{"$set": {"a": NOW}}, {"$set": {"a.b": 1}}, {"$mul": {"a": 2}}, {"$inc": {"a": Decimal(1)}}]
)
def test_other_updates_are_compiled(update: dict[str, Any]) -> None:
    assert prepare_update(update).timed


def test_the_same_field_twice_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(Error, match="a"):
            prepare_update({"$set": {"a": 1}, "$inc": {"a": 1}})


def test_names_are_data_and_never_code() -> None:
    name = "'] = 1; raise SystemExit #\\\n\""
    assert prepare_update({"$set": {name: 5}}).apply({}, now=NOW) == {name: 5}


def test_the_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "_MOST_SHAPES", 8)
    updates._shapes.clear()
    for number in range(50):
        prepare_update({"$set": {f"field {number}": 1}})
        assert len(updates._shapes) <= 8
