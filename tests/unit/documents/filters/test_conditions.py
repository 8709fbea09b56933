"""What filters tell a planner: conditions that every match satisfies, branches, and whether these are sufficient."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import event, given, settings

from lowtide.documents.filters import Condition, compile_filter
from lowtide.documents.filters.patterns import prefix_of
from lowtide.values.paths import MISSING, values_at
from lowtide.values.values import Document, place
from tests.unit.values.strategies import documents, filters


def _met(value: Any, operator: str, operand: Any) -> bool:
    """Whether a value satisfies a condition, told by places alone."""
    if operator == "$exists":
        return value is not MISSING
    value = None if value is MISSING else value
    if operator == "$regex":
        return isinstance(value, str) and value.startswith(operand)
    if operator == "$in":
        return place(value) in list(map(place, operand))
    if operator == "$elemMatch":
        return all(_met(value, inner.operator, inner.operand) for inner in operand)
    here, there = place(value), place(operand)
    orders = {"$eq": here == there, "$gt": here > there, "$gte": here >= there, "$lt": here < there}
    return here[0] == there[0] and orders.get(operator, here <= there)


def _satisfies(document: Document, condition: Condition) -> bool:
    if condition.operator == "$exists" and condition.operand is False:
        return not _satisfies(document, Condition(condition.path, "$exists", True))
    return any(_met(value, condition.operator, condition.operand) for value in values_at(document, condition.path))


@settings(max_examples=200)
@given(filters, documents)
def test_a_document_that_matches_satisfies_every_conjunct_and_one_branch(filter: Any, document: Document) -> None:
    compiled = compile_filter(filter)
    matched = compiled.matches(document)
    satisfied = all(_satisfies(document, each) for each in compiled.conjuncts)
    event(f"matched {matched}, conjuncts {bool(compiled.conjuncts)}, complete {compiled.complete}")
    if matched:
        assert satisfied
    if compiled.complete:
        assert satisfied == matched
    if compiled.alternatives:
        assert matched == (satisfied and any(each.matches(document) for each in compiled.alternatives))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"a": 1}, {"a": {"$eq": 1.0}}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": {"$in": [0, "x"]}}, {"a": {"$in": [False, "x"]}}, False),
        ({"a": {"$in": [0, "x"]}}, {"a": {"$in": [0.0, "x"]}}, True),
        ({"a": {"$in": [0]}}, {"a": {"$in": [0, 1]}}, False),
        ({"a": {"$elemMatch": {"$gt": 1}}}, {"a": {"$elemMatch": {"$gt": 1.0}}}, True),
        ({"a": {"$elemMatch": {"$gt": 1}}}, {"a": {"$elemMatch": {"$gt": True}}}, False),
        ({"a": {"x": 1}}, {"a": {"x": True}}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": {"$gt": 1}}, {"a": {"$gte": 1}}, False),
    ],
    ids=repr,
)
def test_conditions_are_equal_if_they_ask_for_the_same(first: Any, second: Any, same: bool) -> None:
    one, other = compile_filter(first).conjuncts, compile_filter(second).conjuncts
    assert (one == other) is same
    assert not same or hash(one) == hash(other)


A = "a"
CONJUNCTS: list[tuple[Any, list[Condition], bool]] = [
    (None, [], True),
    ({}, [], True),
    ({"a": 1}, [Condition(A, "$eq", 1)], True),
    ({"a": None}, [Condition(A, "$eq", None)], True),
    ({"a": (1, 2)}, [Condition(A, "$eq", [1, 2])], True),
    ({"a": {"$gt": 1, "$lt": 3}}, [Condition(A, "$gt", 1), Condition(A, "$lt", 3)], True),
    ({"a": {"$gte": 1, "$lte": 3}}, [Condition(A, "$gte", 1), Condition(A, "$lte", 3)], True),
    ({"a": {"$gte": None}}, [Condition(A, "$eq", None)], True),
    ({"a": {"$in": [1, None]}}, [Condition(A, "$in", (1, None))], True),
    ({"a": {"$in": [1, re.compile("a")]}}, [], False),
    ({"a": {"$exists": True}}, [Condition(A, "$exists", True)], True),
    ({"a": {"$exists": False}}, [Condition(A, "$exists", False)], True),
    ({"a": {"$all": [1, 2]}}, [Condition(A, "$eq", 1), Condition(A, "$eq", 2)], True),
    ({"a": {"$all": []}}, [Condition(A, "$in", ())], True),
    ({"a": {"$regex": "^ab"}}, [Condition(A, "$regex", "ab")], True),
    ({"a": {"$regex": "^ab$"}}, [Condition(A, "$regex", "ab")], False),
    ({"a": {"$regex": "^ab", "$options": "i"}}, [], False),
    ({"a": {"$ne": 1}}, [], False),
    ({"a": {"$nin": [1]}}, [], False),
    ({"a": {"$not": {"$gt": 1}}}, [], False),
    ({"a": {"$size": 1}}, [], False),
    ({"a": {"$type": "int"}, "b": 1}, [Condition("b", "$eq", 1)], False),
    (
        {"a": {"$elemMatch": {"$gt": 1, "$lt": 3, "$ne": 2}}},
        [Condition(A, "$elemMatch", (Condition("", "$gt", 1), Condition("", "$lt", 3)))],
        False,
    ),
    ({"a.0": {"$elemMatch": {"$gt": 1}}}, [], False),
    ({"a": {"$elemMatch": {"$elemMatch": {"$gt": 1}}}}, [], False),
    ({"a": {"$elemMatch": {"$exists": False}}}, [], False),
    ({"a": {"$elemMatch": {"b": 1, "c.d": {"$gt": 2}}}},
     [Condition("a.b", "$eq", 1), Condition("a.c.d", "$gt", 2)], False),
    ({"a": {"$elemMatch": {"b": None, "0": 1, "": 2, "c": {"$in": [None]}, "d": {"$exists": False}}}}, [], False),
    ({"$and": [{"a": 1}, {"$and": [{"b": 2}, {"$or": [{"c": 3}]}]}]},
     [Condition(A, "$eq", 1), Condition("b", "$eq", 2), Condition("c", "$eq", 3)], True),
    ({"a": 1, "$nor": [{"b": 1}]}, [Condition(A, "$eq", 1)], False),
    ({"a": 1, "$or": [{"b": 1}, {"c": 1}]}, [Condition(A, "$eq", 1)], False),
]  # fmt: skip


@pytest.mark.parametrize(("filter", "conjuncts", "complete"), CONJUNCTS, ids=repr)
def test_a_filter_tells_its_conjuncts(filter: Any, conjuncts: list[Condition], complete: bool) -> None:
    compiled = compile_filter(filter)
    assert list(compiled.conjuncts) == conjuncts
    assert compiled.complete is complete


def test_a_choice_beside_conjuncts_is_told_as_alternatives() -> None:
    compiled = compile_filter({"a": 1, "$and": [{"$or": [{"b": 1}, {"c": {"$gt": 1}, "d": {"$ne": 1}}]}]})
    first, second = compiled.alternatives
    assert first.conjuncts == (Condition("b", "$eq", 1),)
    assert first.complete
    assert second.conjuncts == (Condition("c", "$gt", 1),)
    assert not second.complete


@pytest.mark.parametrize(
    "filter",
    [
        {"a": 1},
        {"$or": [{"a": 1}, {"b": 1}], "c": {"$ne": 1}},
        {"$and": [{"$or": [{"a": 1}, {"b": 1}]}, {"$or": [{"c": 1}, {"d": 1}]}]},
        {"$nor": [{"a": 1}, {"b": 1}]},
    ],
)
def test_a_choice_that_is_not_all_there_is_gives_no_alternatives(filter: Any) -> None:
    assert compile_filter(filter).alternatives == ()


@pytest.mark.parametrize(
    ("pattern", "flags", "wanted"),
    [
        ("^abc", 0, ("abc", True)),
        ("^abc.*", 0, ("abc", True)),
        ("^abc.*$", 0, ("abc", False)),
        ("^ab*c", 0, ("a", False)),
        ("^ab?", 0, ("a", False)),
        ("^ab{0,1}", 0, ("a", False)),
        ("^ab+", 0, ("a", False)),
        (r"^a\.b\*", 0, ("a.b*", True)),
        (r"^a\.?", 0, ("a", False)),
        (r"^a\d", 0, ("a", False)),
        ("^a[bc]", 0, ("a", False)),
        ("^a(b|c)", 0, ("", False)),
        ("^a|b", 0, ("", False)),
        ("abc", 0, ("", False)),
        ("^", 0, ("", True)),
        ("^abc", re.IGNORECASE, ("", False)),
        ("^abc", re.MULTILINE, ("", False)),
        ("^a b", re.VERBOSE, ("", False)),
        ("(?i)^abc", 0, ("", False)),
        ("^abc", re.DOTALL, ("abc", True)),
        ("^äb", 0, ("äb", True)),
    ],
)
def test_a_pattern_tells_the_text_that_it_begins_with(pattern: str, flags: int, wanted: tuple[str, bool]) -> None:
    assert prefix_of(re.compile(pattern, flags)) == wanted
