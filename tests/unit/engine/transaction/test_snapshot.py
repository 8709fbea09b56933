"""Snapshots: one instant, read by any thread, or the instant of a given commit if it is held (I1, I12)."""

from __future__ import annotations

import gc

import pytest

import lowtide
from lowtide.errors import SnapshotExpired, TransientError, UsageError
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together


def put(store: lowtide.Store, value: bytes) -> None:
    store.keyspace("k").put(b"x", value)


def get(snapshot: lowtide.Snapshot) -> bytes | None:
    return snapshot.keyspace("k").get(b"x")


def test_a_snapshot_stays_at_its_commit(store: lowtide.Store) -> None:
    put(store, b"0")
    with store.snapshot() as snapshot:
        for number in range(1, 4):
            put(store, b"%d" % number)
            store.checkpoint()
            store.collect_garbage()
        assert snapshot.ts == 1
        assert get(snapshot) == b"0"
        assert list(snapshot.keyspace("k").scan()) == [(b"x", b"0")]
    assert store.stats().snapshots == []


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_snapshot_at_a_commit_that_another_one_holds_sees_the_same(store: lowtide.Store, checkpointed: bool) -> None:
    """And goes on to see it when the other one has gone."""
    put(store, b"0")
    holder = store.begin()
    put(store, b"1")
    if checkpointed:
        store.checkpoint()
    with store.snapshot(at=holder.ts) as snapshot:
        holder.rollback()
        put(store, b"2")
        store.checkpoint()
        store.collect_garbage()
        assert (snapshot.ts, get(snapshot)) == (1, b"0")
        with store.snapshot(at=1) as third:
            assert get(third) == b"0"


def test_a_snapshot_at_the_last_commit_is_always_to_be_had(store: lowtide.Store) -> None:
    with store.snapshot(at=0) as empty:
        put(store, b"0")
        assert get(empty) is None
    with store.snapshot(at=1) as snapshot:
        assert get(snapshot) == b"0"


def test_a_snapshot_that_nobody_holds_has_expired(store: lowtide.Store) -> None:
    put(store, b"0")
    put(store, b"1")
    with pytest.raises(SnapshotExpired, match="commit 1 is no longer kept") as caught:
        store.snapshot(at=1)
    assert isinstance(caught.value, TransientError)
    assert store.stats().snapshots == []


def test_a_snapshot_of_the_future_is_refused(store: lowtide.Store) -> None:
    with pytest.raises(UsageError, match="does not exist yet"):
        store.snapshot(at=1)


def test_any_number_of_threads_read_one_snapshot(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        for number in range(500):
            tx.keyspace("k").put(b"%03d" % number, b"0")
    with store.snapshot() as snapshot:

        def read() -> None:
            for _ in range(3):
                assert len(list(snapshot.keyspace("k").scan())) == 500
                assert snapshot.keyspace("k").get(b"123") == b"0"

        def change() -> None:
            for number in range(0, 500, 7):
                store.keyspace("k").delete(b"%03d" % number)
            store.checkpoint()

        run_together(read, read, read, change)


def test_a_closed_snapshot_says_so_and_may_be_closed_again(store: lowtide.Store) -> None:
    put(store, b"0")
    snapshot = store.snapshot()
    keyspace = snapshot.keyspace("k")
    assert repr(snapshot) == "<snapshot at 1, open>"
    snapshot.close()
    snapshot.close()
    assert repr(snapshot) == "<snapshot at 1, closed>"
    with pytest.raises(UsageError, match="closed"):
        keyspace.get(b"x")
    with pytest.raises(UsageError, match="closed"):
        list(keyspace.scan())


def test_a_dropped_snapshot_holds_nothing_back(store: lowtide.Store) -> None:
    put(store, b"0")
    snapshot = store.snapshot()
    put(store, b"1")
    assert store.stats().versions == 2
    del snapshot
    gc.collect()
    put(store, b"2")
    stats = store.stats()
    assert (stats.versions, stats.snapshots) == (1, [])


def test_a_snapshot_of_a_closed_store_is_refused(store: lowtide.Store) -> None:
    put(store, b"0")
    snapshot = store.snapshot()
    store.close()
    for call in (lambda: store.snapshot(), lambda: get(snapshot), lambda: list(snapshot.keyspace("k").scan())):
        with pytest.raises(UsageError, match="closed"):
            call()
    snapshot.close()


def test_a_store_that_remembers_no_origins_says_so(open_store: OpenStore) -> None:
    store = open_store(snapshot_origins=False)
    living = store.snapshot(), store.begin()
    assert [each.where for each in store.stats().snapshots] == ["unknown (snapshot_origins is off)"] * 2
    living[0].close()
    living[1].rollback()


def test_the_statistics_say_where_it_was_opened_and_what_it_holds(store: lowtide.Store) -> None:
    put(store, b"0")
    snapshot = store.snapshot()
    put(store, b"1")
    (stats,) = store.stats().snapshots
    assert stats.where.startswith(__file__)
    assert (stats.ts, stats.versions_held) == (snapshot.ts, 1)
    assert stats.age >= 0
