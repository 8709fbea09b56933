"""The places in which the isolation tests run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import OpenStore
from tests.isolation.world import PLACES, World, open_world

_IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory in memory where there is one: what a transaction sees does not depend on the disk, and thousands of
    small stores would mostly wait for it."""
    parent = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="lowtide-", dir=parent) as directory:
        yield Path(directory)


@pytest.fixture(params=PLACES)
def world(request: pytest.FixtureRequest, open_store: OpenStore) -> Iterator[World]:
    """A store in each of the places."""
    place = PLACES[request.param]
    with open_world(open_store(**place.options), place) as world:
        yield world


@pytest.fixture
def plain(open_store: OpenStore) -> Iterator[World]:
    """A store in the simplest place, for what cannot depend on the place."""
    with open_world(open_store(), PLACES["chains"]) as world:
        yield world


@pytest.fixture
def tiny_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans read one entry at a time, so every step of a test falls between two chunks."""
    monkeypatch.setattr("lowtide.versions.visibility._FIRST_CHUNK", 1)
    monkeypatch.setattr("lowtide.versions.visibility._LARGEST_CHUNK", 1)
