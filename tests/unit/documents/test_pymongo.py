"""Methods and arguments are PyMongo's: what PyMongo users know works, and no name means something else."""

from __future__ import annotations

import inspect
from typing import Any

import bson
import pymongo
import pytest

import lowtide
from lowtide.documents.cursor import Cursor
from lowtide.documents.results import (
    BulkWriteResult,
    DeleteResult,
    InsertManyResult,
    InsertOneResult,
    ReturnDocument,
    UpdateResult,
)

KEYWORDS = {
    "find_one": lambda: _parameters(pymongo.synchronous.cursor.Cursor.__init__) - {"collection"},
    "find": lambda: _parameters(pymongo.synchronous.cursor.Cursor.__init__) - {"collection"},
    "count_documents": lambda: {"skip", "limit", "hint", "collation", "maxTimeMS"},
    "create_index": lambda: {"name", "unique", "sparse", "partialFilterExpression", "background"},
    "rename": lambda: {"dropTarget"},
}
"""What PyMongo takes as ``**kwargs``, by its documentation."""

ADDED = {"delete_one": {"sort"}, "create_index": {"progress"}}
"""Arguments that PyMongo does not have."""
OWN = {"keyspaces", "schema", "set_schema", "to_arrow", "to_pandas", "to_polars", "watch"}
"""Methods that PyMongo does not have, or has in another form."""


def _signature(function: Any) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(function).parameters)
    found.pop("self", None)
    return {name: each for name, each in found.items() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)}


def _parameters(function: Any) -> set[str]:
    return set(_signature(function))


def _methods(kind: type) -> list[str]:
    return sorted(name for name, each in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_"))


def _check(name: str, ours: Any, theirs: Any) -> None:
    mine, known = _signature(ours), _signature(theirs)
    extra = KEYWORDS.get(name, set)()
    assert set(mine) - ADDED.get(name, set()) <= set(known) | extra
    for each in set(mine) & set(known):
        first, second = mine[each].default, known[each].default
        if isinstance(first, ReturnDocument):
            first = first.value
        assert first == second or (first, second) == (False, None), f"{name}({each}=)"
    positional = [each for each, found in mine.items() if found.kind is not found.KEYWORD_ONLY]
    if name not in ("find", "find_one"):  # which pass on whatever a cursor takes
        assert positional == list(known)[: len(positional)], "what is given by position means the same"


@pytest.mark.parametrize("name", [each for each in _methods(lowtide.Collection) if each not in OWN])
def test_a_method_of_a_collection_is_pymongos(name: str) -> None:
    _check(name, getattr(lowtide.Collection, name), getattr(pymongo.collection.Collection, name))


def test_find_takes_by_position_what_a_cursor_of_pymongo_does() -> None:
    known = list(_signature(pymongo.synchronous.cursor.Cursor.__init__))[1:]
    mine = [name for name, each in _signature(lowtide.Collection.find).items() if each.kind is not each.KEYWORD_ONLY]
    assert mine == known[: len(mine)] == ["filter", "projection", "skip", "limit"]


@pytest.mark.parametrize("name", _methods(Cursor))
def test_a_method_of_a_cursor_is_pymongos(name: str) -> None:
    _check(name, getattr(Cursor, name), getattr(pymongo.cursor.Cursor, name))


@pytest.mark.parametrize("name", ["InsertOne", "UpdateOne", "UpdateMany", "ReplaceOne", "DeleteOne", "DeleteMany"])
def test_an_operation_is_pymongos(name: str) -> None:
    _check(name, getattr(lowtide, name), getattr(pymongo, name))


@pytest.mark.parametrize("kind", [InsertOneResult, InsertManyResult, UpdateResult, DeleteResult, BulkWriteResult])
def test_a_result_has_pymongos_attributes(kind: Any) -> None:
    theirs = getattr(pymongo.results, kind.__name__)
    known = {name for name in dir(theirs) if not name.startswith("_")} - {"raw_result", "bulk_api_result"}
    assert known <= {*dir(kind), *kind.__annotations__}


@pytest.mark.parametrize(
    "name", ["InvalidDocument", "OperationFailure", "WriteError", "DuplicateKeyError", "BulkWriteError"]
)
def test_an_error_is_named_as_pymongos_and_lies_below_the_same(name: str) -> None:
    source = pymongo.errors if hasattr(pymongo.errors, name) else bson.errors
    ours, theirs = getattr(lowtide, name), getattr(source, name)
    for parent in theirs.__mro__[1:]:
        if hasattr(lowtide, parent.__name__):
            assert issubclass(ours, getattr(lowtide, parent.__name__))


def test_constants_are_the_same() -> None:
    assert (lowtide.ASCENDING, lowtide.DESCENDING) == (pymongo.ASCENDING, pymongo.DESCENDING)
    assert lowtide.ReturnDocument.BEFORE.value == pymongo.ReturnDocument.BEFORE
    assert lowtide.ReturnDocument.AFTER.value == pymongo.ReturnDocument.AFTER
