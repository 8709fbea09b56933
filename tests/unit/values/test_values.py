"""The comparison order: MongoDB's, across types and numbers of every size."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise, product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given

from lowtide.values.values import (
    ARRAY,
    BINARY,
    BOOLEAN,
    DATE,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    equal,
    microseconds,
    place,
    rank,
)
from tests.unit.documents.everything import ASCENDING, SAME, values


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *((None, NULL), (1, NUMBER), (1.5, NUMBER), (Decimal(1), NUMBER), (2**70, NUMBER), ("1", STRING)),
        *(({}, OBJECT), ([], ARRAY), (b"", BINARY), (UUID(int=1), BINARY), (True, BOOLEAN), (datetime.max, DATE)),
    ],
)
def test_every_type_has_its_kind(value: Any, kind: int) -> None:
    assert rank(value) == kind == place(value)[0]


def test_kinds_compare_as_mongodb_has_them() -> None:
    assert NULL < NUMBER < STRING < OBJECT < ARRAY < BINARY < BOOLEAN < DATE


def test_values_of_all_kinds_are_in_order() -> None:
    for lower, higher in pairwise(ASCENDING):
        assert place(lower) < place(higher), (lower, higher)
        assert not equal(lower, higher)
    shuffled = random.Random(1).sample(ASCENDING, len(ASCENDING))
    assert sorted(shuffled, key=place) == ASCENDING


@pytest.mark.parametrize("same", SAME, ids=str)
def test_values_that_are_worth_the_same_are_equal(same: tuple[Any, ...]) -> None:
    for first, second in product(same, repeat=2):
        assert equal(first, second)
        assert place(first) == place(second)
        assert hash(place(first)) == hash(place(second)), "so that places can be looked up"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *((1, True), (0, False), (None, 0), ("1", 1), (b"a", "a"), ([1], 1), ([], None), ({}, [])),
        *((0.1, Decimal("0.1")), (2**53 + 1, float(2**53)), (UUID(int=0), b"\x00" * 16)),
        *(({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([1, 2], [2, 1]), ({"a": 1}, {"a": True})),
        (datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
    ],
)
def test_values_that_only_look_the_same_are_not_equal(first: Any, second: Any) -> None:
    assert not equal(first, second)
    assert not equal(second, first)


@given(values, values)
def test_two_values_are_in_one_order_only(first: Any, second: Any) -> None:
    here, there = place(first), place(second)
    assert (here < there) + (here == there) + (here > there) == 1
    assert equal(first, second) == (here == there)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(1970, 1, 1), 0),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, 0, 0, 0, 1), 1),
        (datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=2))), -7_200_000_000),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=23))), -62_135_596_800_000_000 - 82_800_000_000),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=23))), 253_402_300_799_999_999 + 82_800_000_000),
    ],
)
def test_instants_are_counted_also_beyond_the_years_of_datetime(moment: datetime, expected: int) -> None:
    assert microseconds(moment) == expected
