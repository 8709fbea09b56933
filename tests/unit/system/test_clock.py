"""The clock is the only source of time in the store: everything that has an age or waits asks it."""

from __future__ import annotations

import time

import pytest

import lowtide
from lowtide.engine.log.reader import read_commits
from lowtide.system.clock import Clock, SystemClock
from tests.conftest import OpenStore
from tests.support.parts import parts_of


class ManualClock:
    """A clock that goes only when it is told to, and notes for how long it was asked to sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def time(self) -> float:
        return 1_700_000_000.0 + self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_the_system_clock_is_the_machines_own() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.time() - time.time()) < 60
    first = clock.monotonic()
    assert clock.monotonic() >= first
    clock.sleep(0)


def test_the_age_of_a_snapshot_is_told_by_the_clock(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock)
    with store.snapshot():
        clock.now += 7.5
        tx = store.begin()
        clock.now += 2.5
        assert [snapshot.age for snapshot in store.stats().snapshots] == [10.0, 2.5]
        tx.rollback()


def test_a_commit_carries_the_time_of_day_in_the_log(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock)
    store.keyspace("k").put(b"a", b"1")
    clock.now += 60
    with store.transaction() as tx:
        tx.keyspace("k").put(b"a", b"2")
    store_id = parts_of(store).checkpointer._store_id
    commits = list(read_commits(store.path / "log", store_id, 0, 2))
    assert [commit.time for commit in commits] == [1_700_001_000.0, 1_700_001_060.0]


def test_the_pauses_between_attempts_grow_and_stay_within_bounds(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock)

    def conflicting(tx: lowtide.Transaction) -> None:
        tx.keyspace("k").put(b"a", b"mine")
        store.keyspace("k").put(b"a", b"theirs")

    with pytest.raises(lowtide.ConflictError):
        store.run(conflicting, attempts=12)
    assert len(clock.slept) == 10, "after the third failure it waits for its turn, not for a time"
    for attempt, pause in enumerate(clock.slept):
        assert 0 <= pause <= min(0.0002 * 2**attempt, 0.05)
