"""The places that the isolation tests run in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import OpenStore
from tests.isolation.world import PLACES, World, open_world


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
    monkeypatch.setattr("lowtide.engine.versions.visibility._FIRST_CHUNK", 1)
    monkeypatch.setattr("lowtide.engine.versions.visibility._LARGEST_CHUNK", 1)
