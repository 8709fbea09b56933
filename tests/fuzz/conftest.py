"""The store that the fuzz tests copy and damage, made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.stores import Content
from tests.fuzz.stores import make
from tests.unit.engine.base.bases import temporary_directory


@pytest.fixture(scope="session")
def template() -> Iterator[tuple[Path, list[Content]]]:
    """Where the store lies, and its content after each commit."""
    with temporary_directory() as directory:
        states = make(directory / "template")
        yield directory / "template", states
