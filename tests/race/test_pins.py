"""Pins that end while a snapshot is registered at them, or while a checkpoint or a sweep is about to read the live
ones.

The arguments are in ``sharing.pins``, ``base.pins`` and ``checkpoint.apply``: a snapshot is registered before it looks
up its pin, and code that drops versions reads the live snapshots inside the transaction in which it reads the pins.
"""

from __future__ import annotations

from typing import Any

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of
from tests.support.schedule import Schedule


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(open_store: OpenStore, clock: ManualClock) -> lowtide.Store:
    """A key with an old version that the pin p, at commit 1, holds in the history."""
    store = open_store(clock=clock, monitor_interval=3600, checkpointer="thread", collect_threshold=10**9)
    store.keyspace("k").put(b"x", b"old")
    store.pin("p", ttl=10)
    store.keyspace("k").put(b"x", b"new")
    store.checkpoint()
    assert store.stats().history == 1
    return store


def end_pin(store: lowtide.Store, clock: ManualClock, how: str) -> None:
    if how == "removed":
        store.unpin("p")
    else:
        clock.advance(10)
        parts_of(store).pinning.expire()


def read(snapshot: lowtide.Snapshot) -> bytes | None:
    return snapshot.keyspace("k").get(b"x")


@pytest.mark.parametrize("how", ["removed", "expired"])
@pytest.mark.parametrize("at", ["p", 1])
def test_a_pin_that_ends_between_a_registration_and_its_check_refuses_the_snapshot(
    store: lowtide.Store, clock: ManualClock, at: str | int, how: str
) -> None:
    with Schedule() as schedule:
        begin = schedule.start(lambda: store.snapshot(at=at), "begin.at").arrive()
        end_pin(store, clock, how)
        store.collect_garbage()
        with pytest.raises(lowtide.SnapshotExpired):
            begin.finish()
    store.collect_garbage()
    assert (store.stats().history, store.stats().snapshots) == (0, [])


@pytest.mark.parametrize("how", ["removed", "expired"])
def test_a_snapshot_that_found_its_pin_keeps_what_it_sees_however_soon_that_ends(
    store: lowtide.Store, clock: ManualClock, how: str
) -> None:
    """The sweep has begun, and is about to read the live snapshots, when the snapshot begins and the pin is removed."""
    with Schedule() as schedule:
        sweep = schedule.start(store.collect_garbage, "sweep.sampled").arrive()
        with store.snapshot(at="p") as snapshot:
            ending = schedule.start(lambda: end_pin(store, clock, how))
            sweep.finish()
            ending.finish()
            store.collect_garbage()
            store.keyspace("k").put(b"x", b"newer")
            store.checkpoint()
            assert read(snapshot) == b"old"
    store.collect_garbage()
    assert store.stats().history == 0


@pytest.mark.parametrize("how", ["removed", "expired"])
def test_a_checkpoint_that_waits_for_the_end_of_a_pin_counts_the_snapshot_at_it(
    store: lowtide.Store, clock: ManualClock, how: str
) -> None:
    """The checkpoint began before the snapshot; if it read the live ones outside its transaction, it would know of
    neither."""
    store.collect_garbage()
    store.pin("q", ttl=10)  # at the last commit, whose version this checkpoint supersedes
    store.keyspace("k").put(b"x", b"newest")
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, "checkpoint.apply").arrive()
        with store.snapshot(at="q") as snapshot:
            store.unpin("q")
            end_pin(store, clock, how)
            checkpoint.finish()
            store.collect_garbage()
            assert read(snapshot) == b"new"
    store.collect_garbage()
    assert store.stats().history == 0


@pytest.mark.parametrize("work", ["checkpoint", "sweep"])
def test_a_snapshot_takes_over_from_its_pin_just_before_the_transaction_that_drops_versions(
    store: lowtide.Store, work: str
) -> None:
    """Read before that transaction began, the live ones would include neither of the two."""
    base = parts_of(store).base
    write = base.write
    taken: list[lowtide.Snapshot] = []

    def be_overtaken(change: Any) -> Any:
        base.write = write  # type: ignore[method-assign]
        taken.append(store.snapshot(at="q"))
        store.unpin("q")
        return write(change)

    store.pin("q", ttl=10)
    store.keyspace("k").put(b"x", b"newest")
    if work == "sweep":
        store.checkpoint()
    base.write = be_overtaken  # type: ignore[method-assign, assignment]
    if work == "sweep":
        store.collect_garbage()
    else:
        store.checkpoint()
    assert read(taken[0]) == b"new"
    taken[0].close()
