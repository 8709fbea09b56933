"""Parts of a path that stand for elements: ``$``, ``$[]`` and ``$[name]``."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.documents.updates import compile_update
from lowtide.errors import OperationFailure, WriteError
from tests.unit.documents.updates.updating import NOW, exact, updated

PLACED: list[tuple[dict[str, Any], int, dict[str, Any], dict[str, Any]]] = [
    ({"a": [1, 2, 3]}, 1, {"$set": {"a.$": 9}}, {"a": [1, 9, 3]}),
    ({"a": [{"n": 1}, {"n": 2}]}, 0, {"$inc": {"a.$.n": 5}}, {"a": [{"n": 6}, {"n": 2}]}),
    ({"a": [1, 2]}, 1, {"$unset": {"a.$": ""}}, {"a": [1, None]}),
    ({"a": [[1, 2], [3]]}, 1, {"$push": {"a.$": 4}}, {"a": [[1, 2], [3, 4]]}),
    ({"a": {"b": [1, 2]}}, 0, {"$set": {"a.b.$": 9}}, {"a": {"b": [9, 2]}}),
    ({"a": [{"n": 1, "m": 1}]}, 0, {"$inc": {"a.$.n": 1, "a.$.m": 2, "a.0.k": 3}}, {"a": [{"n": 2, "m": 3, "k": 3}]}),
    ({"a": [{"b": [1, 2]}, {"b": [3]}]}, 1, {"$inc": {"a.$.b.$[]": 1}}, {"a": [{"b": [1, 2]}, {"b": [4]}]}),
    ({"a": [1, 2], "b": [3, 4]}, 1, {"$set": {"a.$": 0, "b.$": 0}}, {"a": [1, 0], "b": [3, 0]}),
]


@pytest.mark.parametrize(("document", "position", "update", "expected"), PLACED)
def test_the_dollar_stands_for_the_element_that_the_filter_found(
    document: dict[str, Any], position: int, update: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert compile_update(update).positional
    assert exact(updated(document, update, position=position)) == exact(expected)


EVERY: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"a": [1, 2.5]}, {"$inc": {"a.$[]": 1}}, {"a": [2, 3.5]}),
    ({"a": []}, {"$inc": {"a.$[]": 1}}, {"a": []}),
    ({"a": [1, None]}, {"$unset": {"a.$[]": ""}}, {"a": [None, None]}),
    ({"a": [{"n": 1}, {}]}, {"$set": {"a.$[].n": 1}}, {"a": [{"n": 1}, {"n": 1}]}),
    ({"a": [{"n": 1}, {}]}, {"$unset": {"a.$[].n": 1}}, {"a": [{}, {}]}),
    ({"a": [[1, 2], [3]]}, {"$mul": {"a.$[].$[]": 2}}, {"a": [[2, 4], [6]]}),
    ({"a": [[1, 2], [3]]}, {"$push": {"a.$[]": 0}}, {"a": [[1, 2, 0], [3, 0]]}),
    ({"a": [{"b": [{"c": 1}]}, {"b": []}]}, {"$inc": {"a.$[].b.$[].c": 1}}, {"a": [{"b": [{"c": 2}]}, {"b": []}]}),
    ({"a": [{"n": 1}]}, {"$set": {"a.$[].n": 2}, "$inc": {"a.$[].m": 1}}, {"a": [{"n": 2, "m": 1}]}),
    ({"a": [[1]]}, {"$set": {"a.$[].2": 5}}, {"a": [[1, None, 5]]}),
    ({"a": [5, 5]}, {"$set": {"a.$[]": 5}}, {"a": [5, 5]}),
]


@pytest.mark.parametrize(("document", "update", "expected"), EVERY)
def test_empty_brackets_stand_for_every_element(
    document: dict[str, Any], update: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert not compile_update(update).positional
    assert exact(updated(document, update)) == exact(expected)


CHOSEN: list[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = [
    ({"a": [1, 5, 9]}, {"$set": {"a.$[e]": 0}}, [{"e": {"$gte": 5}}], {"a": [1, 0, 0]}),
    ({"a": [1, 5]}, {"$set": {"a.$[e]": 0}}, [{"e": 7}], {"a": [1, 5]}),
    ({"a": []}, {"$set": {"a.$[e]": 0}}, [{"e": 7}], {"a": []}),
    ({"a": [{"n": 1}, {"n": 2}, 3]}, {"$set": {"a.$[e].m": 0}}, [{"e.n": 2}], {"a": [{"n": 1}, {"n": 2, "m": 0}, 3]}),
    ({"a": [1, None]}, {"$set": {"a.$[e]": 0}}, [{"e": None}], {"a": [1, 0]}),
    (
        {"a": [{"n": 1, "m": 1}, {"n": 1, "m": 2}]},
        {"$set": {"a.$[e].m": 0}},
        [{"e.n": 1, "e.m": {"$gt": 1}}],
        {"a": [{"n": 1, "m": 1}, {"n": 1, "m": 0}]},
    ),
    ({"a": [1, 2, 3]}, {"$inc": {"a.$[e]": 10}}, [{"$or": [{"e": 1}, {"e": 3}]}], {"a": [11, 2, 13]}),
    (
        {"a": [{"k": 1, "b": [1, 5]}, {"k": 2, "b": [1, 5]}]},
        {"$set": {"a.$[x].b.$[y]": 0}},
        [{"x.k": 2}, {"y": {"$lt": 3}}],
        {"a": [{"k": 1, "b": [1, 5]}, {"k": 2, "b": [0, 5]}]},
    ),
    (
        {"a": [1, 5], "b": [1, 5]},
        {"$set": {"a.$[e]": 0, "b.$[e]": 9}},
        [{"e": 5}],
        {"a": [1, 0], "b": [1, 9]},
    ),
    (
        {"a": [{"n": 1}, {"n": 2}]},
        {"$set": {"a.$[x].n": 2, "a.$[y].m": 5}},
        [{"x.n": 1}, {"y.n": 2}],
        {"a": [{"n": 2}, {"n": 2, "m": 5}]},
    ),
    (
        {"a": [{"n": 1}, {"n": 2}]},
        {"$set": {"a.$[x].p": 0, "a.$[].q": 1}},
        [{"x.n": 2}],
        {"a": [{"n": 1, "q": 1}, {"n": 2, "p": 0, "q": 1}]},
    ),
    ({"a": [[1, 2], [3]]}, {"$set": {"a.$[e]": 0}}, [{"e": 2}], {"a": [0, [3]]}),
]


@pytest.mark.parametrize(("document", "update", "array_filters", "expected"), CHOSEN)
def test_a_name_in_brackets_stands_for_the_elements_that_its_filter_matches(
    document: dict[str, Any],
    update: dict[str, Any],
    array_filters: list[dict[str, Any]],
    expected: dict[str, Any],
) -> None:
    assert exact(updated(document, update, array_filters=array_filters)) == exact(expected)


@pytest.mark.parametrize(
    ("document", "update", "array_filters", "position", "message"),
    [
        ({"a": [1]}, {"$set": {"a.$": 2}}, None, None, r"field 'a': the positional operator \$ requires.*_id 7"),
        ({}, {"$set": {"a.$": 2}}, None, None, "positional operator"),
        ({}, {"$set": {"a.$[]": 2}}, None, None, "field 'a': .* require an array, but the field is missing"),
        ({}, {"$unset": {"a.$[]": 2}}, None, None, ".* require an array, but the field is missing"),
        ({"a": 5}, {"$set": {"a.$[]": 2}}, None, None, "require an array, but the field is int 5"),
        ({"a": None}, {"$set": {"a.$[]": 2}}, None, None, "require an array, but the field is NoneType"),
        ({"a": {"0": 1}}, {"$set": {"a.$[e]": 2}}, [{"e": 1}], None, "require an array, but the field is dict"),
        ({"a": [[1], 5]}, {"$set": {"a.$[].$[]": 2}}, None, None, "field 'a.1': .* but the field is int 5"),
        ({"a": [{"n": "x"}]}, {"$inc": {"a.$[].n": 2}}, None, None, r"field 'a.0.n': \$inc"),
        ({"a": [1]}, {"$set": {"a.$[].n": 2}}, None, None, "field 'a.0': cannot access or create field 'n' in int 1"),
        ({"a": [1, 2]}, {"$set": {"a.$": 2, "a.1": 3}}, None, 1, "field 'a.1': two parts"),
        ({"a": [1]}, {"$inc": {"a.$[]": 2, "a.$[e]": 3}}, [{"e": 1}], None, "field 'a.0': two parts"),
        (
            {"a": [{"n": 1}]},
            {"$inc": {"a.$[x].n": 2, "a.$[y].n": 3}},
            [{"x.n": 1}, {"y.n": {"$gt": 0}}],
            None,
            "field 'a.0.n': two parts",
        ),
    ],
)
def test_elements_that_are_not_there_or_are_changed_twice_are_refused(
    document: dict[str, Any],
    update: dict[str, Any],
    array_filters: list[dict[str, Any]] | None,
    position: int | None,
    message: str,
) -> None:
    compiled = compile_update(update, array_filters)
    with pytest.raises(WriteError, match=message):
        compiled.apply({"_id": 7, **document}, now=NOW, position=position)


@pytest.mark.parametrize(
    ("update", "array_filters", "message"),
    [
        ({"$set": {"a.$[e]": 1}}, None, "no array filter of that name"),
        ({"$set": {"a.$[e]": 1}}, [{"f": 1}], "uses 'e', but there is no array filter"),
        ({"$set": {"a.$[e]": 1}}, [{"e": 1}, {"f": 1}], r"array filter 'f' is not used"),
        ({"$set": {"a": 1}}, [{"e": 1}], r"array filter 'e' is not used"),
        ({"$set": {"a.$[e]": 1}}, [{"e": 1}, {"e.x": 1}], "two array filters for 'e'"),
        ({"$set": {"a.$[e]": 1}}, [{"e": 1, "f": 1}], "begin with the same name, but it has 'e', 'f'"),
        ({"$set": {"a.$[e]": 1}}, [{}], "but it has none"),
        ({"$set": {"a.$[E]": 1}}, [{"E": 1}], "beginning with a lowercase letter"),
        ({"$set": {"a.$[e]": 1}}, [5], "an array filter must be a dict"),
        ({"$set": {"a.$[e]": 1}}, {"e": 1}, "array_filters must be a list"),
        ({"$set": {"a.$[e]": 1}}, [{"e": {"$near": 1}}], r"\$near"),
        ({"$set": {"$": 1}}, None, r"begins with '\$'"),
        ({"$set": {"$[].a": 1}}, None, r"begins with '\$\[\]'"),
        ({"$set": {"a.$.b.$": 1}}, None, r"more than one \$"),
        ({"$set": {"a.$[].b": 1, "a.0.c": 1}}, None, "conflicts with another change at 'a'"),
        ({"$set": {"a.0.c": 1, "a.$[].b": 1}}, None, "conflicts with another change at 'a'"),
        ({"$set": {"a.$[]": 1}, "$inc": {"a.$[].b": 1}}, None, "conflicts"),
    ],
)
def test_paths_and_array_filters_must_fit_each_other(update: dict[str, Any], array_filters: Any, message: str) -> None:
    with pytest.raises(OperationFailure, match=message):
        compile_update(update, array_filters)


def test_an_array_filter_for_set_on_insert_counts_as_used() -> None:
    update = {"$setOnInsert": {"a.$[e]": 0}}
    assert updated({"a": [1, 2]}, update, array_filters=[{"e": 2}]) == {"a": [1, 2]}
    assert updated({"a": [1, 2]}, update, array_filters=[{"e": 2}], inserting=True) == {"a": [1, 0]}
