"""One old reader costs one version per key, not one per write (G1). The low-water-mark collector for comparison."""

from __future__ import annotations

import pytest

import lowtide
from tests.conftest import OpenStore

UPDATES = {0: 20_000, 1: 200_000}
"""By the number of readers: without one, no update can differ from the others in what it keeps."""


def number(value: int) -> bytes:
    return b"%d" % value


@pytest.mark.parametrize("readers", UPDATES)
def test_many_updates_of_one_key_keep_one_version_for_each_reader_and_the_newest(
    store: lowtide.Store, readers: int
) -> None:
    keys = store.keyspace("k")
    keys.put(b"x", b"v0")
    snapshots = [store.snapshot() for _ in range(readers)]
    for update in range(UPDATES[readers]):
        keys.put(b"x", number(update))
    stats = store.stats()
    assert stats.versions == readers + 1
    assert stats.chains == 1
    for snapshot in snapshots:
        assert snapshot.keyspace("k").get(b"x") == b"v0"
        snapshot.close()
    assert store.stats().versions == 1
    assert keys.get(b"x") == number(UPDATES[readers] - 1)


def test_readers_at_different_times_keep_one_version_each(store: lowtide.Store) -> None:
    keys = store.keyspace("k")
    snapshots: dict[int, lowtide.Snapshot] = {}
    for update in range(1000):
        keys.put(b"x", number(update))
        if update % 100 == 50:
            snapshots[update] = store.snapshot()
        assert store.stats().versions <= len(snapshots) + 1
    for update, snapshot in snapshots.items():
        assert snapshot.keyspace("k").get(b"x") == number(update)
    for left, snapshot in enumerate(snapshots.values(), 1 - len(snapshots)):
        snapshot.close()
        assert store.stats().versions == 1 - left
    assert store.stats().versions == 1


def test_short_snapshots_beside_a_long_one_leave_nothing_behind(store: lowtide.Store) -> None:
    """A version that only a short snapshot saw goes with it, however many chains the long one holds."""
    keys = store.keyspace("k")
    names = [b"%03d" % index for index in range(300)]
    for name in names:
        keys.put(name, b"old")
    with store.snapshot() as long:
        for update in range(3000):
            with store.snapshot():
                keys.put(names[update % 300], number(update))
        assert store.stats().versions == 2 * len(names)
        assert {value for _, value in long.keyspace("k").scan()} == {b"old"}
    store.collect_garbage()
    assert store.stats().versions == len(names)


def test_a_checkpoint_moves_what_a_reader_sees_to_the_history_and_leaves_no_memory(store: lowtide.Store) -> None:
    keys = store.keyspace("k")
    with store.transaction() as tx:
        for index in range(500):
            tx.keyspace("k").put(b"%03d" % index, b"old")
    snapshot = store.snapshot()
    for update in range(5):
        with store.transaction() as tx:
            for index in range(400):
                tx.keyspace("k").put(b"%03d" % index, number(update))
        store.checkpoint()
        stats = store.stats()
        assert (stats.versions, stats.history) == (0, 400)
    assert [value for _, value in snapshot.keyspace("k").scan()] == [b"old"] * 500
    assert [held.versions_held for held in store.stats().snapshots] == [400]
    snapshot.close()
    store.collect_garbage()
    assert store.stats().history == 0
    assert keys.get(b"000") == b"4"


def test_the_low_water_mark_keeps_every_version_since_the_oldest_reader(open_store: OpenStore) -> None:
    store = open_store(collector="watermark")
    keys = store.keyspace("k")
    keys.put(b"x", b"v0")
    with store.snapshot() as snapshot:
        for update in range(500):
            keys.put(b"x", number(update))
        assert store.stats().versions == 501
        store.checkpoint()
        assert store.stats().history == 500
        assert snapshot.keyspace("k").get(b"x") == b"v0"
    store.collect_garbage()
    assert store.stats().history == 0
