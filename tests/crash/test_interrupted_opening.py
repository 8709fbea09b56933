"""An opening that is interrupted leaves no thread behind, and the store can be opened again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide
from tests.crash.interrupts import Places, interrupted

STARTS = ("Maintenance", "Syncer", "Monitor", "Renewer", "Service")
"""What runs a thread of an open store."""

WIRED = (
    "OwnedStore._wire",
    "Follower.__init__",
    "open_pinned",
    *(f"{each}.{step}" for each in STARTS for step in ("__init__", "start")),
)

OPENINGS: dict[str, Callable[[Path], lowtide.Store | lowtide.Snapshot]] = {
    "owner": lambda path: lowtide.open(path, durability="relaxed"),
    "reader": lambda path: lowtide.open(path, read_only=True),
    "snapshot": lambda path: lowtide.open_snapshot(path),
}


def threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("lowtide-")}


@pytest.mark.parametrize("opening", OPENINGS)
def test_an_interrupted_opening_leaves_no_thread_behind(tmp_path: Path, opening: str) -> None:
    with lowtide.open(tmp_path) as store:
        store.keyspace("fruit").put(b"apple", b"red")
    before = threads()
    tried = Places(visits=1)
    for _ in range(1000):
        with interrupted(tried, KeyboardInterrupt(), only=WIRED) as reached:
            try:
                OPENINGS[opening](tmp_path).close()
            except KeyboardInterrupt:
                assert reached
        assert threads() <= before, reached
        if not reached:
            break
    assert len(tried) > 10
    with lowtide.open(tmp_path) as store:
        assert store.keyspace("fruit").get(b"apple") == b"red"
