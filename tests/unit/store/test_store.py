"""The store itself: what keeps it open, and which paths it accepts."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lowtide

USES: dict[str, tuple[Callable[[lowtide.Store], Any], Callable[[Any], object]]] = {
    "collection": (lambda store: store["c"], lambda made: made.find_one()),
    "keyspace": (lambda store: store.keyspace("k"), lambda made: made.get(b"a")),
    "scan": (lambda store: store.keyspace("k").scan(), next),
    "transaction": (lambda store: store.begin(), lambda made: made.commit()),
    "keyspace of a transaction": (lambda store: store.begin().keyspace("k"), lambda made: made.get(b"a")),
    "collection of a transaction": (lambda store: store.begin()["c"], lambda made: made.find_one()),
    "snapshot": (lambda store: store.snapshot(), lambda made: made.keyspace("k").get(b"a")),
    "collection of a snapshot": (lambda store: store.snapshot()["c"], lambda made: made.find_one()),
    "cursor": (lambda store: store["c"].find(), next),
    "aggregation": (lambda store: store["c"].aggregate([]), next),
    "changes": (lambda store: store.changes(), next),
    "watch": (lambda store: store.watch(since=0, timeout=1), next),
    "watch of a collection": (lambda store: store["c"].watch(since=0, timeout=1), next),
    "consumer": (lambda store: store.consumer("n", since=0), lambda made: made.position),
}
"""How a thing is made, and how it is used."""


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("name", USES)
def test_what_was_made_by_a_store_keeps_it_open(name: str, read_only: bool, tmp_path: Path) -> None:
    """``lowtide.open(path)["c"]`` is a whole program's only reference."""
    with lowtide.open(tmp_path / "s", durability="relaxed") as store:
        store.keyspace("k").put(b"a", b"1")
        store["c"].insert_one({"_id": 1})
        if read_only and name == "consumer":
            store.consumer("n", since=0)
    make, use = USES[name]
    made = make(lowtide.open(tmp_path / "s", durability="relaxed", read_only=read_only))
    use(made)
    del made
    gc.collect()
    lowtide.open(tmp_path / "s").close()  # and no longer than that


@pytest.mark.parametrize("read_only", [False, True])
def test_an_empty_path_is_refused(read_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a setting that was not set, not the current directory."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(lowtide.UsageError, match="empty path"):
        lowtide.open("", read_only=read_only)
    assert list(tmp_path.iterdir()) == []
