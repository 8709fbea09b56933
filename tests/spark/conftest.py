"""Skips all of these tests where Spark cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.java import needs_java


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(needs_java())
