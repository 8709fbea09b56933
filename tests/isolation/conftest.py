"""The places that the isolation tests run in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import OpenStore
from tests.isolation.world import PLACES, World, is_tried, open_world
from tests.support.attack import FULL


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the cases that only the full attack tries."""
    if not FULL:
        items[:] = [item for item in items if not isinstance(item, pytest.Function) or _is_tried(item)]


def _is_tried(item: pytest.Function) -> bool:
    case = getattr(item, "callspec", None)
    place = case.params.get("world") if case is not None else None
    if case is None or place not in PLACES or len(case.params) == 1:
        return True
    others = [part for part in case.id.split("-") if part != place]
    return is_tried(place, f"{item.originalname} {others}")


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
