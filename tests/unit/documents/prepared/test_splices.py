"""A spliced document equals the encoding of the changed one, or there is none. Bytes of other fields never change."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.documents.prepared.bound import PreparedUpdate
from lowtide.documents.prepared.splices import FieldChange, splice_of
from lowtide.documents.prepared.updates import prepare_update
from lowtide.documents.updates import compile_update
from lowtide.values.codec import decode_document, encode_document
from tests.conftest import OpenStore

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ("a", "b", "aa", "\u00e9", "n" * 40)

texts = st.sampled_from(["", "a", "aa", "b", "\xa1a", "x" * 40, "\u00e9", "$a"])
numbers = st.integers(-(2**63), 2**64 - 1) | st.integers(0, 3) | st.floats(allow_nan=False) | st.booleans()
plain = numbers | texts | st.none() | st.sampled_from([b"", b"a", b"\xa1a\xa1a", b"\xa1a\x01"])
others = st.sampled_from([UUID(int=3), Decimal("1.5"), NOW, datetime(2030, 1, 1), 2**70, [1, "a"], {"a": "a"}, {}])
documents = st.dictionaries(st.sampled_from(NAMES), plain | others, min_size=1, max_size=5)


@st.composite
def updates_of(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """An update of some fields that a document has, or has not."""
    counters = [name for name, value in document.items() if type(value) in (int, float)]
    update: dict[str, dict[str, Any]] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)):
        operator = draw(st.sampled_from(["$set", "$inc"])) if name in counters else "$set"
        value = draw(plain if operator == "$set" else st.integers(-3, 3) | st.sampled_from([0.5, float("inf"), 2**63]))
        update.setdefault(operator, {})[name] = value
    return update


@given(st.data())
def test_a_spliced_document_is_the_changed_document_encoded(data: st.DataObject) -> None:
    document = {"_id": 7, **data.draw(documents)}
    update = data.draw(updates_of(document))
    changes = [FieldChange(each, name, type(update[each][name])) for each in update for name in update[each]]
    splice = splice_of(changes)
    prepared = prepare_update(update)
    if splice is None or not isinstance(prepared, PreparedUpdate):
        return
    stored = encode_document(document)
    spliced = splice(stored, prepared.values)
    if spliced is not None:
        changed = compile_update(update).apply(decode_document(stored), now=NOW)
        assert spliced == encode_document(changed)


@pytest.mark.parametrize("operator", ["$set", "$inc"])
def test_the_usual_document_is_spliced(operator: str) -> None:
    """Otherwise all else here would hold for a function that always gives up."""
    splice = splice_of([FieldChange(operator, "n", int)])
    assert splice is not None
    document = {"_id": 7, "n": 41, "text": "n", "list": [{"n": 1}], "id": UUID(int=3)}
    changed = {**document, "n": 42}
    assert splice(encode_document(document), [42 if operator == "$set" else 1]) == encode_document(changed)


@given(st.data())
def test_a_rewritten_document_is_the_changed_document_encoded(data: st.DataObject) -> None:
    """However long it is, and whatever its other values are."""
    document = {"_id": 7, **data.draw(documents), **data.draw(st.sampled_from([{}, {"long": "x" * 400}]))}
    update = data.draw(updates_of(document))
    prepared = prepare_update(update)
    if not isinstance(prepared, PreparedUpdate) or prepared.shape.rewrite is None:
        return
    stored = encode_document(document)
    rewritten = prepared.shape.rewrite(stored, prepared.values)
    if rewritten is not None:
        changed = compile_update(update).apply(decode_document(stored), now=NOW)
        assert rewritten == encode_document(changed)


@pytest.mark.parametrize(
    "update", [{"$unset": {"n": 1}}, {"$push": {"list": 5}}, {"$set": {"new": "x"}}, {"$inc": {"n": 2}}]
)
@pytest.mark.parametrize("size", [0, 400])
def test_the_usual_document_is_rewritten(update: dict[str, dict[str, Any]], size: int) -> None:
    prepared = prepare_update(update)
    assert isinstance(prepared, PreparedUpdate)
    assert prepared.shape.rewrite is not None
    others = {"text": "x" * size, "id": UUID(int=3), "at": NOW, "in": {"at": datetime(2030, 1, 1)}, "big": [2**70]}
    document = {"_id": 7, "n": 41, "list": [{"n": 1}], **others}
    changed = compile_update(update).apply(document, now=NOW)
    assert prepared.shape.rewrite(encode_document(document), prepared.values) == encode_document(changed)


def test_fields_that_a_document_lacks_are_added_in_the_order_of_the_update(open_store: OpenStore) -> None:
    """An update is recognized by its fields in any order, so this order must come from the update itself."""
    store = open_store()
    rows = store["rows"]
    rows.insert_many([{"_id": number} for number in range(8)])
    names = [("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c")]
    with store.transaction() as tx:
        for number, order in enumerate(names):
            tx["rows"].update_one({"_id": number}, {"$set": dict.fromkeys(order, 1)})
        for number, order in enumerate(names):
            tx["rows"].update_one({"_id": number + 4}, {"$inc": {order[0]: 1}, "$set": dict.fromkeys(order[1:], 1)})
    assert [tuple(rows.find_one({"_id": number}) or ())[1:] for number in range(3)] == names
    assert [tuple(rows.find_one({"_id": number + 4}) or ())[1:] for number in range(3)] == names


def test_bytes_that_look_like_the_field_elsewhere_are_left_alone() -> None:
    splice = splice_of([FieldChange("$inc", "n", int)])
    assert splice is not None
    places: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"x": {"n": 1}}, {}),
        ({"x": b"\xa1n\x01"}, {}),
        ({}, {"x": {"n": 1}}),
        ({"x": "n", "y": 1}, {}),
    ]
    for before, after in places:
        stored = encode_document({"_id": 7, **before, "n": 1, **after})
        assert splice(stored, [1]) in (None, encode_document({"_id": 7, **before, "n": 2, **after}))


def test_bytes_that_look_like_the_field_and_overlap_it_are_left_alone() -> None:
    """The name and value of ``a`` are the bytes of "a" twice, and the value of ``b`` before it is "a" as well."""
    splice = splice_of([FieldChange("$set", "a", str)])
    assert splice is not None
    assert splice(encode_document({"_id": 7, "b": "a", "a": "a"}), ["b"]) is None
    assert splice(encode_document({"_id": 7, "a": "a", "b": "a"}), ["b"]) is not None


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (FieldChange("$set", "n", str), "\ud800"),
        (FieldChange("$set", "n", int), 2**64),
        (FieldChange("$inc", "n", int), 2**64 - 1),
        (FieldChange("$inc", "n", float), 1.0),
        (FieldChange("$inc", "f", float), float("-inf")),
        (FieldChange("$set", "missing", int), 1),
        (FieldChange("$set", "n", bytes), bytes(16 << 20)),
    ],
)
def test_what_needs_a_check_is_left_to_the_decoded_document(change: FieldChange, value: Any) -> None:
    splice = splice_of([change])
    assert splice is not None
    assert splice(encode_document({"_id": 7, "n": 1, "f": float("inf")}), [value]) is None


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [FieldChange("$unset", "a", int)],
        [FieldChange("$push", "a", int)],
        [FieldChange("$set", "a", UUID)],
        [FieldChange("$set", 'a"b', int)],
        [FieldChange("$set", f"f{number}", int) for number in range(9)],
    ],
)
def test_other_changes_have_no_splice(changes: list[FieldChange]) -> None:
    assert splice_of(changes) is None


def test_an_update_tells_whether_something_has_changed(open_store: OpenStore) -> None:
    """As with a decoded document: one that is the same afterwards is not written."""
    rows = open_store()["rows"]
    rows.insert_many([{"_id": number, "n": number, "text": "x" * 40} for number in range(3)])
    filters: list[dict[str, Any]] = [{"_id": 1}, {"n": 1}, {"_id": {"$in": [0, 1]}}]
    for where in filters:
        assert rows.update_one(where, {"$set": {"text": "x" * 40}}).modified_count == 0
    assert rows.update_many({"_id": {"$in": [0, 1]}}, {"$set": {"text": "y" * 40}}).modified_count == 2
    assert rows.find_one_and_update({"_id": 2}, {"$inc": {"n": 5}}) == {"_id": 2, "n": 2, "text": "x" * 40}
    assert rows.find().to_list() == [
        {"_id": 0, "n": 0, "text": "y" * 40},
        {"_id": 1, "n": 1, "text": "y" * 40},
        {"_id": 2, "n": 7, "text": "x" * 40},
    ]


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_a_document_with_objects_and_arrays_is_changed_as_any_other(
    indexed: bool, many: bool, open_store: OpenStore
) -> None:
    orders = open_store()["orders"]
    if indexed:
        orders.create_index([("state", 1), ("at", 1)])
    lines = [{"item": "state", "price": Decimal("1.5"), "at": NOW}, {"item": 2**70}]
    order = {"_id": 1, "state": "new", "at": 3, "lines": lines, "to": {"state": "new", "at": 3}}
    orders.insert_many([order, order | {"_id": 2, "state": "old"}])
    change, expected = {"$set": {"state": "sent"}, "$inc": {"at": 4}}, order | {"state": "sent", "at": 7}
    if many:
        orders.update_many({"state": "new"}, change)
    else:
        assert orders.find_one_and_update({"state": "new"}, change, return_document=True) == expected
    assert orders.find_one({"_id": 1}) == expected
    assert [each["_id"] for each in orders.find({"state": "sent", "at": 7})] == [1]
    assert orders.find_one({"state": "new"}) is None
