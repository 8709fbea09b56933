"""The bounds of the values that satisfy a condition, checked by hypothesis for every operator and kind of value."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import assume, example, given, settings

from lowtide.documents.filters import Condition, compile_filter
from lowtide.documents.plans.bounds import Span, Spans, after, before, intersection, spans_of, within
from lowtide.values.ordering import encode, inverted
from tests.unit.documents.everything import ASCENDING
from tests.unit.documents.everything import values as wide_values
from tests.unit.values.strategies import values as few_values

values = few_values | wide_values | st.sampled_from(ASCENDING)
comparisons = st.builds(Condition, st.just("a"), st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte"]), values)
choices = st.builds(Condition, st.just("a"), st.just("$in"), st.lists(values, max_size=4).map(tuple))
conditions = comparisons | choices


def lies_in(encoded: bytes, spans: Spans) -> bool:
    return any(span.low.key <= encoded < span.high.key for span in spans.spans)


def satisfies(value: Any, condition: Condition) -> bool:
    """Whether a document with this value at ``a`` matches, told by the filter itself."""
    operand = list(condition.operand) if condition.operator == "$in" else condition.operand
    return compile_filter({"a": {condition.operator: operand}}).matches({"a": value})


def entries_of(value: Any) -> list[bytes]:
    return [encode(each) for each in (value or [[]])] if type(value) is list else [encode(value)]


def is_in_order(spans: Spans) -> bool:
    flat = [bound for span in spans.spans for bound in (span.low, span.high)]
    return flat == sorted(flat) and all(span.low < span.high for span in spans.spans)


@settings(max_examples=200)
@given(values, conditions)
@example(None, Condition("a", "$eq", None))
@example([[1, 2]], Condition("a", "$eq", [1, 2]))
@example([1, 2], Condition("a", "$eq", [1, 2]))
@example([], Condition("a", "$in", ([], None)))
@example(False, Condition("a", "$lte", False))
def test_what_satisfies_a_condition_has_an_entry_in_its_spans(value: Any, condition: Condition) -> None:
    spans = spans_of(condition)
    if spans is None:
        return
    assert is_in_order(spans)
    found = any(lies_in(each, spans) for each in entries_of(value))
    if spans.exact and type(value) is not list:
        assert found == satisfies(value, condition)
    elif satisfies(value, condition):
        assert found


@settings(max_examples=100)
@given(values, conditions)
def test_turned_spans_hold_the_inverted_encodings(value: Any, condition: Condition) -> None:
    spans = spans_of(condition)
    assume(spans is not None)
    assert spans is not None
    turned, encoded = spans.turned(), encode(value)
    assert lies_in(inverted(encoded), turned) == lies_in(encoded, spans)
    assert is_in_order(turned)
    assert turned.turned() == spans


@settings(max_examples=100)
@given(values, conditions, conditions)
def test_an_intersection_holds_what_both_hold(value: Any, one: Condition, other: Condition) -> None:
    first, second = spans_of(one), spans_of(other)
    assume(first is not None and second is not None)
    assert first is not None
    assert second is not None
    both, encoded = intersection(first, second), encode(value)
    assert lies_in(encoded, both) == (lies_in(encoded, first) and lies_in(encoded, second))
    assert is_in_order(both)
    assert both.exact == (first.exact and second.exact)
    assert within(both, first)
    assert within(both, second)


@settings(max_examples=100)
@given(values, conditions, conditions)
def test_what_lies_within_spans_that_lie_within_others_lies_within_those(value: Any, one: Any, other: Any) -> None:
    inner, outer = spans_of(one), spans_of(other)
    assume(inner is not None and outer is not None)
    assert inner is not None
    assert outer is not None
    assert within(inner, inner)
    if within(inner, outer) and lies_in(encode(value), inner):
        assert lies_in(encode(value), outer)


@pytest.mark.parametrize(
    ("inner", "outer", "inside"),
    [
        *((("$eq", 5), ("$gt", 3), True), (("$eq", 3), ("$gt", 3), False), (("$eq", 3), ("$gte", 3), True)),
        *((("$gt", 5), ("$gt", 3), True), (("$gt", 3), ("$gt", 5), False), (("$gt", 3), ("$gte", 3), True)),
        *((("$gte", 3), ("$gt", 3), False), (("$lt", 3), ("$lte", 3), True), (("$in", (1, 2)), ("$lt", 3), True)),
        *((("$in", (1, 3)), ("$lt", 3), False), (("$eq", 1), ("$in", (1, 2)), True), (("$eq", "5"), ("$gt", 3), False)),
        *((("$in", ()), ("$eq", 1), True), (("$eq", True), ("$eq", 1), False), (("$eq", 1.0), ("$eq", 1), True)),
    ],
)
def test_within(inner: tuple[str, Any], outer: tuple[str, Any], inside: bool) -> None:
    small, large = spans_of(Condition("a", *inner)), spans_of(Condition("a", *outer))
    assert small is not None
    assert large is not None
    assert within(small, large) is inside


@pytest.mark.parametrize(
    ("operator", "operand"),
    [
        *(("$exists", True), ("$gt", None), ("$gte", None), ("$lte", [1]), ("$gt", []), ("$size", 1)),
        ("$elemMatch", (Condition("", "$gt", None),)),
    ],
)
def test_some_conditions_say_nothing_of_where_values_lie(operator: str, operand: Any) -> None:
    assert spans_of(Condition("a", operator, operand)) is None


@pytest.mark.parametrize(
    ("operator", "operand", "points"),
    [
        *(("$eq", 1, [1]), ("$eq", None, [None]), ("$in", (3, 1, 2, 1.0), [1, 2, 3]), ("$in", (), [])),
        *(
            ("$in", ("a", None), [None, "a"]),
            ("$eq", [], [[]]),
            ("$eq", [1, 2], [1, [1, 2]]),
            ("$exists", False, [None]),
        ),
        *(("$gt", 1, None), ("$lte", "a", None)),
    ],
)
def test_points(operator: str, operand: Any, points: list[Any] | None) -> None:
    spans = spans_of(Condition("a", operator, operand))
    assert spans is not None
    assert spans.points == (list(map(encode, points)) if points is not None else None)


@pytest.mark.parametrize(
    ("operator", "operand", "exact"),
    [
        *(("$eq", 1, True), ("$eq", None, True), ("$eq", [1], False), ("$in", (1, [2]), False), ("$in", (1, 2), True)),
        *(("$gt", 1, True), ("$exists", False, False), ("$regex", "a", False)),
        ("$elemMatch", (Condition("", "$gt", 1), Condition("", "$lt", 5)), False),
    ],
)
def test_spans_are_exact_where_a_value_in_them_surely_matches(operator: str, operand: Any, exact: bool) -> None:
    spans = spans_of(Condition("a", operator, operand))
    assert spans is not None
    assert spans.exact is exact


def test_the_conditions_of_one_element_are_joined() -> None:
    spans = spans_of(Condition("a", "$elemMatch", (Condition("", "$gt", 1), Condition("", "$lte", 5))))
    assert spans is not None
    assert [lies_in(encode(each), spans) for each in (1, 1.5, 5, 6, "3", None)] == [
        False,
        True,
        True,
        False,
        False,
        False,
    ]


@given(st.text(alphabet="ab\x00\x01é", max_size=3), st.text(alphabet="ab\x00\x01é", max_size=4))
def test_a_pattern_spans_the_strings_that_begin_so(start: str, text: str) -> None:
    spans = spans_of(Condition("a", "$regex", start))
    assert spans is not None
    assert lies_in(encode(text), spans) == text.startswith(start)
    assert not lies_in(encode(start.encode()), spans)


def test_a_bound_is_before_or_after_all_that_begin_with_it() -> None:
    assert before(b"\x20a") < after(b"\x20a")
    assert after(b"\x20a").key == b"\x20b"
    assert before(b"\x20a").turned() == after(b"\xdf\x9e")
    assert after(b"\x20a").turned() == before(b"\xdf\x9e")
    point = Span(before(b"\x20a"), after(b"\x20a"), b"\x20a")
    assert point.turned() == Span(before(b"\xdf\x9e"), after(b"\xdf\x9e"), b"\xdf\x9e")
    assert point.both(Span(before(b"\x20"), after(b"\x20"))) == point
    assert Span(before(b"\x20"), after(b"\x21")).both(Span(after(b"\x20"), after(b"\x22"))).point is None
