"""An owner, and a store that has joined it. The second store of a process joins the first through the same socket as
another process would, so tests that kill no process run in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from lowtide.sharing.joined import Joined
from lowtide.store import backend_of


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[lowtide.Store]:
    with lowtide.open(tmp_path / "store", monitor_interval=0.05) as store:
        store.keyspace("k").put(b"a", b"1")
        yield store


@pytest.fixture
def joined(owner: lowtide.Store) -> Iterator[lowtide.Store]:
    with lowtide.open(owner.path) as store:
        assert isinstance(backend_of(store), Joined)
        yield store
