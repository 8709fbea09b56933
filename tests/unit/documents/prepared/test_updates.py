"""A prepared update does what the compiled one does, for documents with any values, or raises the same error."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.documents.prepared import updates
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
