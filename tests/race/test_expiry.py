"""A snapshot that expires while it is read or committed gives no wrong answer, because it is checked after the read.

In each schedule the reader has stopped in the middle when its snapshot expires and everything kept for it is collected.
If it checked before the read, it would continue and return what is left.
"""

from __future__ import annotations

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of
from tests.support.schedule import Schedule

AGE = 10.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(open_store: OpenStore, clock: ManualClock) -> lowtide.Store:
    """The monitor's own thread never runs: the tests call ``tick``."""
    return open_store(max_snapshot_age=AGE, monitor_interval=3600, clock=clock, checkpointer="thread")


def put(store: lowtide.Store, key: bytes, value: bytes) -> None:
    store.keyspace("k").put(key, value)


def expire_and_collect(store: lowtide.Store, clock: ManualClock) -> None:
    clock.advance(AGE)
    parts_of(store).monitor.tick()
    store.checkpoint()
    store.collect_garbage()
    assert (store.stats().snapshots, store.stats().history) == ([], 0)


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("kind", ["snapshot", "transaction", "serializable"])
def test_a_read_in_the_middle_of_which_its_snapshot_expires_is_refused(
    store: lowtide.Store, clock: ManualClock, kind: str, checkpointed: bool
) -> None:
    put(store, b"x", b"old")
    store.checkpoint()
    reader = store.snapshot() if kind == "snapshot" else store.begin("snapshot" if kind == "transaction" else kind)
    with Schedule() as schedule:
        read = schedule.start(lambda: reader.keyspace("k").get(b"x"), "read.base").arrive()
        put(store, b"x", b"new")
        if checkpointed:
            store.checkpoint()
            assert store.stats().history == 1
        expire_and_collect(store, clock)
        with pytest.raises(lowtide.SnapshotExpired):
            read.finish()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", ["snapshot", "transaction", "serializable", "snapshot_read", "autocommit"])
def test_a_scan_in_the_middle_of_which_its_snapshot_expires_is_refused(
    store: lowtide.Store, clock: ManualClock, kind: str, reverse: bool
) -> None:
    for number in range(10):
        put(store, b"%d" % number, b"old")
    store.checkpoint()
    reader: lowtide.Snapshot | lowtide.Transaction | lowtide.Store
    if kind == "autocommit":
        reader = store
    else:
        reader = store.snapshot() if kind == "snapshot" else store.begin("snapshot" if kind == "transaction" else kind)
    with Schedule() as schedule:
        scan = schedule.start(lambda: next(reader.keyspace("k").scan(reverse=reverse)), "scan.base").arrive()
        for number in (0, 9):
            store.keyspace("k").delete(b"%d" % number)
        store.checkpoint()
        expire_and_collect(store, clock)
        with pytest.raises(lowtide.SnapshotExpired):
            scan.finish()


def test_a_commit_in_whose_validation_its_snapshot_expires_is_refused(store: lowtide.Store, clock: ManualClock) -> None:
    """The tombstone goes when no earlier writer is live. A commit that checks its snapshot first, and then finds no
    row, would overwrite what it never saw."""
    put(store, b"x", b"old")
    store.checkpoint()
    tx = store.begin()
    tx.keyspace("k").put(b"x", b"mine")
    store.keyspace("k").delete(b"x")
    store.checkpoint()
    with Schedule() as schedule:
        commit = schedule.start(tx.commit, "commit.validate").arrive()
        clock.advance(AGE)
        parts_of(store).monitor.tick()
        store.collect_garbage()
        with pytest.raises(lowtide.SnapshotExpired):
            commit.finish()
    assert store.keyspace("k").get(b"x") is None
    assert store.stats().conflicts == 0


def test_a_snapshot_that_is_closed_while_it_is_being_expired_leaves_no_note(
    store: lowtide.Store, clock: ManualClock
) -> None:
    """The last of the two removes the note; a note without an owner would stay until the store is closed."""
    registry = parts_of(store).registry
    snapshot = store.snapshot()
    clock.advance(AGE)
    with Schedule() as schedule:
        tick = schedule.start(parts_of(store).monitor.tick, "expire.noted").arrive()
        assert registry.expired
        snapshot.close()
        tick.finish()
    assert registry.expired == {}
    assert (store.stats().expired, registry.live, registry.details) == (0, {}, {})


def test_the_note_is_there_before_anything_can_be_collected(store: lowtide.Store, clock: ManualClock) -> None:
    put(store, b"x", b"old")
    snapshot = store.snapshot()
    put(store, b"x", b"new")
    clock.advance(AGE)
    with Schedule() as schedule:
        tick = schedule.start(parts_of(store).monitor.tick, "expire.noted").arrive()
        store.collect_garbage()
        assert store.stats().versions == 2
        with pytest.raises(lowtide.SnapshotExpired):
            snapshot.keyspace("k").get(b"x")
        tick.finish()
    assert store.stats().versions == 1


def test_a_read_in_the_middle_of_which_the_snapshot_is_closed_is_refused(store: lowtide.Store) -> None:
    """Another thread closes it. The same check after the read finds this."""
    put(store, b"x", b"old")
    store.checkpoint()
    snapshot = store.snapshot()
    with Schedule() as schedule:
        read = schedule.start(lambda: snapshot.keyspace("k").get(b"x"), "read.base").arrive()
        put(store, b"x", b"new")
        store.checkpoint()
        snapshot.close()
        store.collect_garbage()
        with pytest.raises(lowtide.UsageError, match="closed"):
            read.finish()


@pytest.mark.parametrize("place", ["chains", "moving"])
def test_readers_that_expire_all_the_time_read_one_instant_or_nothing(open_store: OpenStore, place: str) -> None:
    """Every commit sets all keys to one value. The limit is so short, and the reading so long, that snapshots expire
    in mid-read; it goes on until some have."""
    store = open_store(
        max_snapshot_age=0.001,
        monitor_interval=0.001,
        collect_threshold=1,
        checkpointer="thread",
        checkpoint_bytes=2000,
    )
    keys = [b"%02d" % number for number in range(20)]
    outcomes: list[str] = []

    def enough() -> bool:
        return outcomes.count("expired") >= 30

    def write_all(value: bytes) -> None:
        with store.transaction("read_committed") as tx:
            for key in keys:
                tx.keyspace("k").put(key, value)

    def write() -> None:
        number = 0
        while not enough():
            number += 1
            write_all(b"%d" % number)
            if place == "moving" and number % 20 == 0:
                store.checkpoint()

    def read() -> None:
        rounds = 0
        while not enough():
            rounds = (rounds + 1) % 100
            try:
                with store.snapshot() as snapshot:
                    keyspace = snapshot.keyspace("k")
                    found = [keyspace.get(key) for key in keys * (1 + rounds)]
                    found += [value for _, value in keyspace.scan()]
            except lowtide.SnapshotExpired:
                outcomes.append("expired")
            else:
                assert len(set(found)) == 1, found
                assert len(found) == (2 + rounds) * len(keys)
                outcomes.append("read")

    write_all(b"first")
    run_together(write, read, read)
    assert parts_of(store).registry.expired == {}


def test_a_pin_is_not_taken_on_a_snapshot_that_expired_under_it(store: lowtide.Store, clock: ManualClock) -> None:
    """The instant is held by a snapshot until the pin's row is there. A pin that stood on one that had gone would keep
    what is left."""
    put(store, b"x", b"old")
    with Schedule() as schedule:
        taking = schedule.start(lambda: store.pin("late"), "pin.take").arrive()
        put(store, b"x", b"new")
        expire_and_collect(store, clock)
        with pytest.raises(lowtide.SnapshotExpired):
            taking.finish()
    assert store.pins() == []
