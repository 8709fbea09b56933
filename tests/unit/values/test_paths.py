"""Where a path leads: through objects and arrays, by name and by index."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.values.paths import MISSING, distinct_values, places_of, steps_of, value_at, values_at, values_of
from lowtide.values.values import Document, place
from tests.unit.values.strategies import documents, paths

CASES: list[tuple[Document, str, list[Any]]] = [
    ({"a": 1}, "a", [1]),
    ({}, "a", [MISSING]),
    ({"a": None}, "a", [None]),
    ({"a": [1, 2]}, "a", [1, 2, [1, 2]]),
    ({"a": []}, "a", [[]]),
    ({"a": [[1, 2], 3]}, "a", [[1, 2], 3, [[1, 2], 3]]),
    ({"a": {"b": 1}}, "a.b", [1]),
    ({"a": {}}, "a.b", [MISSING]),
    ({}, "a.b", [MISSING]),
    ({"a": 4}, "a.b", [MISSING]),
    ({"a": None}, "a.b", [MISSING]),
    ({"a": [{"b": 1}, {"b": [2, 3]}]}, "a.b", [1, 2, 3, [2, 3]]),
    ({"a": [{"b": 1}, {}, 5]}, "a.b", [1, MISSING]),
    ({"a": []}, "a.b", []),
    ({"a": [1, 2]}, "a.b", []),
    ({"a": [[{"b": 1}]]}, "a.b", []),
    ({"a": [5, 6]}, "a.1", [6]),
    ({"a": [5, 6]}, "a.2", []),
    ({"a": [5, 6]}, "a.01", []),
    ({"a": {"1": 7}}, "a.1", [7]),
    ({"a": [5, [2, 4]]}, "a.1", [[2, 4]]),
    ({"a": [5, {"1": 4}]}, "a.1", [4, {"1": 4}]),
    ({"a": [{"b": [1]}, {"b": 2}]}, "a.0.b", [MISSING, 1, [1], MISSING]),
    ({"a": [[1, 2], [3]]}, "a.0.1", [2]),
    ({"a": [[{"b": 1}]]}, "a.0.b", [1]),
    ({"": 1}, "", [1]),
    ({"a": {"": 1}}, "a.", [1]),
]


@pytest.mark.parametrize(("document", "path", "wanted"), CASES, ids=str)
def test_a_path_leads_to_these_values(document: Document, path: str, wanted: list[Any]) -> None:
    assert values_at(document, path) == wanted
    assert values_of(document, steps_of(path)) == wanted


def test_an_array_at_the_end_can_stand_for_itself_alone() -> None:
    assert values_of({"a": [1, 2]}, steps_of("a"), expand=False) == [[1, 2]]
    assert values_of({"a": [{"b": [1]}, {"b": 2}]}, steps_of("a.b"), expand=False) == [[1], 2]


@pytest.mark.parametrize(
    ("document", "path", "wanted"),
    [
        ({"a": 1}, "a", [(1, None)]),
        ({"a": [5, 6]}, "a", [(5, 0), (6, 1), ([5, 6], None)]),
        ({"a": [{"b": [1, 2]}, {"b": 3}]}, "a.b", [(1, 0), (2, 0), ([1, 2], 0), (3, 1)]),
        ({"a": [[7], [8, 9]]}, "a.1.1", [(9, 1)]),
    ],
)
def test_the_outermost_array_tells_the_position(document: Document, path: str, wanted: list[Any]) -> None:
    assert places_of(document, steps_of(path)) == wanted


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("a", [{"b": [1, 2]}]),
        ("a.0.b", [1, 2]),
        ("a.0.b.1", 2),
        ("a.1", MISSING),
        ("a.b", MISSING),
        ("a.0.b.c", MISSING),
    ],
)
def test_one_value_is_reached_by_index_only(path: str, wanted: Any) -> None:
    assert value_at({"a": [{"b": [1, 2]}]}, path) == wanted


@given(documents, paths)
def test_what_one_value_reaches_is_among_all_values(document: Document, path: str) -> None:
    value = value_at(document, path)
    if value is not MISSING:
        assert any(each is value for each in values_at(document, path))


def test_distinct_values_are_compared_as_values_are_however_many_there_are() -> None:
    many: list[Document] = [{"a": {"b": number % 2000}} for number in range(5000)]
    assert distinct_values(many, steps_of("a.b")) == list(range(2000))
    others: list[Document] = [
        {"a": {"b": value}} for value in (True, 1.0, "1", None, [5, [5], 2001.0], [], {"c": 1}, b"1")
    ]
    found = distinct_values([*many, {"a": {}}, {"a": 7}, {}, *others, *others], steps_of("a.b"))
    assert found == [*range(2000), True, "1", None, [5], 2001.0, {"c": 1}, b"1"]
    assert found[2000] is True


def test_distinct_values_of_one_field_and_of_objects_in_arrays() -> None:
    assert distinct_values([{"a": 2}, {"b": 3}, {"a": [1, 2]}, {"a": 1}], steps_of("a")) == [2, 1]
    inside: list[Document] = [{"a": [{"b": 1}, {"b": [2, 1]}, {}, 4]}, {"a": [[{"b": 9}]]}, {"a": {"b": 3}}]
    assert distinct_values(inside, steps_of("a.b")) == [1, 2, 3]


@given(st.lists(documents, max_size=4), paths)
def test_distinct_values_are_those_of_the_path_each_once(several: list[Document], path: str) -> None:
    steps = steps_of(path)
    expected: dict[Any, Any] = {}
    for document in several:
        for value in values_of(document, steps, expand=False):
            for one in value if type(value) is list else [value]:
                if one is not MISSING:
                    expected.setdefault(place(one), one)
    assert list(map(repr, distinct_values(several, steps))) == list(map(repr, expected.values()))
