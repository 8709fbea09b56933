"""A follower whose pin expired, because its process was stopped or the machine slept: old snapshots raise an error, and
new ones get a new pin."""

from __future__ import annotations

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock

LONG = 1000.0
"""Seconds, much longer than a lease."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def owner(open_store: OpenStore, clock: ManualClock) -> lowtide.Store:
    store = open_store(clock=clock, checkpointer="thread")
    store.keyspace("k").put(b"x", b"old")
    store.checkpoint()
    return store


def supersede(owner: lowtide.Store) -> None:
    """Let nothing be left of what expired pins hold."""
    owner.keyspace("k").put(b"x", b"new")
    owner.checkpoint()
    owner.collect_garbage()
    assert owner.stats().history == 0


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("removed", [False, True])
def test_whoever_begins_after_the_pin_ran_out_gets_a_new_one(
    owner: lowtide.Store, clock: ManualClock, changed: bool, removed: bool
) -> None:
    """Before the renewing thread has noticed, which counts by another clock, that may have stood still, too."""
    with lowtide.open(owner.path, read_only=True, clock=clock) as follower:
        keyspace = follower.keyspace("k")
        assert keyspace.get(b"x") == b"old"
        clock.advance(LONG)
        if changed:
            supersede(owner)
        if removed:
            owner.collect_garbage()
        expected = b"new" if changed else b"old"
        with follower.snapshot() as snapshot:
            assert dict(snapshot.keyspace("k").scan()) == {b"x": expected}
        assert keyspace.get(b"x") == expected
        assert dict(keyspace.scan()) == {b"x": expected}


@pytest.mark.parametrize("removed", [False, True])
def test_a_snapshot_whose_pin_ran_out_shows_what_it_saw_or_nothing(
    owner: lowtide.Store, clock: ManualClock, removed: bool
) -> None:
    with lowtide.open(owner.path, read_only=True, clock=clock) as follower:
        with follower.snapshot() as before:
            clock.advance(LONG)
            if removed:
                supersede(owner)
            for _ in range(2):
                if removed:
                    with pytest.raises(lowtide.SnapshotExpired):
                        list(before.keyspace("k").scan())
                else:  # its row is there, so nothing that it sees was dropped
                    assert list(before.keyspace("k").scan()) == [(b"x", b"old")]
            with follower.snapshot() as after:
                assert after.keyspace("k").get(b"x") == (b"new" if removed else b"old")
            if removed:
                with pytest.raises(lowtide.SnapshotExpired):
                    before.keyspace("k").get(b"x")
        assert len(owner.pins()) == 1
    assert owner.pins() == []
