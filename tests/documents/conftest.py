"""Where the stores of these tests are created."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import lowtide
from tests.support.collections import check_store


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lowtide.Store]:
    """One for all examples of a module: each has collections of its own."""
    path = tmp_path_factory.mktemp("shared") / "store"
    with lowtide.open(path, durability="relaxed", checkpointer="thread") as store:
        yield store
        check_store(store)
