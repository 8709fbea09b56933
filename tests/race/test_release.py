"""A snapshot that ends while others are busy leaves nothing behind (invariants 4 and 5; G4, G5).

Other snapshots are live throughout, so nothing goes merely because there are none, and no test runs a full collection
afterwards: the ended snapshot must be noticed on its own.
"""

from __future__ import annotations

import gc

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.garbage.background import wait_until
from tests.support.parts import parts_of
from tests.support.schedule import Schedule


def put(store: lowtide.Store, key: bytes, value: bytes) -> None:
    store.keyspace("k").put(key, value)


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    return open_store(collect_threshold=1, checkpointer="thread")


def history(store: lowtide.Store) -> int:
    return store.stats().history


@pytest.mark.parametrize("place", ["checkpoint.sampled", "checkpoint.boundary", "checkpoint.applied"])
def test_a_snapshot_that_ends_during_a_checkpoint_keeps_nothing_in_the_history(
    store: lowtide.Store, place: str
) -> None:
    """The checkpoint counted it as live and keeps a version for it. If its end were reported only to a collector that
    sweeps before the checkpoint has written, the version would stay for as long as any snapshot is live."""
    put(store, b"x", b"0")
    put(store, b"old", b"0")
    store.checkpoint()
    with store.snapshot() as oldest:
        put(store, b"old", b"1")
        put(store, b"x", b"1")
        ending = store.snapshot()
        put(store, b"x", b"2")
        with store.snapshot() as youngest, Schedule() as schedule:
            checkpoint = schedule.start(store.checkpoint, place).arrive()
            ending.close()
            wait_until(lambda: not parts_of(store).collector.wanted)
            checkpoint.finish()
            wait_until(lambda: history(store) == 2)
            assert oldest.keyspace("k").get(b"x") == b"0"
            assert oldest.keyspace("k").get(b"old") == b"0"
            assert youngest.keyspace("k").get(b"x") == b"2"


def test_a_snapshot_that_ends_while_a_commit_holds_the_lock_is_collected_after_it(store: lowtide.Store) -> None:
    """It may not wait for the lock, so it leaves its chains to the background; forgetting them would keep them until
    the next checkpoint."""
    put(store, b"x", b"0")
    put(store, b"y", b"0")
    ending = store.snapshot()
    put(store, b"x", b"1")
    put(store, b"y", b"1")
    with Schedule() as schedule:
        commit = schedule.start(lambda: put(store, b"z", b"0"), "commit.visible").arrive()
        ending.close()
        assert store.stats().versions == 5, "nothing was waited for"
        commit.finish()
        wait_until(lambda: store.stats().versions == 3)


@pytest.mark.parametrize("place", ["collect.sampled", "sweep.sampled"])
def test_a_snapshot_that_ends_while_a_collection_runs_is_collected_after_it(store: lowtide.Store, place: str) -> None:
    """It ends before the collection reads the live snapshots, so that one may drop its versions; otherwise another one
    must."""
    put(store, b"x", b"0")
    put(store, b"y", b"0")
    store.checkpoint()
    with store.snapshot():
        put(store, b"y", b"1")
        put(store, b"x", b"1")
        ending = store.snapshot()
        put(store, b"x", b"2")
        store.checkpoint()
        put(store, b"x", b"3")
        other = store.snapshot()
        put(store, b"x", b"4")
        assert history(store) == 3
        with Schedule() as schedule:
            collection = schedule.start(store.collect_garbage, place).arrive()
            ending.close()
            other.close()
            collection.finish()
            wait_until(lambda: (history(store), store.stats().versions) == (2, 1))


def test_a_dropped_snapshot_is_collected_without_anybody_asking(store: lowtide.Store) -> None:
    """A destructor can only leave a note; it must be read even if no other snapshot ever ends."""
    put(store, b"x", b"0")
    store.checkpoint()
    keeper = store.snapshot()
    put(store, b"x", b"1")
    dropped: lowtide.Snapshot | None = store.snapshot()
    put(store, b"x", b"2")
    store.checkpoint()
    assert history(store) == 2
    del dropped
    gc.collect()
    wait_until(lambda: history(store) == 1)
    assert keeper.keyspace("k").get(b"x") == b"0"
    keeper.close()
    wait_until(lambda: history(store) == 0)


def test_the_versions_in_memory_of_a_dropped_transaction_are_collected_too(store: lowtide.Store) -> None:
    put(store, b"x", b"0")
    dropped: lowtide.Transaction | None = store.begin()
    put(store, b"x", b"1")
    assert store.stats().versions == 2
    del dropped
    gc.collect()
    wait_until(lambda: store.stats().versions == 1)


def superseded(store: lowtide.Store) -> tuple[int, int]:
    """The superseded versions in memory and in the history."""
    layer = parts_of(store).versions.active
    return layer.versions - len(layer.chains), parts_of(store).base.count_history()


def test_a_snapshot_that_ends_while_a_commit_judges_leaves_nothing(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"a", b"0")
    tx = store.begin()
    with Schedule() as schedule:
        commit = schedule.start(lambda: store.keyspace("k").put(b"a", b"1"), "collect.judge").arrive()
        tx.rollback()
        commit.finish()
    wait_until(lambda: superseded(store) == (0, 0))


def test_a_begin_that_draws_twice_leaves_nothing_in_a_chain(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"a", b"0")
    with Schedule() as schedule:
        begin = schedule.start(store.begin, "begin.registered").arrive()
        store.keyspace("k").put(b"a", b"1")
        begin.finish().rollback()
    wait_until(lambda: superseded(store) == (0, 0))


def test_a_begin_that_draws_twice_leaves_nothing_in_the_history(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"a", b"0")
    store.checkpoint()
    with Schedule() as schedule:
        begin = schedule.start(store.begin, "begin.registered").arrive()
        store.keyspace("k").put(b"a", b"1")
        store.checkpoint()
        begin.finish().rollback()
    wait_until(lambda: superseded(store) == (0, 0))
