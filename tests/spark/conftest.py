"""Skips all tests of this folder if Spark cannot run."""

from __future__ import annotations

import pytest

from tests.support.java import needs_java


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``items`` are those of the whole run, thousands: their names are compared, which is quicker than their paths."""
    for item in items:
        if item.nodeid.startswith("tests/spark/"):
            item.add_marker(needs_java())
