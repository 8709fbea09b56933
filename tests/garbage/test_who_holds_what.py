"""Each holder of versions is named, with exactly what could be collected if it alone ended (invariant 6)."""

from __future__ import annotations

import random
import sys

import pytest

import lowtide
from lowtide.engine.garbage import account
from tests.conftest import OpenStore
from tests.garbage.background import still, wait_until
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of

PREFIX = 4


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    return open_store(checkpointer="thread")


def put(store: lowtide.Store, key: bytes, value: bytes) -> None:
    store.keyspace("k").put(key, value)


def held(store: lowtide.Store) -> dict[int, tuple[int, int]]:
    """Versions and bytes by timestamp."""
    return {each.ts: (each.versions_held, each.bytes_held) for each in store.stats().snapshots}


def kept(store: lowtide.Store) -> tuple[int, int]:
    """All versions in memory and in the history, and their bytes."""
    stats = store.stats()
    history, rest = parts_of(store).base.history_sizes(b"\0", 1 << 30)
    assert rest is None
    return stats.versions + stats.history, stats.version_bytes + sum(size for *_, size in history)


def test_each_is_named_with_its_place_and_what_it_holds(store: lowtide.Store) -> None:
    put(store, b"x", b"one")
    first, first_line = store.snapshot(), sys._getframe().f_lineno
    put(store, b"x", b"three")
    second, second_line = store.begin(), sys._getframe().f_lineno
    put(store, b"x", b"last")
    for _ in range(2):
        older, younger = store.stats().snapshots
        assert (older.ts, older.where) == (first.ts, f"{__file__}:{first_line}")
        assert (older.versions_held, older.bytes_held) == (1, PREFIX + 1 + 3)
        assert (younger.ts, younger.where) == (second.ts, f"{__file__}:{second_line}")
        assert (younger.versions_held, younger.bytes_held) == (1, PREFIX + 1 + 5)
        store.checkpoint()  # and once more from the history


@pytest.mark.parametrize("checkpointed", [False, True])
def test_what_two_of_them_see_is_held_by_neither_alone(store: lowtide.Store, checkpointed: bool) -> None:
    put(store, b"x", b"0")
    first = store.snapshot()
    put(store, b"other", b"0")
    second = store.snapshot()
    put(store, b"x", b"1")
    if checkpointed:
        store.checkpoint()
    assert held(store) == {first.ts: (0, 0), second.ts: (0, 0)}
    first.close()
    assert held(store) == {second.ts: (1, PREFIX + 1 + 1)}


def test_two_at_one_timestamp_are_each_counted_with_what_they_hold_together(store: lowtide.Store) -> None:
    put(store, b"x", b"0")
    snapshots = [store.snapshot(), store.snapshot()]
    put(store, b"x", b"1")
    assert [each.versions_held for each in store.stats().snapshots] == [1, 1]
    snapshots[0].close()
    assert [each.versions_held for each in store.stats().snapshots] == [1]


def test_a_deletion_that_was_overwritten_counts_with_its_key(store: lowtide.Store) -> None:
    put(store, b"x", b"0")
    store.keyspace("k").delete(b"x")
    snapshot = store.snapshot()
    put(store, b"x", b"1")
    assert held(store) == {snapshot.ts: (1, PREFIX + 1)}


@pytest.mark.parametrize("seed", range(12))
def test_what_a_snapshot_holds_alone_is_what_goes_when_it_ends(store: lowtide.Store, seed: int) -> None:
    """Readers at random times over random updates, deletions and checkpoints; then they end in random order."""
    dice = random.Random(seed)
    readers: dict[int, lowtide.Snapshot] = {}
    for number in range(200):
        key = b"%d" % dice.randrange(8)
        if dice.random() < 0.2:
            store.keyspace("k").delete(key)
        else:
            put(store, key, b"v" * dice.randrange(1, 30))
        if dice.random() < 0.1:
            readers[number] = store.snapshot()
        if dice.random() < 0.03:
            store.checkpoint()
    store.collect_garbage()
    order = list(readers.values())
    dice.shuffle(order)
    with still(store):
        for reader in order:
            versions, size = held(store)[reader.ts]
            before = kept(store)
            reader.close()
            store.collect_garbage()
            assert kept(store) == (before[0] - versions, before[1] - size)


def test_nothing_is_walked_while_nobody_lives(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, b"x", b"0")
    monkeypatch.setattr(account, "superseded", lambda *_: pytest.fail("it was walked"))
    monkeypatch.setattr(account, "held_alone", lambda *_: pytest.fail("it was counted"))
    assert store.stats().snapshots == []
    assert "lowtide_snapshots" in store.metrics()


def test_what_a_pin_sees_too_is_not_held_by_the_snapshot_alone(store: lowtide.Store) -> None:
    put(store, b"x", b"0")
    store.keyspace("other").put(b"y", b"0")
    snapshot = store.snapshot()
    put(store, b"z", b"0")
    store.pin("scoped", keyspaces=["other"])
    put(store, b"x", b"1")
    store.keyspace("other").put(b"y", b"1")
    store.checkpoint()
    assert held(store) == {snapshot.ts: (1, PREFIX + 1 + 1)}, "x alone: y is seen by the pin as well"
    snapshot.close()
    (pin,) = store.stats().pins
    assert (pin.name, pin.versions_held, pin.bytes_held) == ("scoped", 1, PREFIX + 1 + 1)


def test_each_pin_is_named_with_its_owner_its_time_and_what_it_holds(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock, monitor_interval=3600, checkpointer="thread")
    put(store, b"x", b"old")
    store.pin("report", ttl=60)
    line = sys._getframe().f_lineno - 1
    clock.advance(20)
    store.pin("scoped", ttl=60, keyspaces=["k"])
    put(store, b"x", b"new")
    store.checkpoint()
    report, scoped = store.stats().pins
    assert (report.name, report.ts, report.age, report.expires_in, report.keyspaces) == ("report", 1, 20, 40, None)
    assert f"{__file__}:{line}" in report.owner
    assert (scoped.name, scoped.age, scoped.keyspaces) == ("scoped", 0, ("k",))
    assert (report.versions_held, report.bytes_held) == (1, PREFIX + 1 + 3), "both are at commit 1"
    assert store.unpin("scoped")
    assert [each.name for each in store.stats().pins] == ["report"]


def test_a_pin_whose_time_is_over_is_expired_by_the_monitor(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock, monitor_interval=3600, collect_threshold=1, checkpointer="thread")
    put(store, b"x", b"0")
    store.pin("short", ttl=10)
    put(store, b"x", b"1")
    store.checkpoint()
    assert store.stats().history == 1
    clock.advance(11)
    parts_of(store).monitor.tick()
    wait_until(lambda: store.stats().history == 0)
