"""Where the stores of these tests lie."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lowtide
from tests.support.collections import check_store

_IN_MEMORY = Path("/dev/shm")


@contextmanager
def in_memory() -> Iterator[Path]:
    """A directory in memory where there is one: nothing here depends on the disk."""
    parent = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="lowtide-", dir=parent) as directory:
        yield Path(directory)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as directory:
        yield directory


@pytest.fixture(scope="module")
def shared_store() -> Iterator[lowtide.Store]:
    """One for all examples of a module: each has collections of its own."""
    with (
        in_memory() as directory,
        lowtide.open(directory / "store", durability="relaxed", checkpointer="thread") as store,
    ):
        yield store
        check_store(store)
