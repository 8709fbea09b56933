"""Tells which build of Lowtide runs: plain Python, or the same source compiled by mypyc.

A compiled build also compiles this module, so the type of its own function tells. pyproject.toml has the list.
"""

from __future__ import annotations

from types import FunctionType
from typing import Final


def _here() -> None:
    """Only its type matters: a compiled function is not a Python function."""


_KIND: Final[object] = type(_here)
BUILD: Final = "pure Python" if _KIND is FunctionType else "compiled"
"""``"pure Python"`` or ``"compiled"``; ``lowtide --version`` and ``store.stats().build`` show it."""
