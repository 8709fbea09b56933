"""Pins of an open store: what they hold, when they release it, and what can be read at them."""

from __future__ import annotations

from typing import Any

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(open_store: OpenStore, clock: ManualClock) -> lowtide.Store:
    """Nothing happens in it by itself."""
    return open_store(clock=clock, monitor_interval=3600, checkpointer="thread", collect_threshold=10**9)


def put(store: lowtide.Store, value: bytes, keyspace: str = "k", key: bytes = b"x") -> None:
    store.keyspace(keyspace).put(key, value)


def read(snapshot: lowtide.Snapshot, keyspace: str = "k", key: bytes = b"x") -> bytes | None:
    found = snapshot.keyspace(keyspace).get(key)
    assert dict(snapshot.keyspace(keyspace).scan()).get(key) == found
    return found


def history(store: lowtide.Store) -> int:
    """How many superseded versions are left after a thorough collection."""
    store.collect_garbage()
    return store.stats().history


def test_a_pin_keeps_the_last_commit_and_costs_one_checkpoint_at_most(store: lowtide.Store) -> None:
    put(store, b"1")
    pin = store.pin("p")
    assert (pin.ts, store.stats().boundary, store.stats().checkpoints) == (1, 1, 1)
    store.pin("q")
    assert store.stats().checkpoints == 1
    for value in (b"2", b"3", b"4"):
        put(store, value)
        store.checkpoint()
    assert history(store) == 1, "one version, not one per write"
    with store.snapshot(at=pin) as by_pin, store.snapshot(at="p") as by_name, store.snapshot(at=1) as by_ts:
        assert [read(each) for each in (by_pin, by_name, by_ts)] == [b"1"] * 3


def test_the_end_of_the_last_pin_leaves_nothing_behind(store: lowtide.Store) -> None:
    put(store, b"1")
    store.pin("p")
    store.pin("q")
    put(store, b"2")
    store.checkpoint()
    assert store.unpin("p")
    assert history(store) == 1
    assert store.unpin("q")
    assert not store.unpin("q")
    assert history(store) == 0
    for at in ("p", 1):
        with pytest.raises(lowtide.SnapshotExpired):
            store.snapshot(at=at)


def test_a_snapshot_at_a_pin_holds_by_itself_when_the_pin_goes(store: lowtide.Store) -> None:
    put(store, b"1")
    store.pin("p")
    put(store, b"2")
    store.checkpoint()
    with store.snapshot(at="p") as snapshot:
        store.unpin("p")
        assert history(store) == 1
        put(store, b"3")
        store.checkpoint()
        assert (read(snapshot), history(store)) == (b"1", 1)
    assert history(store) == 0


def test_a_pin_expires_and_what_it_held_goes(store: lowtide.Store, clock: ManualClock) -> None:
    put(store, b"1")
    pin = store.pin("p", ttl=10)
    put(store, b"2")
    store.checkpoint()
    clock.advance(9)
    assert [each.name for each in store.pins()] == ["p"]
    assert history(store) == 1
    pin.renew()
    clock.advance(9)
    assert history(store) == 1
    clock.advance(1)
    assert store.pins() == []
    for at in (pin, "p", 1):
        with pytest.raises(lowtide.SnapshotExpired):
            store.snapshot(at=at)
    assert history(store) == 0
    assert store.stats().pins == []


def test_pins_survive_a_restart_and_expire_in_time_after_it(
    store: lowtide.Store, open_store: OpenStore, clock: ManualClock
) -> None:
    put(store, b"1")
    store.pin("p", ttl=100)
    store.pin("short", ttl=10)
    put(store, b"2")
    store.close()
    clock.advance(10)
    again = open_store(clock=clock, monitor_interval=3600)
    assert [each.name for each in again.pins()] == ["p"]
    with again.snapshot(at="p") as snapshot:
        assert read(snapshot) == b"1"
    clock.advance(90)
    assert history(again) == 0


def test_what_the_snapshots_of_an_earlier_owner_saw_goes_though_pins_live_on(
    store: lowtide.Store, open_store: OpenStore, clock: ManualClock
) -> None:
    put(store, b"1")
    store.pin("p", ttl=100)
    put(store, b"2")
    snapshot = store.snapshot()
    put(store, b"3")
    store.close()  # the snapshot is still open: the last checkpoint keeps what it sees
    del snapshot
    again = open_store(clock=clock, monitor_interval=3600)
    parts = parts_of(again)
    parts.maintenance.close()  # after what it had to do
    assert again.stats().history == 1


# Scopes


def test_a_scoped_pin_holds_only_what_it_names(store: lowtide.Store) -> None:
    for keyspace in ("a", "b", "c"):
        put(store, b"1", keyspace)
    pin = store.pin("p", keyspaces=["a", "c"])
    for keyspace in ("a", "b", "c"):
        put(store, b"2", keyspace)
        store.keyspace(keyspace).delete(b"x")
    store.checkpoint()
    assert store.stats().history == history(store) == 2
    assert pin.keyspaces == ("a", "c")
    with store.snapshot(at=pin) as snapshot:
        assert (read(snapshot, "a"), read(snapshot, "c")) == (b"1", b"1")
        with pytest.raises(lowtide.UsageError, match="'a', 'c' only"):
            snapshot.keyspace("b")
    store.unpin("p")
    assert history(store) == 0


def test_a_pin_of_a_keyspace_that_comes_later_sees_it_empty(store: lowtide.Store) -> None:
    put(store, b"1", "a")
    pin = store.pin("p", keyspaces=["later"])
    put(store, b"1", "later")
    put(store, b"2", "later")
    store.checkpoint()
    put(store, b"3", "later")
    store.checkpoint()
    with store.snapshot(at=pin) as snapshot:
        assert read(snapshot, "later") is None
    assert history(store) == 0


def test_the_scope_of_a_pin_is_the_scope_of_every_snapshot_at_it(store: lowtide.Store) -> None:
    """Also where more would be there: at the last commit, or beside a snapshot of everything."""
    put(store, b"1", "a")
    put(store, b"1", "b")
    pin = store.pin("p", keyspaces=["a"])
    with store.snapshot(), store.snapshot(at=pin) as snapshot:
        assert snapshot.keyspaces == ("a",)
        with pytest.raises(lowtide.UsageError):
            snapshot.keyspace("b")


def test_nobody_leans_on_a_snapshot_that_sees_only_a_part(store: lowtide.Store) -> None:
    """A snapshot at the same timestamp, but of everything, would find b as it never was then."""
    put(store, b"1", "a")
    put(store, b"1", "b")
    pin = store.pin("p", keyspaces=["a"])
    put(store, b"2", "a")
    put(store, b"2", "b")
    store.checkpoint()
    with store.snapshot(at=pin) as partial:
        with store.snapshot(at=pin.ts) as same:
            assert same.keyspaces == ("a",)
            assert read(same, "a") == b"1"
        with pytest.raises(lowtide.UsageError):
            store.pin("q", at=pin.ts, keyspaces=["b"])
        store.unpin("p")
        with pytest.raises(lowtide.SnapshotExpired):
            store.snapshot(at=partial.ts)
        assert read(partial, "a") == b"1"


def test_a_pin_at_a_pin_holds_what_that_holds(store: lowtide.Store) -> None:
    put(store, b"1", "a")
    put(store, b"1", "b")
    store.pin("scoped", keyspaces=["a", "b"])
    put(store, b"2", "a")
    put(store, b"2", "b")
    store.checkpoint()
    assert store.pin("same", at="scoped").keyspaces == ("a", "b")
    assert store.pin("less", at="scoped", keyspaces=["a"]).ts == 2
    with pytest.raises(lowtide.UsageError):
        store.pin("more", at="scoped", keyspaces=["a", "c"])
    store.unpin("scoped")
    store.unpin("same")
    assert history(store) == 1
    with store.snapshot(at="less") as snapshot:
        assert read(snapshot, "a") == b"1"


# Names, and what can be pinned


def test_a_pin_object_is_not_the_pin_that_took_its_name(store: lowtide.Store) -> None:
    put(store, b"1")
    old = store.pin("p")
    old.release()
    put(store, b"2")
    new = store.pin("p")
    with pytest.raises(lowtide.SnapshotExpired):
        store.snapshot(at=old)
    old.release()
    with store.snapshot(at="p") as snapshot:
        assert (read(snapshot), snapshot.ts) == (b"2", new.ts)


def test_a_name_that_is_taken_again_in_the_middle_of_a_begin_is_another_pin(store: lowtide.Store) -> None:
    """The snapshot would be registered where the first pin lay, whose versions are gone, and lean on the second."""
    put(store, b"1")
    store.pin("p")
    put(store, b"2")
    store.checkpoint()
    leases = parts_of(store).pinning.leases
    find = leases.find

    def find_and_be_overtaken(name: str, identity: bytes | None = None) -> object:
        leases.find = find  # type: ignore[method-assign]
        row = find(name, identity)
        store.unpin("p")
        store.collect_garbage()
        assert store.pin("p").ts == 2
        return row

    leases.find = find_and_be_overtaken  # type: ignore[method-assign, assignment]
    with pytest.raises(lowtide.SnapshotExpired):
        store.snapshot(at="p")
    assert store.stats().snapshots == []


def test_a_commit_that_a_live_snapshot_holds_can_be_pinned(store: lowtide.Store) -> None:
    put(store, b"1")
    with store.snapshot() as snapshot:
        put(store, b"2")
        pin = store.pin("p", at=snapshot.ts)
    assert (pin.ts, history(store)) == (1, 1)
    with store.snapshot(at=pin) as again:
        assert read(again) == b"1"


def test_what_nobody_holds_cannot_be_pinned_nor_what_is_still_to_come(store: lowtide.Store) -> None:
    put(store, b"1")
    put(store, b"2")
    with pytest.raises(lowtide.SnapshotExpired):
        store.pin("p", at=1)
    with pytest.raises(lowtide.UsageError, match="does not exist yet"):
        store.pin("p", at=3)
    with pytest.raises(lowtide.SnapshotExpired):
        store.pin("p", at="q")
    assert store.pins() == []
    assert store.stats().snapshots == []


def test_a_refused_name_leaves_no_snapshot_behind(store: lowtide.Store) -> None:
    store.pin("p")
    with pytest.raises(lowtide.UsageError, match="exists"):
        store.pin("p")
    assert store.stats().snapshots == []


def test_a_snapshot_that_expired_before_the_pin_was_written_pins_nothing(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = open_store(clock=clock, monitor_interval=3600, max_snapshot_age=10)
    put(store, b"1")
    pinning = parts_of(store).pinning
    checkpoint = pinning._checkpoint

    def expire_meanwhile(ts: int) -> object:
        clock.advance(10)
        parts_of(store).monitor.tick()
        return checkpoint(ts)

    pinning._checkpoint = expire_meanwhile
    with pytest.raises(lowtide.SnapshotExpired):
        store.pin("p")
    assert store.pins() == []


def test_pins_are_named_with_what_they_hold_alone(store: lowtide.Store) -> None:
    put(store, b"1")
    store.pin("p", ttl=50)
    put(store, b"2")
    store.checkpoint()
    [stats] = store.stats().pins
    assert (stats.name, stats.ts, stats.versions_held) == ("p", 1, 1)
    assert "test_owner.py" in stats.owner


def test_the_owner_collects_what_a_pin_held_whose_remover_died_before_it_said_so(store: lowtide.Store) -> None:
    from lowtide.engine.base.leases import Leases

    put(store, b"1")
    store.pin("p")
    put(store, b"2")
    store.checkpoint()
    parts = parts_of(store)
    Leases(parts.base, parts.engine.time).remove("p")
    assert not parts.collector.wanted
    parts.monitor.tick()
    parts.maintenance.close()
    assert store.stats().history == 0


def test_a_closed_store_pins_nothing(store: lowtide.Store) -> None:
    store.close()
    for use in (lambda: store.pin("p"), lambda: store.unpin("p"), store.pins, lambda: store.snapshot(at="p")):
        with pytest.raises(lowtide.UsageError, match="closed"):
            use()


@pytest.mark.parametrize("at", [1.0, True, b"p", [1], {}])
@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_neither_pin_nor_commit_is_refused_and_not_taken_for_one_that_is_gone(
    store: lowtide.Store, open_store: OpenStore, at: Any, read_only: bool
) -> None:
    """SnapshotExpired would be tried again."""
    put(store, b"1")
    with store.pin("p"):
        which = open_store(read_only=True) if read_only else store
        with pytest.raises(lowtide.UsageError, match="at must be a pin"):
            which.snapshot(at=at)
        with pytest.raises(lowtide.UsageError, match="at must be a pin"):
            which.pin("q", at=at)
        assert not any(pin.name == "q" for pin in store.pins())
