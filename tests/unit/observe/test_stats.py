"""The statistics of a store are exact (G4, O1)."""

from __future__ import annotations

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of


def test_a_new_store_has_nothing_to_say(store: lowtide.Store) -> None:
    stats = store.stats()
    assert (stats.last_commit, stats.low_water_mark, stats.boundary) == (0, 0, 0)
    assert (stats.versions, stats.chains, stats.version_bytes, stats.history) == (0, 0, 0, 0)
    assert (stats.snapshots, stats.pins) == ([], [])
    assert (stats.collected, stats.checkpoints, stats.checkpoint_failures, stats.collect_failures) == (0, 0, 0, 0)
    assert stats.failure is None
    assert stats.last_checkpoint_failure is None


def test_versions_chains_and_bytes_are_counted_as_they_are(store: lowtide.Store) -> None:
    keyspace = store.keyspace("k")
    keyspace.put(b"a", b"12345")
    keyspace.put(b"bb", b"")
    keyspace.delete(b"ccc")
    stats = store.stats()
    prefix = 4
    assert (stats.versions, stats.chains) == (3, 3)
    assert stats.version_bytes == (prefix + 1 + 5) + (prefix + 2) + (prefix + 3)
    with store.snapshot():
        keyspace.put(b"a", b"6")
        stats = store.stats()
        assert (stats.versions, stats.chains) == (4, 3)
        assert stats.version_bytes == (prefix + 1 + 5) + (prefix + 1 + 1) + (prefix + 2) + (prefix + 3)
    assert store.stats().versions == 3
    assert store.stats().collected == 1


def test_the_layers_are_counted_together_while_a_checkpoint_runs(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"a", b"1")
    with parts_of(store).committer.exclusive():
        parts_of(store).versions.freeze(1)
    store.keyspace("k").put(b"a", b"2")
    store.keyspace("k").put(b"b", b"2")
    stats = store.stats()
    assert (stats.versions, stats.chains, stats.boundary) == (3, 3, 0)
    store.checkpoint()
    stats = store.stats()
    assert (stats.versions, stats.chains, stats.boundary) == (0, 0, 3)


def test_the_low_water_mark_is_the_oldest_snapshot_or_the_last_commit(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"a", b"1")
    with store.snapshot():
        store.keyspace("k").put(b"a", b"2")
        with store.snapshot():
            assert store.stats().low_water_mark == 1
    assert store.stats().low_water_mark == 2


def test_rows_of_the_history_and_the_log_are_counted(open_store: OpenStore) -> None:
    store = open_store(segment_bytes=4096)
    store.keyspace("k").put(b"a", bytes(100))
    store.checkpoint()
    with store.snapshot():
        store.keyspace("k").put(b"a", bytes(200))
        store.checkpoint()
        assert store.stats().history == 1
        before = store.stats().log_bytes
        store.keyspace("k").put(b"a", bytes(300))
        assert store.stats().log_bytes > before + 300
    store.collect_garbage()
    assert store.stats().history == 0


def test_collected_counts_chains_and_history_alike(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"a", b"1")
    store.checkpoint()
    with store.snapshot():
        store.keyspace("k").put(b"a", b"2")
        store.checkpoint()
        store.keyspace("k").put(b"a", b"3")
        store.keyspace("k").put(b"a", b"4")
        assert store.stats().collected == 1
    store.collect_garbage()
    assert store.stats().collected == 2


def test_commits_and_conflicts_are_counted_since_the_store_was_opened(open_store: OpenStore) -> None:
    earlier = open_store()
    earlier.keyspace("k").put(b"a", b"1")
    earlier.close()
    store = open_store()
    tx = store.begin()
    assert (store.stats().last_commit, store.stats().commits) == (1, 0)
    store.keyspace("k").put(b"a", b"2")
    tx.keyspace("k").put(b"a", b"3")
    with pytest.raises(lowtide.ConflictError):
        tx.commit()
    stats = store.stats()
    assert (stats.last_commit, stats.commits, stats.conflicts) == (2, 1, 1)


def test_the_last_checkpoint_is_timed_by_the_clock_of_the_store(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    store = open_store(clock=clock, checkpointer="thread")
    assert store.stats().last_checkpoint_seconds is None
    store.keyspace("k").put(b"a", b"1")
    sync = parts_of(store).log.sync

    def slow_sync() -> None:
        clock.advance(2.5)
        sync()

    monkeypatch.setattr(parts_of(store).log, "sync", slow_sync)
    store.checkpoint()
    assert store.stats().last_checkpoint_seconds == 2.5
    clock.advance(9)
    store.checkpoint()
    assert store.stats().last_checkpoint_seconds == 2.5, "there was nothing to do"


def test_stats_are_a_picture_that_does_not_change(store: lowtide.Store) -> None:
    before = store.stats()
    store.keyspace("k").put(b"a", b"1")
    assert before.last_commit == 0
    with pytest.raises(AttributeError):
        before.last_commit = 1  # type: ignore[misc]
