"""The first promise of the README: a snapshot costs one old version of each key that changed under it (G1)."""

from __future__ import annotations

import pytest

from tests.conftest import OpenStore

KEYS = 200
ROUNDS = 40


@pytest.mark.parametrize("keys", [10, KEYS])
def test_a_long_reader_costs_one_version_per_key(open_store: OpenStore, keys: int) -> None:
    store = open_store()
    names = [b"%04d" % number for number in range(keys)]
    keyspace = store.keyspace("k")
    for name in names:
        keyspace.put(name, b"old")
    with store.snapshot() as reader:
        for number in range(ROUNDS * keys):
            keyspace.put(names[number % keys], b"%d" % number)
        stats = store.stats()
        assert stats.versions + stats.history == 2 * keys
        assert stats.snapshots[0].versions_held == keys
        assert {value for _, value in reader.keyspace("k").scan()} == {b"old"}


@pytest.mark.parametrize("keys", [10, KEYS])
def test_short_snapshots_beside_a_long_reader_leave_one_version_per_key(open_store: OpenStore, keys: int) -> None:
    """Each write happens under a short snapshot that sees what is overwritten; it ends, and that must go.

    At any moment two snapshots live, so no more than three versions of a key are needed. Collection is
    lazy, so more are allowed here, but the number must not depend on how many writes there were.
    """
    store = open_store()
    names = [b"%04d" % number for number in range(keys)]
    keyspace = store.keyspace("k")
    for name in names:
        keyspace.put(name, b"old")
    with store.snapshot() as reader:
        for number in range(ROUNDS * keys):
            with store.snapshot():
                keyspace.put(names[number % keys], b"%d" % number)
        stats = store.stats()
        assert stats.versions + stats.history <= 10 * keys
        assert {value for _, value in reader.keyspace("k").scan()} == {b"old"}
        store.collect_garbage()
        stats = store.stats()
        assert stats.versions + stats.history == 2 * keys


def test_what_the_reader_held_goes_with_it(open_store: OpenStore) -> None:
    store = open_store()
    keyspace = store.keyspace("k")
    for number in range(KEYS):
        keyspace.put(b"%d" % number, b"old")
    reader = store.snapshot()
    for number in range(KEYS):
        keyspace.put(b"%d" % number, b"new")
    store.checkpoint()
    assert store.stats().history == KEYS
    assert store.stats().versions == 0
    reader.close()
    store.collect_garbage()
    assert store.stats().history == 0
