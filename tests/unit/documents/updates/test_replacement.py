"""Replacing a whole document with another."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.documents.updates import compile_replacement
from lowtide.errors import InvalidDocument, OperationFailure, WriteError
from tests.unit.documents.updates.updating import NOW, exact

CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"_id": 1, "a": 1}, {"b": 2}, {"_id": 1, "b": 2}),
    ({"_id": 1, "a": 1}, {}, {"_id": 1}),
    ({"_id": 1, "a": 1}, {"b": 2, "_id": 1}, {"_id": 1, "b": 2}),
    ({"_id": 1, "a": 1}, {"b": 2, "_id": 1.0}, {"_id": 1, "b": 2}),
    ({"_id": 1, "a": 1, "b": 2}, {"b": 2, "a": 1}, {"_id": 1, "b": 2, "a": 1}),
    ({"_id": 1, "a": 1}, {"a": 1.0}, {"_id": 1, "a": 1.0}),
    ({}, {"b": (2,), "_id": 5}, {"_id": 5, "b": [2]}),
    ({"x": 5}, {"b": 2}, {"b": 2}),
]


@pytest.mark.parametrize(("document", "replacement", "expected"), CASES)
def test_a_replacement_keeps_the_id_and_nothing_else(
    document: dict[str, Any], replacement: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = exact(document)
    assert exact(compile_replacement(replacement).apply(document, now=NOW)) == exact(expected)
    assert exact(document) == before


def test_a_replacement_by_the_same_changes_nothing() -> None:
    document = {"_id": 1, "a": {"b": [1]}}
    assert compile_replacement({"a": {"b": [1]}}).apply(document, now=NOW) is document


def test_a_replacement_is_never_shared_with_a_document() -> None:
    given = {"a": [1]}
    compiled = compile_replacement(given)
    given["a"].append(2)
    compiled.apply({"_id": 1}, now=NOW)["a"].append(3)
    assert compiled.apply({"_id": 1}, now=NOW) == {"_id": 1, "a": [1]}


def test_another_id_is_refused() -> None:
    with pytest.raises(WriteError, match=r"cannot be changed to 2.*_id 1"):
        compile_replacement({"_id": 2}).apply({"_id": 1}, now=NOW)


@pytest.mark.parametrize("replacement", [{"$set": {"a": 1}}, {"a": 1, "$inc": {"b": 1}}, 5, None, [{"a": 1}]])
def test_what_is_no_document_is_no_replacement(replacement: Any) -> None:
    with pytest.raises(OperationFailure, match="replacement"):
        compile_replacement(replacement)


def test_what_cannot_be_stored_is_refused_with_its_path() -> None:
    with pytest.raises(InvalidDocument, match=r"'a\.b'"):
        compile_replacement({"a": {"b": float("nan")}})
