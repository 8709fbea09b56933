"""Laws that filters obey, for every filter and every document."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from lowtide.documents.filters import compile_filter
from lowtide.values.paths import values_at
from lowtide.values.values import Document
from tests.unit.values.strategies import documents, fields, filters, operators, paths, values


def _matches(filter: dict[str, Any], document: Document) -> bool:
    return compile_filter(filter).matches(document)


@given(paths, operators, documents)
def test_not_is_the_negation(path: str, asked: dict[str, Any], document: Document) -> None:
    assert _matches({path: {"$not": asked}}, document) is not _matches({path: asked}, document)


@given(paths, st.lists(values, max_size=3), documents)
def test_nin_is_the_negation_of_in_and_in_is_one_of_several_equalities(
    path: str, wanted: list[Any], document: Document
) -> None:
    found = _matches({path: {"$in": wanted}}, document)
    assert _matches({path: {"$nin": wanted}}, document) is not found
    assert found is any(_matches({path: {"$eq": each}}, document) for each in wanted)


@given(paths, values, documents)
def test_ne_is_the_negation_of_eq_and_eq_is_what_a_value_by_itself_says(
    path: str, wanted: Any, document: Document
) -> None:
    found = _matches({path: {"$eq": wanted}}, document)
    assert _matches({path: {"$ne": wanted}}, document) is not found
    assert _matches({path: wanted}, document) is found


@given(paths, values, documents)
def test_a_bound_with_equality_is_the_bound_or_equality(path: str, bound: Any, document: Document) -> None:
    for strict, loose in (("$gt", "$gte"), ("$lt", "$lte")):
        wanted = _matches({path: {strict: bound}}, document) or _matches({path: bound}, document)
        assert _matches({path: {loose: bound}}, document) is wanted


@given(st.lists(filters, min_size=1, max_size=3), documents)
def test_and_or_nor_join_what_their_branches_say(branches: list[dict[str, Any]], document: Document) -> None:
    found = [_matches(each, document) for each in branches]
    assert _matches({"$and": branches}, document) is all(found)
    assert _matches({"$or": branches}, document) is any(found)
    assert _matches({"$nor": branches}, document) is not any(found)


@given(fields, documents)
def test_fields_are_joined_by_and(asked: dict[str, Any], document: Document) -> None:
    assert _matches(asked, document) is all(_matches({path: each}, document) for path, each in asked.items())


@given(filters, documents)
def test_a_position_is_told_of_documents_that_match_only(filter: dict[str, Any], document: Document) -> None:
    compiled = compile_filter(filter)
    position = compiled.position(document)
    assert position is None or (compiled.matches(document) and position >= 0)


@given(values, st.lists(values, min_size=1, max_size=4))
def test_the_position_of_a_value_is_that_of_the_first_element_with_it(wanted: Any, array: list[Any]) -> None:
    element = [_matches({"a": {"$elemMatch": {"$eq": wanted}}}, {"a": [each]}) for each in array]
    position = compile_filter({"a": wanted}).position({"a": array})
    assert position == (element.index(True) if any(element) else None)


@given(documents, paths)
def test_a_document_matches_each_of_its_values(document: Document, path: str) -> None:
    for value in values_at(document, path):
        assert _matches({path: None if type(value).__name__ == "_Missing" else value}, document)
