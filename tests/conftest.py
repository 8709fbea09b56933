"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import lowtide

hypothesis.settings.register_profile("lowtide", deadline=None, print_blob=True)
hypothesis.settings.load_profile("lowtide")

OpenStore = Callable[..., lowtide.Store]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    """Opens stores in the test's directory (``name`` tells several apart) and closes them at the end.

    Relaxed durability unless the test asks for more: a killed process loses nothing by it, and tests are faster.
    """
    opened: list[lowtide.Store] = []

    def opener(name: str = "store", **options: Any) -> lowtide.Store:
        store = lowtide.open(tmp_path / name, **{"durability": "relaxed", **options})
        opened.append(store)
        return store

    yield opener
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    """An open, empty store."""
    return open_store()
