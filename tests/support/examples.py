"""Sets the number of examples that properties and models are tried on.

A run of all tests tries a third of what each test asks for, and a quick run a few. Each run draws new examples, so the
next run may try what this one did not. With ``make attack`` each test gets all the examples that it asks for. So does a
trial of a mutant (LOWTIDE_EXAMPLES=all), where a test must fail in every run and ends with the first example that
fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import hypothesis
import pytest

_ALL = os.environ.get("LOWTIDE_EXAMPLES") == "all"
FEW = 10
"""Examples of a quick run, and the minimum for a test that asks for at least as many."""


def few(asked: int) -> int:
    """What a quick run tries.

    >>> few(100), few(5)
    (10, 5)
    """
    return min(asked, FEW)


def third(asked: int) -> int:
    """What a run of all tests tries.

    >>> third(90), third(15), third(5)
    (30, 10, 5)
    """
    return max(few(asked), asked // 3)


def with_fewer_examples(items: list[pytest.Item], tried: Callable[[int], int]) -> None:
    """Change how many examples the properties and models among the tests are tried on. Those that try the same examples
    in each run keep them all."""
    done: set[int] = set()
    for item in items if not _ALL else ():
        holders = (
            (getattr(item, "obj", None), "_hypothesis_internal_use_settings"),
            (getattr(item, "cls", None), "settings"),
        )
        for holder, name in holders:
            asked = getattr(holder, name, None)
            if not isinstance(asked, hypothesis.settings) or asked.derandomize:
                continue
            owner = getattr(holder, "__func__", holder)  # the cases of a test share one function, and so its settings
            if id(owner) not in done:
                done.add(id(owner))
                setattr(owner, name, hypothesis.settings(asked, max_examples=tried(asked.max_examples)))
