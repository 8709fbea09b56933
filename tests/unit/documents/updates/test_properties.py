"""What holds for every document: inverses undo, some updates are idempotent, and the input is not changed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lowtide.documents.updates import compile_update
from lowtide.errors import WriteError
from lowtide.values.codec import decode_document, encode_document
from lowtide.values.values import Document, equal
from tests.unit.documents.updates.updating import NOW, exact, updated

NAMES = st.sampled_from(["a", "b", "c", "0", "1"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats(allow_nan=False)
    | st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-1000, max_value=1000)
    | st.text(max_size=3)
    | st.datetimes().map(lambda moment: moment.replace(fold=0))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4).map(lambda fields: {"_id": 1, **fields})
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
ANY_PATHS = st.tuples(NAMES, st.lists(NAMES | st.just("$[]"), max_size=2)).map(
    lambda parts: ".".join((parts[0], *parts[1]))
)
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["$set", "$min", "$max", "$push", "$addToSet", "$setOnInsert", "$unset"]), VALUES),
    st.tuples(st.sampled_from(["$inc", "$mul"]), st.integers(-5, 5) | st.floats(-5, 5)),
    st.tuples(st.just("$pop"), st.sampled_from([1, -1])),
    st.tuples(st.just("$pullAll"), st.lists(SCALARS, max_size=3)),
    st.tuples(st.just("$pull"), SCALARS),
    st.tuples(st.just("$rename"), st.sampled_from(["d", "d.e", "d.e.f"])),
    st.tuples(st.just("$currentDate"), st.just(True)),
    st.tuples(
        st.just("$push"),
        st.fixed_dictionaries(
            {"$each": st.lists(VALUES, max_size=2)},
            optional={"$slice": st.integers(-3, 3), "$sort": st.sampled_from([1, -1]), "$position": st.integers(-3, 3)},
        ),
    ),
)
REPEATABLE = ("$set", "$unset", "$min", "$max", "$addToSet", "$pull", "$pullAll", "$currentDate")


def attempted(document: Document, update: dict[str, Any], **given: Any) -> Document | None:
    """None if the document does not fit; ``updated`` sees to it that the input stays as it is, then and otherwise."""
    before = exact(document)
    try:
        return updated(document, update, **given)
    except WriteError:
        assert exact(document) == before
        return None


@given(DOCUMENTS, ANY_PATHS, OPERATIONS, st.booleans())
def test_no_update_changes_the_given_document_and_every_result_can_be_stored(
    document: Document, path: str, operation: tuple[str, Any], inserting: bool
) -> None:
    operator, operand = operation
    if operator == "$rename":
        path = path.replace("$[]", "a")
    after = attempted(document, {operator: {path: operand}}, inserting=inserting)
    if after is not None:
        assert exact(decode_document(encode_document(after))) == exact(after)


@given(DOCUMENTS, ANY_PATHS, OPERATIONS.filter(lambda operation: operation[0] in REPEATABLE))
def test_an_update_that_says_what_shall_be_need_not_be_repeated(
    document: Document, path: str, operation: tuple[str, Any]
) -> None:
    update = {operation[0]: {path: operation[1]}}
    once = attempted(document, update)
    if once is not None:
        assert updated(once, update) is once


@given(DOCUMENTS, PATHS, st.integers())
def test_inc_and_its_opposite_undo_each_other(document: Document, path: str, amount: int) -> None:
    present = attempted(document, {"$set": {path: 5}})
    if present is not None:
        there = updated(present, {"$inc": {path: amount}})
        assert exact(updated(there, {"$inc": {path: -amount}})) == exact(present)


@given(DOCUMENTS, NAMES, st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-99, max_value=99))
def test_decimals_are_added_without_loss(document: Document, name: str, amount: Any) -> None:
    present = updated(document, {"$set": {name: 0.1}})
    there = updated(present, {"$inc": {name: amount}})
    back = updated(there, {"$inc": {name: -amount}})
    assert str(back[name].normalize()) == "0.1"


@given(DOCUMENTS, st.lists(NAMES, max_size=2), VALUES)
def test_unset_undoes_the_set_of_a_new_field(document: Document, parents: list[str], value: Any) -> None:
    path = ".".join([*parents, "new"])
    inside = attempted(document, {"$set": {".".join([*parents, "other"]): 0}}) if parents else document
    if inside is not None:
        there = updated(inside, {"$set": {path: value}})
        assert exact(updated(there, {"$unset": {path: ""}})) == exact(inside)


@given(DOCUMENTS, NAMES, VALUES)
def test_set_undoes_a_set(document: Document, name: str, value: Any) -> None:
    before = updated(document, {"$set": {name: 7}})
    assert exact(updated(updated(before, {"$set": {name: value}}), {"$set": {name: 7}})) == exact(before)


@given(DOCUMENTS, PATHS, st.lists(VALUES, max_size=3), VALUES, st.booleans())
def test_pop_undoes_a_push(document: Document, path: str, array: list[Any], value: Any, first: bool) -> None:
    present = attempted(document, {"$set": {path: array}})
    if present is not None:
        push = {"$each": [value], "$position": 0} if first else {"$each": [value]}
        there = updated(present, {"$push": {path: push}})
        assert exact(updated(there, {"$pop": {path: -1 if first else 1}})) == exact(present)


@given(DOCUMENTS, NAMES)
def test_renaming_back_undoes_a_rename(document: Document, name: str) -> None:
    there = updated(document, {"$rename": {name: "new.name"}})
    back = updated(updated(there, {"$rename": {"new.name": name}}), {"$unset": {"new": ""}})
    assert {each: exact(value) for each, value in back.items()} == {
        each: exact(value) for each, value in document.items()
    }


@given(DOCUMENTS, NAMES, VALUES)
def test_min_and_max_hold_the_value_between_them(document: Document, name: str, value: Any) -> None:
    held = updated(updated(document, {"$min": {name: value}}), {"$max": {name: value}})
    assert equal(held[name], value)


@given(DOCUMENTS, st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=4, unique_by=lambda each: each[0]))
def test_fields_set_at_once_or_one_by_one_are_the_same(document: Document, fields: list[tuple[str, Any]]) -> None:
    one_by_one = document
    for name, value in fields:
        one_by_one = updated(one_by_one, {"$set": {name: value}})
    at_once = compile_update({"$set": dict(fields)}).apply(document, now=NOW)
    assert exact(at_once) == exact(one_by_one)
