"""A follower in the process of the owner: what it sees, and how it continues without its pin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lowtide
from lowtide.engine.base import borrowing
from lowtide.engine.base.leases import Leases
from lowtide.engine.log import cursor as cursor_module
from lowtide.options import Options
from lowtide.sharing import follower as module
from lowtide.sharing.follower import Follower
from lowtide.sharing.pins.snapshot import Renewer
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of
from tests.support.schedule import Schedule


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(open_store: OpenStore, clock: ManualClock) -> lowtide.Store:
    """The owner. Nothing happens in it by itself, and its log is kept."""
    store = open_store(clock=clock, monitor_interval=3600, checkpointer="thread", feed_bytes=1 << 30)
    put(store, b"1")
    store.checkpoint()
    return store


@pytest.fixture
def reader(store: lowtide.Store, open_store: OpenStore, clock: ManualClock) -> lowtide.Store:
    """A follower that starts again at every checkpoint of the owner."""
    return open_store(read_only=True, clock=clock, checkpoint_versions=1)


def put(store: lowtide.Store, value: bytes, *keys: bytes) -> None:
    for key in keys or (b"x",):
        store.keyspace("k").put(key, value)


def get(store: lowtide.Store | lowtide.Transaction | lowtide.Snapshot, key: bytes = b"x") -> bytes | None:
    return store.keyspace("k").get(key)


def follower_of(reader: lowtide.Store) -> Follower:
    parts = reader._backend
    assert isinstance(parts, Follower)
    return parts


def move(store: lowtide.Store, reader: lowtide.Store, value: bytes) -> None:
    """Have the reader begin another generation."""
    before = follower_of(reader)._current
    put(store, value)
    assert get(reader) == value
    store.checkpoint()
    put(store, value)
    assert get(reader) == value
    assert follower_of(reader)._current is not before


def readers_of(store: lowtide.Store) -> int:
    """How many have borrowed the base, besides its owner."""
    return borrowing._uses[parts_of(store).base].readers


# Levels and scans


def test_a_commit_that_is_logged_but_not_published_is_not_shown(store: lowtide.Store, reader: lowtide.Store) -> None:
    """It may still fail, or be lost in a power loss before it is acknowledged."""
    assert get(reader) == b"1"
    put(store, b"2")
    with Schedule() as schedule:
        schedule.start(lambda: put(store, b"3"), "commit.publish").arrive()
        assert get(reader) == b"2"
        with reader.snapshot() as snapshot:
            assert get(snapshot) == b"2"
    assert get(reader) == b"3"


@pytest.mark.parametrize("level", ["none", "snapshot_read", "read_committed", "snapshot", "serializable"])
def test_a_transaction_of_any_level_is_one_snapshot_of_what_was_there_when_it_began(
    store: lowtide.Store, reader: lowtide.Store, level: str
) -> None:
    with reader.transaction(level) as tx:
        assert get(tx) == b"1"
        move(store, reader, b"2")
        move(store, reader, b"3")
        assert get(tx) == b"1"
        assert list(tx.keyspace("k").scan()) == [(b"x", b"1")]
    assert reader.run(get, level) == b"3"


def test_a_scan_that_begins_after_it_was_asked_for_sees_what_is_there_then(
    store: lowtide.Store, reader: lowtide.Store
) -> None:
    scan = reader.keyspace("k").scan()
    move(store, reader, b"2")
    move(store, reader, b"3")
    assert list(scan) == [(b"x", b"3")]


# Without its pin


def lose_pins(store: lowtide.Store) -> None:
    pins = store.pins()
    assert pins
    for pin in pins:
        store.unpin(pin.name)


def test_a_reader_that_lost_its_pin_answers_the_next_read_by_a_new_one(
    store: lowtide.Store, reader: lowtide.Store
) -> None:
    assert get(reader, b"other") is None
    lose_pins(store)
    assert get(reader) == b"1"
    with reader.transaction() as tx:
        assert get(tx, b"another") is None
    assert len(store.pins()) == 1


def test_a_snapshot_that_lost_its_pin_ends_and_the_next_one_reads(store: lowtide.Store, reader: lowtide.Store) -> None:
    with reader.snapshot() as lost:
        lose_pins(store)
        with pytest.raises(lowtide.SnapshotExpired):
            get(lost)
        with reader.snapshot() as snapshot:
            assert get(snapshot) == b"1"
        with pytest.raises(lowtide.SnapshotExpired):
            get(lost)


def test_a_scan_of_a_reader_that_lost_its_pin_begins_at_a_new_one(store: lowtide.Store, reader: lowtide.Store) -> None:
    assert get(reader) == b"1"
    lose_pins(store)
    assert list(reader.keyspace("k").scan()) == [(b"x", b"1")]


def test_a_pin_that_is_renewed_late_is_good_while_nobody_removed_it(
    store: lowtide.Store, reader: lowtide.Store, clock: ManualClock
) -> None:
    """A checkpoint may hold LMDB's writers up for longer than the lease; the row was there all the time."""
    with reader.snapshot() as snapshot:
        clock.advance(1000)
        assert get(snapshot) == b"1"


# How much is read


@pytest.mark.parametrize("live", [True, False])
def test_a_reader_that_is_far_behind_the_base_begins_there(
    store: lowtide.Store, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    monkeypatch.setattr(module, "_BEHIND", 10, raising=False)
    reader = open_store(read_only=True)
    with reader.snapshot() as snapshot:
        assert get(snapshot) == b"1"
        if not live:
            snapshot.close()
        put(store, b"2", *(b"%d" % number for number in range(30)))
        store.checkpoint()
        assert get(reader, b"29") == b"2"
        assert reader.stats().versions == 0
        assert not live or get(snapshot) == b"1"


def test_a_few_large_commits_are_not_all_read_when_the_base_has_them(
    store: lowtide.Store, open_store: OpenStore
) -> None:
    reader = open_store(read_only=True, checkpoint_bytes=10_000)
    assert get(reader) == b"1"
    put(store, bytes(1000), *(b"%d" % number for number in range(50)))
    store.checkpoint()
    with reader.snapshot() as snapshot:
        assert get(snapshot, b"49") == bytes(1000)
    assert reader.stats().version_bytes < 20_000


# Who holds what


def test_the_figures_name_the_snapshots_of_every_generation(store: lowtide.Store, reader: lowtide.Store) -> None:
    with reader.snapshot() as first:
        move(store, reader, b"2")
        with reader.snapshot() as second:
            move(store, reader, b"3")
            assert [each.ts for each in reader.stats().snapshots] == [first.ts, second.ts]
    assert reader.stats().snapshots == []


# Closing


def test_a_pin_that_cannot_be_removed_does_not_keep_a_reader_from_closing(
    store: lowtide.Store, reader: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert get(reader) == b"1"

    def remove(*_: Any) -> None:
        raise lowtide.DiskFull("no room")

    monkeypatch.setattr(Leases, "remove", remove)
    reader.close()
    assert readers_of(store) == 0


def test_a_close_that_was_interrupted_can_be_repeated_and_takes_nothing_from_others(
    store: lowtide.Store, reader: lowtide.Store, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_store(read_only=True)
    assert get(reader) == get(other) == b"1"
    close, interruptions = Renewer.close, [KeyboardInterrupt()]

    def interrupted(renewer: Renewer) -> None:
        close(renewer)
        if interruptions:
            raise interruptions.pop()

    monkeypatch.setattr(Renewer, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reader.close()
    reader.close()
    reader.close()
    assert readers_of(store) == 1
    assert get(other) == b"1"
    assert len(store.pins()) == 1
    with pytest.raises(lowtide.UsageError, match="closed"):
        get(reader)


def test_a_read_that_comes_upon_a_close_begins_nothing_new(
    store: lowtide.Store, reader: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked whether the store is open, then another thread closed it, then it got the lock."""
    check, closers = Follower.check_open, [reader.close]

    def check_then_close(follower: Follower) -> None:
        check(follower)
        if closers:
            closers.pop()()

    monkeypatch.setattr(Follower, "check_open", check_then_close)
    with pytest.raises(lowtide.UsageError, match="closed"):
        reader.snapshot()
    assert not closers
    assert store.pins() == []


def test_the_newest_value_of_a_key_is_found_in_base_and_log(store: lowtide.Store) -> None:
    fruit = store.keyspace("fruit")
    fruit.put(b"apple", b"green")
    prefix = store._backend.engine.catalog.prefix_of("fruit")
    follower = Follower(store.path, Options(read_only=True))
    try:
        assert follower.newest(prefix + b"apple") == b"green"
        store.checkpoint()
        assert follower.newest(prefix + b"apple") == b"green"
        fruit.put(b"apple", b"red")
        assert follower.newest(prefix + b"apple") == b"red"
        fruit.delete(b"apple")
        assert follower.newest(prefix + b"apple") is None
        store.checkpoint()
        assert follower.newest(prefix + b"apple") is None
    finally:
        follower.close()


@pytest.mark.parametrize("commits", [1, 3])
@pytest.mark.parametrize("where", ["read", "publish", "published"])
def test_a_read_that_is_interrupted_while_it_follows_the_log_loses_no_commit(
    store: lowtide.Store, reader: lowtide.Store, monkeypatch: pytest.MonkeyPatch, where: str, commits: int
) -> None:
    """What was read of the log, and not published here yet, is read again."""
    assert get(reader) == b"1"
    keys = [b"%d" % number for number in range(commits)]
    put(store, b"2", *keys)
    generation = follower_of(reader)._current
    assert generation is not None
    original = generation.versions.publish

    def interrupted(ts: int, writes: dict[bytes, bytes | None]) -> list[bytes]:
        monkeypatch.undo()
        if where == "published":
            original(ts, writes)
        raise KeyboardInterrupt

    if where == "read":
        monkeypatch.setattr(cursor_module, "decode", _interrupt(monkeypatch))
        monkeypatch.setattr(cursor_module, "decode_payloads", _interrupt(monkeypatch))
    else:
        monkeypatch.setattr(generation.versions, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        get(reader)

    assert [get(reader, key) for key in keys] == [b"2"] * commits
    assert follower_of(reader)._current is generation
    active = generation.versions.active
    counted = active.versions, active.bytes
    active.recount()
    assert (active.versions, active.bytes) == counted


@pytest.mark.parametrize("after", [1, 2, 3])
def test_commits_of_one_key_that_are_published_together_keep_their_order_after_an_interrupt(
    store: lowtide.Store, reader: lowtide.Store, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    assert get(reader) == b"1"
    put(store, b"2")
    assert get(reader) == b"2"  # its place in the log is known: the next commits are read together
    for number in (b"3", b"4", b"5"):
        put(store, number)
    generation = follower_of(reader)._current
    assert generation is not None
    original, published = generation.versions.publish, []

    def interrupted(ts: int, writes: dict[bytes, bytes | None]) -> list[bytes]:
        published.append(ts)
        grown = original(ts, writes)
        if len(published) == after:
            monkeypatch.undo()
            raise KeyboardInterrupt
        return grown

    monkeypatch.setattr(generation.versions, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        get(reader)
    assert len(published) == after
    put(store, b"6")
    assert get(reader) == b"6"
    generation.versions.active.check()
    chain = generation.versions.active.chains
    assert all(older is None for _, _, older in chain.values())


def _interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def interrupt(*_: object) -> Any:
        monkeypatch.undo()
        raise KeyboardInterrupt

    return interrupt
