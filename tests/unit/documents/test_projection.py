"""Projections: what is returned of a document, by inclusion, exclusion and operators on arrays."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.documents.projection import compile_projection
from lowtide.errors import OperationFailure
from lowtide.values.codec import decode_document, encode_document
from lowtide.values.values import Document
from tests.unit.values.strategies import documents, paths

WHOLE = {
    "_id": 1,
    "name": "A",
    "address": {"city": "B", "zip": 5, "geo": {"x": 1, "y": 2}},
    "tags": ["p", "q", "r", "s"],
    "items": [{"sku": 1, "n": 2, "l": [1, 2]}, 7, {"sku": 2}, [{"sku": 3, "n": 4}, 8]],
}


def _only(*names: str, **changed: Any) -> Document:
    """The document with these fields only, and some of them changed."""
    return {name: changed.get(name, value) for name, value in WHOLE.items() if name in names or name in changed}


def _without(*names: str, **changed: Any) -> Document:
    return {name: changed.get(name, value) for name, value in WHOLE.items() if name not in names}


CASES: list[tuple[Any, Document]] = [
    ({"name": 1}, _only("_id", "name")),
    ({"name": True, "_id": False}, _only("name")),
    ({"tags": 1, "name": 2.5}, _only("_id", "name", "tags")),
    ({"name": 1, "_id": 1}, _only("_id", "name")),
    ({"_id": 1}, _only("_id")),
    ({"_id": 0}, _without("_id")),
    ({"other": 1}, _only("_id")),
    (["name", "tags"], _only("_id", "name", "tags")),
    (("name",), _only("_id", "name")),
    (["_id"], _only("_id")),
    ({"name": 0}, _without("name")),
    ({"name": 0, "_id": 0}, _without("name", "_id")),
    ({"name": 0, "_id": 1}, _without("name")),
    ({"other": 0}, WHOLE),
    ({"address.city": 1}, _only("_id", address={"city": "B"})),
    ({"address.city": 1, "address.geo.x": 1}, _only("_id", address={"city": "B", "geo": {"x": 1}})),
    ({"address": {"city": 1, "geo": {"x": 1}}}, _only("_id", address={"city": "B", "geo": {"x": 1}})),
    ({"address.other": 1}, _only("_id", address={})),
    ({"name.other": 1}, _only("_id")),
    ({"address.geo": 0, "address.zip": 0}, _without(address={"city": "B"})),
    ({"address": {"geo": {"x": 0}}}, _without(address={"city": "B", "zip": 5, "geo": {"y": 2}})),
    ({"name.other": 0}, WHOLE),
    ({"items.sku": 1}, _only("_id", items=[{"sku": 1}, {"sku": 2}, [{"sku": 3}]])),
    ({"items.0": 1}, _only("_id", items=[{}, {}, [{}]])),
    ({"items.sku": 0}, _without(items=[{"n": 2, "l": [1, 2]}, 7, {}, [{"n": 4}, 8]])),
    ({"tags.x": 1}, _only("_id", tags=[])),
    ({"tags": {"$slice": 2}}, _without(tags=["p", "q"])),
    ({"tags": {"$slice": -1}}, _without(tags=["s"])),
    ({"tags": {"$slice": -9}}, WHOLE),
    ({"tags": {"$slice": 0}}, _without(tags=[])),
    ({"tags": {"$slice": [1, 2]}}, _without(tags=["q", "r"])),
    ({"tags": {"$slice": [-3, 2]}}, _without(tags=["q", "r"])),
    ({"tags": {"$slice": [-9, 1]}}, _without(tags=["p"])),
    ({"tags": {"$slice": [9, 1]}}, _without(tags=[])),
    ({"tags": {"$slice": 1}, "name": 1}, _only("_id", "name", tags=["p"])),
    ({"tags": {"$slice": 1}, "name": 0}, _without("name", tags=["p"])),
    ({"tags": {"$slice": 1}, "_id": 0}, _without("_id", tags=["p"])),
    ({"name": {"$slice": 1}}, WHOLE),
    ({"other": {"$slice": 1}}, WHOLE),
    ({"items.l": {"$slice": 1}, "name": 1}, _only("_id", "name", items=[{"l": [1]}, {}, [{}]])),
    ({"tags": {"$elemMatch": {"$gt": "p"}}}, _only("_id", tags=["q"])),
    ({"tags": {"$elemMatch": {"$gt": "z"}}}, _only("_id")),
    ({"items": {"$elemMatch": {"sku": 2}}, "name": 1}, _only("_id", "name", items=[{"sku": 2}])),
    ({"items": {"$elemMatch": {"sku": 2}}, "name": 0}, _without("name", items=[{"sku": 2}])),
    ({"name": {"$elemMatch": {"$eq": "A"}}}, _only("_id")),
]


@pytest.mark.parametrize(("projection", "wanted"), CASES, ids=lambda value: repr(value)[:60])
def test_a_projection_returns_this_of_a_document(projection: Any, wanted: Document) -> None:
    project = compile_projection(projection)
    assert project is not None
    before = deepcopy(WHOLE)
    found = project(WHOLE)
    assert found == wanted
    assert list(found) == list(wanted), "in the order of the document"
    assert before == WHOLE, "the document stays as it is"
    decoded = project.decode(encode_document(WHOLE))
    assert decoded == wanted
    assert list(decoded) == list(wanted)


@pytest.mark.parametrize("projection", [None, {}, []])
def test_no_projection_returns_documents_whole(projection: Any) -> None:
    assert compile_projection(projection) is None


@pytest.mark.parametrize(
    ("filter", "projection", "document", "wanted"),
    [
        ({"a": {"$gt": 1}}, {"a.$": 1}, {"_id": 1, "a": [1, 5, 9], "b": 2}, {"_id": 1, "a": [5]}),
        ({"a.x": 2}, {"a.$": 1, "b": 1}, {"_id": 1, "a": [{"x": 1}, {"x": 2}], "b": 2}, None),
        ({"o.a": 5}, {"o.a.$": 1}, {"_id": 1, "o": {"a": [1, 5], "c": 1}}, {"_id": 1, "o": {"a": [5]}}),
    ],
)
def test_the_positional_element_is_the_one_that_the_filter_found(
    filter: Any, projection: Any, document: Document, wanted: Document | None
) -> None:
    project = compile_projection(projection, filter)
    assert project is not None
    before = deepcopy(document)
    assert project(document) == (wanted or {"_id": 1, "a": [{"x": 2}], "b": 2})
    assert document == before


def test_a_positional_element_that_no_array_gave_is_an_error() -> None:
    project = compile_projection({"a.$": 1}, {"b": 1})
    assert project is not None
    with pytest.raises(OperationFailure, match=r"'a\.\$'"):
        project({"a": [1], "b": 1})


@pytest.mark.parametrize(
    ("projection", "message"),
    [
        ({"a": 1, "b": 0}, "includes 'a' and excludes 'b'"),
        ({"a": 0, "b.c": 1}, "includes 'b.c' and excludes 'a'"),
        ({"a": {"b": 1, "c": 0}}, "includes 'a.b' and excludes 'a.c'"),
        ({"a.$": 1, "b": 0}, "includes 'a' and excludes 'b'"),
        ({"a": 1, "a.b": 1}, "'a.b' and a path above or below"),
        ({"a.b": 1, "a": 1}, "'a' and a path above or below"),
        ({"a.b": 1, "a": {"b": 1}}, "'a.b' and a path above or below"),
        ({"_id": 0, "_id.x": 1}, "'_id.x' and a path above or below"),
        ({"_id.x": 1, "_id": 1}, "'_id' and a path inside it"),
        ({"a": "x"}, "'a' must be 1, 0,"),
        ({"a": "$b"}, "'a' must be 1, 0,"),
        ({"a": None}, "'a' must be 1, 0,"),
        ({"a": [1]}, "'a' must be 1, 0,"),
        ({"a": {}}, "'a' must be one operator"),
        ({"a": {"$slice": 1, "b": 1}}, "'a' must be one operator"),
        ({"a": {"$meta": "textScore"}}, "$meta in the projection of 'a'"),
        ({"a": {"$slice": "1"}}, "$slice in the projection of 'a'"),
        ({"a": {"$slice": [1]}}, "$slice in the projection of 'a'"),
        ({"a": {"$slice": [1, 0]}}, "$slice in the projection of 'a'"),
        ({"a": {"$slice": [1, -1]}}, "$slice in the projection of 'a'"),
        ({"a": {"$slice": True}}, "$slice in the projection of 'a'"),
        ({"a": {"$slice": float("inf")}}, "$slice in the projection of 'a'"),
        ({"a": {"$elemMatch": 1}}, "$elemMatch at 'a'"),
        ({"a.b": {"$elemMatch": {"c": 1}}}, "$elemMatch in the projection of 'a.b'"),
        ({"a.$": 1}, "requires a filter"),
        ({"a.$": 0}, "'a.$' must be 1"),
        ({"a.$": 1, "b.$": 1}, "one is allowed"),
        ({"a.$.b": 1}, "'a.$.b'"),
        ({"$a": 1}, "'$a'"),
        ({"": 1}, "''"),
        ({"a..b": 1}, "'a..b'"),
        ({1: 1}, "must be strings"),
        ([1], "must contain field names"),
        ([["a"]], "must contain field names"),
        ("name", "a dict or a list"),
        (5, "a dict or a list"),
    ],
    ids=repr,
)
def test_other_projections_are_refused(projection: Any, message: str) -> None:
    with pytest.raises(OperationFailure) as caught:
        compile_projection(projection)
    assert message in str(caught.value)


@given(documents, st.dictionaries(paths, st.booleans(), min_size=1, max_size=3))
def test_decoding_and_projecting_is_the_same_in_one_step_and_in_two(
    document: Document, wanted: dict[str, bool]
) -> None:
    try:
        project = compile_projection(wanted)
    except OperationFailure:
        return  # it includes and excludes, or names a path twice
    assert project is not None
    whole = encode_document(document)
    found = project.decode(whole)
    assert found == project(decode_document(whole))
    assert list(found) == list(project(decode_document(whole)))
    if project.fields is not None:
        assert found.keys() <= project.fields


def test_a_projection_is_compiled_once_for_its_fields() -> None:
    assert compile_projection({"a": 1}) is compile_projection({"a": True})
    assert compile_projection(["a"]) is compile_projection(["a"])
    assert compile_projection({"a": 1}) is not compile_projection({"a": 0})
    assert compile_projection({"a": 1, "b": 0, "_id": 0} | {"b": 1}) is not compile_projection({"a": 1, "_id": 0})


def test_a_projection_with_an_operator_or_a_position_is_compiled_each_time() -> None:
    operators: list[Any] = [{"a": {"$slice": 1}}, {"a": {"b": 1}}]
    for projection in operators:
        assert compile_projection(projection) is not compile_projection(projection)
    first, second = (compile_projection({"a.$": 1}, {"a": wanted}) for wanted in (1, 2))
    assert first is not None
    assert second is not None
    assert (first({"a": [1, 2]}), second({"a": [1, 2]})) == ({"a": [1]}, {"a": [2]})


@given(documents, st.sets(paths, min_size=1, max_size=1))
def test_what_is_excluded_and_what_is_included_make_up_the_fields(document: Document, named: set[str]) -> None:
    included, excluded = compile_projection(dict.fromkeys(named, 1)), compile_projection(dict.fromkeys(named, 0))
    assert included is not None
    assert excluded is not None
    assert included(document).keys() | excluded(document).keys() == document.keys()
    assert included(included(document)) == included(document)
    assert excluded(excluded(document)) == excluded(document)
