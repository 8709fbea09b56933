"""The arithmetic operators, with what null, missing, types and zero do to them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import OperationFailure
from tests.unit.documents.aggregation.piping import same, value_of

DAY = datetime(2024, 2, 28)

CASES: list[tuple[Any, Any]] = [
    ({"$add": []}, 0),
    ({"$add": [1, 2]}, 3),
    ({"$add": [1, 2, 3.5]}, 6.5),
    ({"$add": 4}, 4),
    ({"$add": [1, Decimal("0.10")]}, Decimal("1.10")),
    ({"$add": [0.1, Decimal("0.2")]}, Decimal("0.3")),
    ({"$add": [2**70, 1]}, 2**70 + 1),
    ({"$add": [1, None]}, None),
    ({"$add": [1, "$missing"]}, None),
    ({"$add": [DAY, 86_400_000]}, datetime(2024, 2, 29)),
    ({"$add": [1.5, DAY]}, datetime(2024, 2, 28, 0, 0, 0, 1500)),
    ({"$subtract": [5, 7]}, -2),
    ({"$subtract": [5, 0.5]}, 4.5),
    ({"$subtract": [Decimal("1.0"), 1]}, Decimal("0.0")),
    ({"$subtract": [DAY, 1000]}, datetime(2024, 2, 27, 23, 59, 59)),
    ({"$subtract": [DAY, datetime(2024, 2, 27, tzinfo=UTC)]}, 86_400_000),
    ({"$subtract": [None, 1]}, None),
    ({"$multiply": []}, 1),
    ({"$multiply": [3, 4]}, 12),
    ({"$multiply": [3, 0.5, 2]}, 3.0),
    ({"$multiply": [Decimal("1.10"), 3]}, Decimal("3.30")),
    ({"$multiply": [2, "$missing"]}, None),
    ({"$divide": [6, 3]}, 2.0),
    ({"$divide": [Decimal(1), 4]}, Decimal("0.25")),
    ({"$divide": [None, 0]}, None),
    ({"$mod": [7, 3]}, 1),
    ({"$mod": [-7, 3]}, -1),
    ({"$mod": [7, -3]}, 1),
    ({"$mod": [-7.5, 2]}, -1.5),
    ({"$mod": [Decimal(-7), 3]}, Decimal(-1)),
    ({"$abs": -3}, 3),
    ({"$abs": [-2.5]}, 2.5),
    ({"$abs": None}, None),
    ({"$ceil": 2.1}, 3.0),
    ({"$ceil": -2.9}, -2.0),
    ({"$ceil": 7}, 7),
    ({"$floor": Decimal("2.9")}, Decimal(2)),
    ({"$floor": -2.1}, -3.0),
    ({"$round": 2.5}, 2.0),
    ({"$round": [3.5]}, 4.0),
    ({"$round": [1234.5678, 2]}, 1234.57),
    ({"$round": [1250, -2]}, 1200),
    ({"$round": [9.96, 1]}, 10.0),
    ({"$round": [Decimal("0.125"), 2]}, Decimal("0.12")),
    ({"$round": [4, -1]}, 0),
    ({"$round": [99, -1]}, 100),
    ({"$trunc": [-7.89, 1]}, -7.8),
    ({"$trunc": 7.9}, 7.0),
    ({"$trunc": ["$missing", 1]}, None),
    ({"$pow": [2, 10]}, 1024),
    ({"$pow": [2, -1]}, 0.5),
    ({"$pow": [2.0, 3]}, 8.0),
    ({"$pow": [Decimal(2), 3]}, Decimal(8)),
    ({"$sqrt": 9}, 3.0),
    ({"$sqrt": Decimal(4)}, Decimal(2)),
    ({"$exp": 0}, 1.0),
    ({"$ln": 1}, 0.0),
    ({"$log": [8, 2]}, 3.0),
    ({"$log10": 1000}, math.log10(1000)),
    ({"$log10": Decimal(1000)}, Decimal(3)),
]


@pytest.mark.parametrize(("expression", "wanted"), CASES, ids=repr)
def test_an_operator_gives_what_it_should_in_value_and_type(expression: Any, wanted: Any) -> None:
    assert same(value_of(expression), wanted)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ({"$add": [1, "1"]}, r"\$add: expected numbers, got str '1'"),
        ({"$add": [1, True]}, r"\$add: expected numbers, got bool True"),
        ({"$add": [DAY, DAY]}, r"\$add: expected at most one date"),
        ({"$add": [DAY, 10**30]}, r"\$add: .* is out of range for a date"),
        ({"$subtract": [1, DAY]}, r"\$subtract: expected numbers"),
        ({"$subtract": [1]}, r"\$subtract: expected 2 operands, got 1"),
        ({"$divide": [1, 0]}, r"\$divide: division by zero"),
        ({"$divide": [Decimal(1), 0.0]}, r"\$divide: division by zero"),
        ({"$mod": [1, 0]}, r"\$mod: division by zero"),
        ({"$subtract": [math.inf, math.inf]}, r"\$subtract: the result is not a number"),
        ({"$add": [10**400, 0.5]}, r"\$add: the result is out of range"),
        ({"$sqrt": -1}, r"\$sqrt: a negative number has no square root"),
        ({"$ln": 0}, r"\$ln: a logarithm requires a positive number"),
        ({"$log": [8, 1]}, r"\$log: a logarithm requires a positive number"),
        ({"$pow": [0, -1]}, r"\$pow: zero has no negative powers"),
        ({"$pow": [-8, 0.5]}, r"\$pow: a negative number has no fractional powers"),
        ({"$pow": [10, 10**9]}, r"\$pow: the result has more than"),
        ({"$round": [1.5, 0.5]}, r"\$round: the place must be an integer"),
        ({"$abs": [1, 2]}, r"\$abs: expected 1 operand, got 2"),
    ],
    ids=repr,
)
def test_what_cannot_be_computed_is_refused_by_the_operators_name(expression: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=rf"^stage 1 \(\$replaceWith\): {reason}"):
        value_of(expression)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(first=numbers, second=numbers)
def test_sums_differences_and_products_are_pythons(first: Any, second: Any) -> None:
    document = {"a": first, "b": second}
    try:
        wanted = [first + second, first - second, first * second]
    except OverflowError:
        return
    assert same(value_of([{name: ["$a", "$b"]} for name in ("$add", "$subtract", "$multiply")], document), wanted)


@given(first=st.integers(), second=st.integers().filter(bool))
def test_the_remainder_has_the_sign_of_the_dividend(first: int, second: int) -> None:
    rest = value_of({"$mod": [first, second]})
    assert abs(rest) < abs(second)
    assert (first - rest) % second == 0
    assert rest == 0 or (rest < 0) == (first < 0)
