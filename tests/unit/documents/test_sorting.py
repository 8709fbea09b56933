"""Sorting: the forms of a sort, arrays and missing fields, and that it uses the comparison order of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.documents.sorting import compile_sort
from lowtide.errors import OperationFailure
from lowtide.values.values import Document, place
from tests.unit.values.strategies import documents, paths, values

sorts = st.lists(st.tuples(paths, st.sampled_from([1, -1])), min_size=1, max_size=3)


@pytest.mark.parametrize(
    ("spec", "keys"),
    [
        ("a", (("a", 1),)),
        (["a", "b"], (("a", 1), ("b", 1))),
        ([("a", 1), ("b", -1)], (("a", 1), ("b", -1))),
        ([["a", -1]], (("a", -1),)),
        ([("a", 1), "b"], (("a", 1), ("b", 1))),
        ((("a.b", -1),), (("a.b", -1),)),
        ({"a": -1, "b": 1.0}, (("a", -1), ("b", 1))),
        ({"a": 1}.items(), (("a", 1),)),
    ],
)
def test_a_sort_has_pymongos_forms(spec: Any, keys: tuple[tuple[str, int], ...]) -> None:
    assert compile_sort(spec).keys == keys


def test_a_name_may_come_with_its_direction() -> None:
    assert compile_sort("a", -1).keys == (("a", -1),)


@pytest.mark.parametrize(
    "spec",
    [[], {}, [("a", 2)], [("a", 0)], {"a": True}, {"a": "asc"}, [("a",)], [1], 7, None, [("", 1)], {"$a": 1}, [(1, 1)]],
    ids=repr,
)
def test_other_forms_are_refused(spec: Any) -> None:
    with pytest.raises(OperationFailure):
        compile_sort(spec)


def test_a_direction_without_a_name_is_refused() -> None:
    with pytest.raises(OperationFailure, match="a direction can only be given with"):
        compile_sort(["a"], 1)


@pytest.mark.parametrize("path", ["a", "a.b"])
def test_missing_is_null_and_an_empty_array_comes_before_it(path: str) -> None:
    def at(value: Any) -> Document:
        return {"a": value} if path == "a" else {"a": {"b": value}}

    ordered = [at([]), at(None), {}, at(None), at(1), at("x")]
    assert compile_sort(path).sorted(reversed(ordered)) == [at([]), at(None), {}, at(None), at(1), at("x")]
    assert compile_sort(path, -1).sorted(ordered) == [at("x"), at(1), at(None), {}, at(None), at([])]


def test_an_array_counts_as_its_least_element_ascending_and_its_greatest_descending() -> None:
    low, middle, wide = {"a": 1}, {"a": 5}, {"a": [0, 9]}
    assert compile_sort("a").sorted([low, middle, wide]) == [wide, low, middle]
    assert compile_sort("a", -1).sorted([low, middle, wide]) == [wide, middle, low]


@pytest.mark.parametrize(
    ("document", "path", "least", "greatest"),
    [
        ({"a": [{"b": 3}, {"b": [1, 7]}]}, "a.b", 1, 7),
        ({"a": [{"b": 3}, 5]}, "a.b", None, 3),
        ({"a": []}, "a.b", None, None),
        ({"a": 5}, "a.b", None, None),
        ({"a": [[4, 6], 5]}, "a.0", 4, 6),
        ({"a": [4, 6]}, "a.5", None, None),
        ({"a": [{"b": 1}, {"b": 2}]}, "a.1.b", 2, 2),
        ({"a": [[1, 2], 3]}, "a", 3, [1, 2]),
    ],
    ids=str,
)
def test_a_path_leads_through_arrays(document: Mapping[str, Any], path: str, least: Any, greatest: Any) -> None:
    assert compile_sort(path).placings[0](dict(document)) == place(least)
    assert compile_sort(path, -1).placings[0](dict(document)) == place(greatest)


@given(st.lists(values.filter(lambda value: not isinstance(value, list))))
def test_the_order_is_that_of_values(unordered: list[Any]) -> None:
    found = compile_sort("a").sorted({"a": value} for value in unordered)
    assert [document["a"] for document in found] == sorted(unordered, key=place)


@given(st.lists(documents), sorts, st.integers(0, 5))
def test_all_ways_of_sorting_agree(found: list[Document], spec: list[tuple[str, int]], count: int) -> None:
    sort = compile_sort(spec)
    numbered = [{**document, "_id": number} for number, document in enumerate(found)]
    wanted = [document["_id"] for document in sorted(numbered, key=sort.key)]
    assert [document["_id"] for document in sort.sorted(numbered)] == wanted
    assert [document["_id"] for document in sort.smallest(count, iter(numbered))] == wanted[:count]
