"""Values as JSON text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given

from lowtide.columnar.text import json_text
from tests.unit.columnar.documents import VALUES


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-5, "-5"),
        (2**63, "9223372036854775808"),
        (-(10**30), "-1" + "0" * 30),
        (1.5, "1.5"),
        (float("inf"), '"Infinity"'),
        (float("-inf"), '"-Infinity"'),
        (Decimal("9.90"), "9.90"),
        (Decimal("1E+3"), "1E+3"),
        (Decimal("-Infinity"), '"-Infinity"'),
        ('say "é"', '"say \\"é\\""'),
        (b"\x00\xff", '"AP8="'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (datetime(2026, 5, 1, 12), '"2026-05-01T12:00:00"'),
        (datetime(2026, 5, 1, 12, microsecond=5, tzinfo=UTC), '"2026-05-01T12:00:00.000005+00:00"'),
        ({"b": [1, {}], "a": []}, '{"b":[1,{}],"a":[]}'),
    ],
)
def test_each_value_has_its_text(value: Any, text: str) -> None:
    assert json_text(value) == text


def test_an_integer_keeps_its_digits_however_many() -> None:
    assert json_text(-(10**5000)) == "-1" + "0" * 5000


@given(VALUES)
def test_every_value_is_valid_json(value: Any) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(json_text(value), parse_constant=refuse, parse_int=Decimal, parse_float=Decimal)
