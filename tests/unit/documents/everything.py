"""Values of every type that a document may hold, small and large, for hypothesis and for tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import hypothesis.strategies as st

_offsets = st.integers(-86_399_999_999, 86_399_999_999).map(lambda each: timezone(timedelta(microseconds=each)))
moments = st.datetimes(timezones=st.none() | st.just(UTC) | _offsets)
decimals = st.decimals(allow_nan=False) | st.builds(
    lambda sign, digits, exponent: Decimal((sign, tuple(map(int, str(digits))), exponent)),
    st.integers(0, 1),
    st.integers(0, 10**40),
    st.integers(-1000, 1000),
)
near_doubles = st.integers(-(2**54), 2**54) | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**63, 2**64, 2**1024])
numbers = st.integers() | near_doubles | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False) | decimals
texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=5) | st.text("\x00\x01a\xff", max_size=4)
binaries = st.binary(max_size=4) | st.binary(min_size=15, max_size=17) | st.uuids()
values = st.recursive(
    st.none() | st.booleans() | numbers | texts | binaries | moments,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts.filter(lambda each: each[:1] != "$"), inner, max_size=2)
    ),
    max_leaves=5,
)

ASCENDING: list[Any] = [
    None,
    *(float("-inf"), -(10**400), Decimal("-1E+310"), -1.7976931348623157e308, -(2**64), -(2**53) - 1, -(2**53)),
    *(-1.5, -1, -0.1, Decimal("-0.1"), Decimal("-1E-400"), 0, Decimal("1E-400"), 5e-324, Decimal("0.1"), 0.1),
    *(1, Decimal("1.0000000000000000000001"), 1.5, 2**53, 2**53 + 1, 2**53 + 2, 2**64, 2**64 + 1),
    *(1.7976931348623157e308, Decimal("1E+310"), 10**400, 10**400 + 1, float("inf")),
    *("", "\x00", "\x00\x01", "\x01", "A", "a", "a\x00", "a\x00b", "a\x01", "aa", "é", "￿", "\U00010000"),
    *({}, {"a": None}, {"b": None}, {"a": 1}, {"a": 1, "b": None}, {"a": 2}, {"b": 1}, {"a": "x"}, {"a": {}}),
    *([], [None], [None, None], [1], [1, 1], [2], ["a"], [{}], [[]], [[], None], [True]),
    *(b"", b"\xff", b"\x00\x00", b"\xff\xff", b"\xff" * 15, b"\xff" * 16, UUID(int=0), UUID(int=2**128 - 1), b"0" * 17),
    *(False, True),
    *(datetime.min, datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(1970, 1, 1), datetime(2020, 1, 1, 1)),
    *(datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=-1))), datetime.max),
]
"""One value for each of many places, in comparison order. The double 0.1 is a little more than a tenth."""

SAME: list[tuple[Any, ...]] = [
    (0, 0.0, -0.0, Decimal(0), Decimal("-0"), Decimal("0E+9")),
    (1, 1.0, Decimal(1), Decimal("1.000")),
    (2**60, float(2**60), Decimal(2**60)),
    (10**30, Decimal("1E+30"), Decimal(10**30)),
    (float("inf"), Decimal("Infinity")),
    (
        datetime(2020, 1, 1),
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(2020, 1, 1, 5, tzinfo=timezone(timedelta(hours=5))),
    ),
    ({"a": [1, 2.0]}, {"a": [1.0, Decimal(2)]}),
]
"""Values of different types that are at one place."""
