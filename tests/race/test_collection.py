"""A collection that read the live snapshots before a reader began drops nothing that the reader needs (G2, G3).

The argument: only versions that ended at or before ``bound`` may go, and a reader that is missed draws at least
``bound``. A commit ensures this by collecting after its publication, under the lock; the sweep by reading the live
snapshots inside its LMDB transaction. If it is broken, by collecting before the publication or reading before the
transaction, a reader in between is not counted; its reads then find nothing, or an older value.
"""

from __future__ import annotations

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.race.gates import Gate, stays_blocked
from tests.support.parts import parts_of
from tests.support.schedule import Schedule


def put(store: lowtide.Store, key: bytes, value: bytes) -> None:
    store.keyspace("k").put(key, value)


@pytest.fixture(params=["exact", "watermark"])
def store(request: pytest.FixtureRequest, open_store: OpenStore) -> lowtide.Store:
    return open_store(collector=request.param, collect_threshold=1, checkpointer="thread")


def test_a_reader_that_begins_before_a_commit_asks_who_lives_keeps_its_version(store: lowtide.Store) -> None:
    """The commit is published and about to drop what it superseded; the reader draws that very commit."""
    put(store, b"x", b"0")
    with Schedule() as schedule:
        holder = store.snapshot()
        commit = schedule.start(lambda: put(store, b"x", b"1"), "collect.sampled").arrive()
        reader = store.snapshot()
        assert reader.ts == 2
        commit.finish()
        put(store, b"x", b"2")
        put(store, b"x", b"3")
        assert reader.keyspace("k").get(b"x") == b"1"
        assert holder.keyspace("k").get(b"x") == b"0"
        holder.close()
        assert reader.keyspace("k").get(b"x") == b"1"
        reader.close()


def test_a_reader_that_begins_after_a_commit_asked_who_lives_keeps_its_version(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, b"x", b"0")
    holder = store.snapshot()
    gate = Gate(monkeypatch, parts_of(store).registry, "timestamps")
    with Schedule() as schedule:
        commit = schedule.start(lambda: put(store, b"x", b"1"))
        gate.reached()
        reader = store.snapshot()
        other = schedule.start(lambda: put(store, b"x", b"2"))
        assert stays_blocked(other), "one who commits waits for the one who collects in its commit"
        gate.open()
        commit.finish()
        other.finish()
        assert reader.keyspace("k").get(b"x") == b"1"
        reader.close()
        holder.close()


@pytest.mark.parametrize("commits", [1, 3])
def test_a_collection_that_asked_before_a_reader_began_spares_it(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """The sweep of the history reads the live snapshots inside its LMDB transaction, and commits continue meanwhile."""
    put(store, b"x", b"0")
    store.checkpoint()
    holder = store.snapshot()
    put(store, b"x", b"1")
    store.checkpoint()
    holder.close()
    keeper = store.snapshot()
    put(store, b"y", b"0")
    gate = Gate(monkeypatch, parts_of(store).collector, "_sample")
    with Schedule() as schedule:
        collection = schedule.start(store.collect_garbage)
        gate.reached()
        reader = store.snapshot()
        for number in range(commits):
            put(store, b"x", b"later %d" % number)
            put(store, b"y", b"later %d" % number)
        gate.open()
        collection.finish()
        store.checkpoint()
        store.collect_garbage()
        for snapshot, y in ((reader, b"0"), (keeper, None)):
            assert snapshot.keyspace("k").get(b"x") == b"1"
            assert snapshot.keyspace("k").get(b"y") == y
            snapshot.close()


def test_a_checkpoint_that_waits_for_a_sweep_keeps_what_came_meanwhile(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the live snapshots *before* the LMDB transaction would let a checkpoint slip in between: it keeps a
    version for a reader that the sweep does not know, and the sweep drops it."""
    put(store, b"x", b"0")
    store.checkpoint()
    with store.snapshot():
        put(store, b"x", b"1")
        store.checkpoint()
    gate = Gate(monkeypatch, parts_of(store).collector, "_sample")
    with store.snapshot() as keeper:
        put(store, b"x", b"2")
        store.checkpoint()  # so that there is something to sweep
        with Schedule() as schedule:
            collection = schedule.start(store.collect_garbage)
            gate.reached()
            reader = store.snapshot()
            put(store, b"x", b"3")
            checkpoint = schedule.start(store.checkpoint)
            assert stays_blocked(checkpoint)
            assert store.keyspace("k").get(b"x") == b"3"
            gate.open()
            collection.finish()
            checkpoint.finish()
        assert reader.keyspace("k").get(b"x") == b"2"
        assert keeper.keyspace("k").get(b"x") == b"1"
        store.collect_garbage()
        assert reader.keyspace("k").get(b"x") == b"2"
        reader.close()


def test_readers_and_commits_go_on_while_a_sweep_stands(store: lowtide.Store) -> None:
    """A busy collector blocks no other thread (G5)."""
    put(store, b"x", b"0")
    store.checkpoint()
    with store.snapshot() as snapshot:
        put(store, b"x", b"1")
        store.checkpoint()
        with Schedule() as schedule:
            collection = schedule.start(store.collect_garbage, "sweep.sampled").arrive()
            put(store, b"x", b"2")
            assert store.keyspace("k").get(b"x") == b"2"
            assert snapshot.keyspace("k").get(b"x") == b"0"
            with store.snapshot() as other:
                assert dict(other.keyspace("k").scan()) == {b"x": b"2"}
            assert parts_of(store).collector.collect() == 0, "a second one is skipped, not awaited"
            collection.finish()


def test_a_snapshot_at_an_older_commit_leans_on_one_that_is_about_to_end(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It registers first and then checks for a holder, so at every moment one of the two is live. The other way round,
    the holder could end, and its versions go, between the check and the registration."""
    put(store, b"x", b"0")
    holder = store.snapshot()
    put(store, b"x", b"1")
    gate = Gate(monkeypatch, parts_of(store).registry, "_is_held")
    with Schedule() as schedule:
        second = schedule.start(lambda: store.snapshot(at=1))
        gate.reached()
        holder.close()
        store.checkpoint()
        store.collect_garbage()
        gate.open()
        snapshot = second.finish()
        assert snapshot.keyspace("k").get(b"x") == b"0"
        snapshot.close()
