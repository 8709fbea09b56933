"""Graphs on a store of the plugin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lowtide.rdf import Dataset, Graph, LowtideStore


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[LowtideStore]:
    """An open plugin object on an empty store."""
    store = LowtideStore({"path": tmp_path / "rdf", "durability": "relaxed"})
    yield store
    store.close()


@pytest.fixture
def graph(plugin: LowtideStore) -> Graph:
    return Graph(plugin, identifier="urn:g")


@pytest.fixture
def dataset(plugin: LowtideStore) -> Dataset:
    return Dataset(plugin)
