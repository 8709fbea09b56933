"""A run of all tests tries a third of the examples of each property test, a quick run only a few."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import few, third, with_fewer_examples


@pytest.mark.parametrize(("asked", "quick", "whole"), [(90, 10, 30), (15, 10, 10), (5, 5, 5), (300, 10, 100)])
def test_how_many_are_tried(asked: int, quick: int, whole: int) -> None:
    assert (few(asked), third(asked)) == (quick, whole)


@pytest.mark.parametrize(("derandomize", "tried"), [(False, 20), (True, 60)])
def test_the_cases_of_a_property_share_its_settings(derandomize: bool, tried: int) -> None:
    """So they are cut down once. A property that tries the same examples in each run keeps them all."""
    seen: list[int] = []

    @settings(max_examples=60, derandomize=derandomize, database=None)
    @given(st.integers())
    def a_property(number: int) -> None:
        seen.append(number)

    item: Any = SimpleNamespace(obj=a_property, cls=None)
    with_fewer_examples([item, item], third)
    a_property()
    assert len(seen) == tried
