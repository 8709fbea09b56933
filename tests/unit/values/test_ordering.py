"""Keys of values: their order is the comparison order, none is a prefix of another, and each can be inverted."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from lowtide.values.ordering import AFTER_ALL, BEFORE_ALL, encode, encode_column, encode_texts, inverted, kind_bounds
from lowtide.values.values import place, rank
from tests.unit.documents.everything import ASCENDING, SAME, numbers, values


def test_a_table_of_values_is_in_order() -> None:
    for lower, higher in pairwise(ASCENDING):
        assert encode(lower) < encode(higher), (lower, higher)
        assert inverted(encode(lower)) > inverted(encode(higher)), (lower, higher)


@pytest.mark.parametrize("same", SAME, ids=str)
def test_equal_values_have_one_encoding(same: tuple[Any, ...]) -> None:
    assert len({encode(each) for each in same}) == 1


def _agree(first: Any, second: Any) -> None:
    here, there = encode(first), encode(second)
    assert (here < there, here == there) == (place(first) < place(second), place(first) == place(second))


@settings(max_examples=120)
@given(values, values)
@example([[]], [[], None])
@example({"a": 1}, {"a\x00": 1})
@example({"a": []}, {"a": [], "b": 1})
def test_the_order_of_encodings_is_the_order_of_values(first: Any, second: Any) -> None:
    _agree(first, second)


@settings(max_examples=300)
@given(numbers, numbers)
@example(2**53 + 1, Decimal(2**53 + 1))
@example(float("inf"), Decimal("1E+400"))
@example(-(2**1024), float("-inf"))
@example(Decimal("1E-999999"), 0)
@example(Decimal("9.99"), Decimal("9.990000000000000000000000000000000001"))
@example(10**5000, 10**5000 + 1)
@example(Decimal("1E+999999999999999999"), Decimal("1E+999999999999999998"))
def test_numbers_of_every_size_and_type_are_in_order(first: Any, second: Any) -> None:
    _agree(first, second)
    _agree(first, first)


@settings(max_examples=100)
@given(numbers)
def test_numbers_are_told_from_their_closest_neighbours(number: Any) -> None:
    exact = Decimal(number)
    if not exact.is_infinite():
        digits = exact.as_tuple()
        assert isinstance(digits.exponent, int)
        above = Decimal((digits.sign, (*digits.digits, 1), digits.exponent - 1))
        _agree(number, above)
        _agree(-above if above else above, number)


@settings(max_examples=120)
@given(values, values)
@example("a", "a\x00")
@example(b"", b"\x00")
@example([1], [1, 2])
@example(1, Decimal("1.00000000000000000001"))
def test_no_encoding_begins_another_one(first: Any, second: Any) -> None:
    here, there = encode(first), encode(second)
    assert here == there or not (here.startswith(there) or there.startswith(here))


@settings(max_examples=100)
@given(values, values, values, values)
def test_encodings_that_follow_each_other_compare_part_by_part(one: Any, two: Any, three: Any, four: Any) -> None:
    descending = [encode(first) + inverted(encode(second)) for first, second in ((one, two), (three, four))]
    first, third = place(one), place(three)
    if first != third:
        assert (descending[0] < descending[1]) == (first < third)
    else:
        assert (descending[0] < descending[1]) == (place(two) > place(four))


@given(values)
def test_an_encoding_lies_within_the_bounds_of_its_kind_and_of_all(value: Any) -> None:
    encoded = encode(value)
    low, high = kind_bounds(rank(value))
    assert BEFORE_ALL < low <= encoded < high < AFTER_ALL
    assert BEFORE_ALL < inverted(encoded) < AFTER_ALL
    assert inverted(inverted(encoded)) == encoded


def test_the_bounds_of_kinds_do_not_meet() -> None:
    for first, second in product({rank(each) for each in ASCENDING}, repeat=2):
        if first < second:
            assert kind_bounds(first)[1] <= kind_bounds(second)[0]


@given(st.lists(values, min_size=1))
@example([0, 1])
@example([2**53, 2**53 + 1])
@example([-1, 2])
@example(["a", "\x00", "é"])
def test_a_column_has_the_encodings_of_its_values(several: list[Any]) -> None:
    for kind in set(map(type, several)):
        of_kind = [each for each in several if type(each) is kind]
        assert encode_column(kind, of_kind) == list(map(encode, of_kind))


@given(st.lists(st.text() | st.sampled_from(["", "\x00", "0", "\x00\x01", "é", "\U0001f600"])), st.binary(max_size=5))
def test_many_strings_are_encoded_as_each_of_them(texts: list[str], prefix: bytes) -> None:
    assert encode_texts(texts, prefix) == [prefix + encode(each) for each in texts]
