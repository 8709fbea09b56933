"""The store itself: what keeps it open, and which paths it takes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide

USES: dict[str, Callable[[lowtide.Store], Callable[[], object]]] = {
    "collection": lambda store: store["c"].find_one,
    "keyspace": lambda store: lambda kept=store.keyspace("k"): kept.get(b"a"),  # type: ignore[misc]
    "scan": lambda store: lambda kept=store.keyspace("k").scan(): next(kept),  # type: ignore[misc]
    "transaction": lambda store: store.begin().commit,
    "keyspace of a transaction": lambda store: lambda kept=store.begin().keyspace("k"): kept.get(b"a"),  # type: ignore[misc]
    "collection of a transaction": lambda store: store.begin()["c"].find_one,
    "snapshot": lambda store: lambda kept=store.snapshot(): kept.keyspace("k").get(b"a"),  # type: ignore[misc]
    "collection of a snapshot": lambda store: store.snapshot()["c"].find_one,
    "cursor": lambda store: store["c"].find().next,
    "aggregation": lambda store: lambda kept=store["c"].aggregate([]): next(kept),  # type: ignore[misc]
    "changes": lambda store: lambda kept=store.changes(): next(kept),  # type: ignore[misc]
    "watch": lambda store: lambda kept=store.watch(since=0, timeout=1): next(kept),  # type: ignore[misc]
    "watch of a collection": lambda store: lambda kept=store["c"].watch(since=0, timeout=1): next(kept),  # type: ignore[misc]
    "consumer": lambda store: lambda kept=store.consumer("n", since=0): kept.position,  # type: ignore[misc]
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("name", USES)
def test_what_was_made_by_a_store_keeps_it_open(name: str, read_only: bool, tmp_path: Path) -> None:
    """``lowtide.open(path)["c"]`` is a whole program's only reference."""
    with lowtide.open(tmp_path / "s", durability="relaxed") as store:
        store.keyspace("k").put(b"a", b"1")
        store["c"].insert_one({"_id": 1})
        if read_only and name == "consumer":
            store.consumer("n", since=0)
    use = USES[name](lowtide.open(tmp_path / "s", durability="relaxed", read_only=read_only))
    use()
    del use
    gc.collect()
    lowtide.open(tmp_path / "s").close()  # and no longer than that


@pytest.mark.parametrize("read_only", [False, True])
def test_an_empty_path_is_refused(read_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a setting that was not set, not the current directory."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(lowtide.UsageError, match="empty path"):
        lowtide.open("", read_only=read_only)
    assert list(tmp_path.iterdir()) == []
