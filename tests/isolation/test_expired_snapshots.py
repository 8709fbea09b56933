"""A snapshot that ``max_snapshot_age`` ends holds nothing back and cannot be read. Other snapshots are unaffected."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lowtide
from lowtide import Isolation
from tests.conftest import OpenStore
from tests.garbage.background import wait_until
from tests.isolation.world import FIRST_COMMITTER_WINS, LAST_COMMITTER_WINS
from tests.support.clocks import ManualClock
from tests.support.groups import commit_in_one_group
from tests.support.parts import parts_of

AGE = 10.0
Reader = lowtide.Snapshot | lowtide.Transaction


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opened(open_store: OpenStore, clock: ManualClock) -> Callable[..., lowtide.Store]:
    """Opens a store with three keys whose monitor's own thread never comes: the tests tick."""

    def opener(**options: Any) -> lowtide.Store:
        store = open_store(clock=clock, monitor_interval=3600, checkpointer="thread", **options)
        with store.transaction() as tx:
            for key in (b"a", b"b", b"c"):
                tx.keyspace("k").put(key, b"old")
        return store

    return opener


@pytest.fixture
def store(opened: Callable[..., lowtide.Store]) -> lowtide.Store:
    return opened(max_snapshot_age=AGE)


def overwrite(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        for key in (b"a", b"b", b"c"):
            tx.keyspace("k").put(key, b"new")


def tick(store: lowtide.Store) -> None:
    parts_of(store).monitor.tick()


def grow_old(store: lowtide.Store, clock: ManualClock) -> None:
    """Everything changes, the time is up, and what no snapshot holds is collected."""
    overwrite(store)
    clock.advance(AGE)
    tick(store)
    store.checkpoint()
    store.collect_garbage()


def readers(store: lowtide.Store) -> Iterator[Reader]:
    yield store.snapshot()
    for level in FIRST_COMMITTER_WINS:
        yield store.begin(level)
        yield store.begin(level, read_only=True)


def test_whoever_reads_an_expired_snapshot_is_told(store: lowtide.Store, clock: ManualClock) -> None:
    living = list(readers(store))
    begun = [reader.keyspace("k").scan() for reader in living]
    grow_old(store, clock)
    for reader, scan in zip(living, begun, strict=True):
        for use in (
            lambda reader=reader: reader.keyspace("k").get(b"a"),
            lambda reader=reader: reader.keyspace("k").get(b"not there"),
            lambda reader=reader: list(reader.keyspace("k").scan()),
            lambda scan=scan: next(scan),
        ):
            with pytest.raises(lowtide.SnapshotExpired, match="max_snapshot_age is 10 s"):
                use()


def test_the_error_says_how_old_it_was_and_who_had_opened_it(store: lowtide.Store, clock: ManualClock) -> None:
    snapshot, line = store.snapshot(), sys._getframe().f_lineno
    clock.advance(12.5)
    tick(store)
    with pytest.raises(lowtide.SnapshotExpired) as caught:
        snapshot.keyspace("k").get(b"a")
    assert (caught.value.age, caught.value.where) == (12.5, f"{__file__}:{line}")
    assert f"opened at {__file__}:{line}" in str(caught.value)
    assert "12.5 s" in str(caught.value)
    assert isinstance(caught.value, lowtide.TransientError)


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_transaction_whose_snapshot_expired_cannot_commit(
    store: lowtide.Store, clock: ManualClock, level: Isolation
) -> None:
    tx = store.begin(level)
    tx.keyspace("k").put(b"mine", b"1")
    clock.advance(AGE)
    tick(store)
    with pytest.raises(lowtide.SnapshotExpired):
        tx.keyspace("k").put(b"mine", b"2")
    with pytest.raises(lowtide.SnapshotExpired):
        tx.keyspace("k").get(b"mine")
    with pytest.raises(lowtide.SnapshotExpired):
        tx.commit()
    tx.rollback()  # harmless: the commit has discarded everything
    with pytest.raises(lowtide.UsageError, match="refused"):
        tx.commit()
    assert store.keyspace("k").get(b"mine") is None
    assert parts_of(store).registry.expired == {}


def test_one_in_a_group_that_expired_fails_alone(store: lowtide.Store, clock: ManualClock) -> None:
    old = store.begin()
    old.keyspace("k").put(b"old", b"1")
    clock.advance(AGE)
    tick(store)
    young = store.begin()
    young.keyspace("k").put(b"young", b"1")
    raised = commit_in_one_group(store, [old.commit, young.commit])
    assert [type(error) for error in raised] == [lowtide.SnapshotExpired, type(None)]
    assert dict(store.keyspace("k").scan(prefix=b"young")) == {b"young": b"1"}
    assert store.keyspace("k").get(b"old") is None


def test_a_transaction_that_wrote_nothing_may_end_as_it_likes(store: lowtide.Store, clock: ManualClock) -> None:
    """All that it was told was right; a transaction that only reads is never refused at its end."""
    with store.transaction(read_only=True) as tx:
        assert tx.keyspace("k").get(b"a") == b"old"
        grow_old(store, clock)
    assert parts_of(store).registry.expired == {}


def test_a_scan_shows_what_it_has_read_and_then_refuses_to_go_on(
    store: lowtide.Store, clock: ManualClock, tiny_chunks: None
) -> None:
    scans = [reader.keyspace("k").scan() for reader in (store.snapshot(), store.begin(), store.begin("snapshot_read"))]
    scans.append(store.keyspace("k").scan())
    for scan in scans:
        assert next(scan) == (b"a", b"old")
    grow_old(store, clock)
    for scan in scans:
        with pytest.raises(lowtide.SnapshotExpired):
            next(scan)
    del scan, scans
    gc.collect()
    assert parts_of(store).registry.expired == {}


@pytest.mark.parametrize("level", LAST_COMMITTER_WINS)
def test_a_transaction_below_snapshot_holds_no_snapshot_and_never_expires(
    store: lowtide.Store, clock: ManualClock, level: Isolation
) -> None:
    tx = store.begin(level)
    tx.keyspace("k").put(b"mine", b"1")
    grow_old(store, clock)
    assert tx.keyspace("k").get(b"a") == b"new"
    assert dict(tx.keyspace("k").scan())[b"mine"] == b"1"
    tx.commit()
    assert store.stats().expired == 0


@pytest.mark.parametrize("level", [Isolation.NONE, Isolation.READ_COMMITTED])
def test_a_scan_of_the_latest_state_never_expires(
    store: lowtide.Store, clock: ManualClock, level: Isolation, tiny_chunks: None
) -> None:
    """It takes a new snapshot for each chunk, and the one that it has between two of them may go."""
    scan = store.begin(level).keyspace("k").scan()
    assert next(scan) == (b"a", b"old")
    grow_old(store, clock)
    assert list(scan) == [(b"b", b"new"), (b"c", b"new")]
    assert parts_of(store).registry.expired == {}


def test_what_it_held_is_collected_though_nobody_closed_it(
    opened: Callable[..., lowtide.Store], clock: ManualClock
) -> None:
    """In memory and in the history, by the background thread, without a call of the program."""
    store = opened(max_snapshot_age=AGE, collect_threshold=1)
    forgotten = store.snapshot()
    overwrite(store)
    store.checkpoint()
    assert (store.stats().history, store.stats().versions) == (3, 0)
    overwrite(store)
    clock.advance(AGE)
    tick(store)
    wait_until(lambda: store.stats().history == 0)
    assert store.stats().snapshots == []
    assert store.stats().expired == 1
    forgotten.close()


def test_what_ends_it_afterwards_is_harmless_and_leaves_nothing(store: lowtide.Store, clock: ManualClock) -> None:
    snapshot, tx, dropped = store.snapshot(), store.begin(), store.snapshot()
    grow_old(store, clock)
    assert len(parts_of(store).registry.expired) == 3
    snapshot.close()
    tx.rollback()
    del dropped
    gc.collect()
    assert parts_of(store).registry.expired == {}
    with pytest.raises(lowtide.UsageError, match="closed"):
        snapshot.keyspace("k").get(b"a")


def test_younger_ones_are_not_touched(store: lowtide.Store, clock: ManualClock) -> None:
    old = store.snapshot()
    clock.advance(0.001)
    young = store.snapshot()
    clock.advance(AGE - 0.001)
    overwrite(store)
    tick(store)
    assert [each.age for each in store.stats().snapshots] == [pytest.approx(AGE - 0.001)]
    with pytest.raises(lowtide.SnapshotExpired):
        old.keyspace("k").get(b"a")
    assert young.keyspace("k").get(b"a") == b"old"


def test_without_a_limit_nothing_expires(opened: Callable[..., lowtide.Store], clock: ManualClock) -> None:
    store = opened()
    snapshot = store.snapshot()
    overwrite(store)
    clock.advance(1e9)
    tick(store)
    assert snapshot.keyspace("k").get(b"a") == b"old"


def test_nobody_can_join_an_expired_snapshot(store: lowtide.Store, clock: ManualClock) -> None:
    snapshot = store.snapshot()
    with store.snapshot(at=snapshot.ts):
        pass
    grow_old(store, clock)
    with pytest.raises(lowtide.SnapshotExpired):
        store.snapshot(at=snapshot.ts)


def test_run_begins_anew_when_its_snapshot_expired(store: lowtide.Store, clock: ManualClock) -> None:
    seen: list[bytes | None] = []

    def work(tx: lowtide.Transaction) -> None:
        if not seen:
            grow_old(store, clock)
        seen.append(b"tried")
        seen.append(tx.keyspace("k").get(b"a"))

    store.run(work)
    assert seen == [b"tried", b"tried", b"new"]
