"""Even cuts of a snapshot: of the owner, of a follower, at a pin; from the base, from memory, and from both."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from random import Random

import pytest

import lowtide
from lowtide.engine import EngineSnapshot
from lowtide.engine.versions import cutting
from lowtide.errors import SnapshotExpired, UsageError
from tests.conftest import OpenStore


def put(store: lowtide.Store, count: int, seed: int = 1, start: bytes = b"") -> list[bytes]:
    random = Random(seed)
    rows = {start + random.randbytes(12): bytes(random.choice((5, 300))) for _ in range(count)}
    store.keyspace("k").put_many(rows)
    return list(rows)


def assert_even(keys: list[bytes], cuts: list[bytes], parts: int) -> None:
    assert len(cuts) == parts - 1
    keys = sorted(keys)
    edges = [0, *(bisect_left(keys, cut) for cut in cuts), len(keys)]
    sizes = [end - start for start, end in pairwise(edges)]
    assert all(0.8 <= size * parts / len(keys) <= 1.2 for size in sizes), sizes


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    """Checkpoints run in a thread: who writes the base is nothing to a cut, and a process would have to start."""
    return open_store(checkpointer="thread")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few thousand rows are many here."""
    monkeypatch.setattr(cutting, "FEW", 2000)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_few_keys_are_counted(store: lowtide.Store, checkpointed: bool) -> None:
    store.keyspace("k").put_many({b"%d" % number: b"" for number in range(10)})
    store.keyspace("other").put_many({b"%d" % number: b"" for number in range(100)})
    if checkpointed:
        store.checkpoint()
    with store.snapshot() as snapshot:
        store.keyspace("k").delete(b"1")
        assert snapshot.cuts("k", 5) == [b"2", b"4", b"6", b"8"]
        assert snapshot.cuts("k", 2, b"2", b"6") == [b"4"]
        assert snapshot.cuts("k", 100) == [b"%d" % number for number in range(1, 10)]
        assert snapshot.cuts("k", 1) == []
        assert snapshot.cuts("k", 3, b"7", b"3") == []
        assert snapshot.cuts("nothing", 3) == []


def test_cuts_of_many_keys_are_even_for_owner_follower_and_pin(
    store: lowtide.Store, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = put(store, 12_000)
    store.checkpoint()
    pin = store.pin("cuts", ttl=60)
    monkeypatch.setattr(EngineSnapshot, "scan", None)  # nothing is counted
    with store.snapshot() as owned, lowtide.open_snapshot(store.path, pin="cuts") as pinned:
        for parts in (2, 7):
            assert_even(keys, owned.cuts("k", parts), parts)
            assert_even(keys, pinned.cuts("k", parts), parts)
        low, high = b"\x20", b"\xc0"
        cuts = pinned.cuts("k", 4, low, high)
        assert_even([key for key in keys if low <= key < high], cuts, 4)
    with lowtide.open(store.path, read_only=True) as follower, follower.snapshot() as snapshot:
        assert_even(keys, snapshot.cuts("k", 7), 7)
    pin.release()


def test_what_is_only_in_memory_counts(store: lowtide.Store, few: None) -> None:
    """More at one end, changes that add nothing, and deletions at the other end."""
    keys = put(store, 8000)
    store.checkpoint()
    keys += put(store, 8000, seed=2, start=b"\xff")
    store.keyspace("k").put_many(dict.fromkeys(keys[:4000], b"again"))
    gone = [key for key in keys if key < b"\x40"]
    with store.transaction() as tx:
        for key in gone:
            tx.keyspace("k").delete(key)
    keys = sorted(set(keys) - set(gone))
    with lowtide.open(store.path, read_only=True) as follower, follower.snapshot() as followed:
        assert_even(keys, followed.cuts("k", 4), 4)
    with store.snapshot() as snapshot:
        put(store, 5000, seed=3, start=b"\x00")  # later: not seen
        assert_even(keys, snapshot.cuts("k", 4), 4)


@pytest.mark.parametrize("change", ["appended", "deleted", "updated", "all of it"])
def test_an_old_snapshot_is_cut_as_it_was(
    store: lowtide.Store, few: None, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """By what is in the base no longer, or not yet, at a pin and in the owner's own hands."""
    keys = put(store, 10_000)
    pin = store.pin("old", ttl=60)
    with store.snapshot() as owned, lowtide.open_snapshot(store.path, pin=pin) as pinned:
        if change in ("appended", "all of it"):
            put(store, 10_000, seed=2, start=b"\xff")
        if change in ("deleted", "all of it"):
            with store.transaction() as tx:
                for key in keys:
                    if key < b"\x60":
                        tx.keyspace("k").delete(key)
        if change in ("updated", "all of it"):
            store.keyspace("k").put_many({key: bytes(3000) for key in keys if key > b"\xd0"})
        store.checkpoint()
        monkeypatch.setattr(EngineSnapshot, "scan", None)  # nothing is counted
        for snapshot in (owned, pinned):
            assert_even(keys, snapshot.cuts("k", 5), 5)


def test_a_store_that_was_never_checkpointed_is_cut_evenly(open_store: OpenStore) -> None:
    store = open_store()
    keys = put(store, 3000)
    with store.snapshot() as owned:
        assert_even(keys, owned.cuts("k", 5), 5)
    with lowtide.open(store.path, read_only=True) as follower, follower.snapshot() as snapshot:
        assert_even(keys, snapshot.cuts("k", 5), 5)


@pytest.mark.parametrize("parts", [0, -1, True, 2.0, "2", None])
def test_parts_are_a_whole_number(store: lowtide.Store, parts: object) -> None:
    with store.snapshot() as snapshot, pytest.raises(UsageError, match="parts must be a whole number"):
        snapshot.cuts("k", parts)  # type: ignore[arg-type]


def test_ends_are_bytes_and_a_closed_snapshot_or_a_lost_pin_cuts_nothing(store: lowtide.Store) -> None:
    put(store, 100)
    store.checkpoint()
    with store.snapshot() as snapshot, pytest.raises(UsageError, match="start must be bytes"):
        snapshot.cuts("k", 2, "a")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="closed"):
        snapshot.cuts("k", 2)
    pin = store.pin("cuts", ttl=60)
    with lowtide.open_snapshot(store.path, pin="cuts") as pinned:
        pin.release()
        with pytest.raises(SnapshotExpired):
            pinned.cuts("k", 2)
