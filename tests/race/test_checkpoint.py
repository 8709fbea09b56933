"""Commits, readers and conflicts during a checkpoint, wherever it has stopped (K1, K3, C3, C4).

The places: ``sampled`` is after the freeze and before the live snapshots are read; ``boundary`` is inside the LMDB
transaction, just before its commit; ``applied`` is when the base has everything and memory still has it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.race.gates import Gate
from tests.support.parts import parts_of
from tests.support.schedule import Schedule, Step

PLACES = pytest.mark.parametrize("place", ["checkpoint.sampled", "checkpoint.boundary", "checkpoint.applied"])


def put(store: lowtide.Store, key: bytes, value: bytes) -> None:
    store.keyspace("k").put(key, value)


def content(store: lowtide.Store) -> dict[bytes, bytes]:
    return dict(store.keyspace("k").scan())


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    return open_store(checkpointer="thread")


def update(store: lowtide.Store) -> None:
    put(store, b"x", b"new")


def delete(store: lowtide.Store) -> None:
    store.keyspace("k").delete(b"x")


def delete_and_insert(store: lowtide.Store) -> None:
    delete(store)
    put(store, b"x", b"again")


CHANGES = pytest.mark.parametrize("change", [update, delete, delete_and_insert])
Change = Callable[[lowtide.Store], None]


# Commits


@PLACES
def test_commits_during_a_checkpoint_are_there_and_survive_a_kill(
    store: lowtide.Store, tmp_path: Path, place: str
) -> None:
    """K3. The log below the boundary is released; if more were released, or the boundary were too high, a kill would
    lose them. A copy of the files is what a kill leaves."""
    for number in range(5):
        put(store, b"%d" % number, b"before")
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        put(store, b"3", b"during")
        store.keyspace("k").delete(b"4")
        put(store, b"5", b"during")
        expected = {b"0": b"before", b"1": b"before", b"2": b"before", b"3": b"during", b"5": b"during"}
        assert content(store) == expected
        shutil.copytree(store.path, tmp_path / "killed there")
        checkpoint.finish()
        assert content(store) == expected
        shutil.copytree(store.path, tmp_path / "killed after")
    assert store.stats().boundary == 5, "it covers what was committed before it was called"
    for copy in ("killed there", "killed after"):
        with lowtide.open(tmp_path / copy, checkpointer="thread") as recovered:
            assert content(recovered) == expected
            assert recovered.stats().last_commit == 8


@PLACES
def test_a_checkpoint_covers_what_was_committed_before_the_call_and_may_be_called_twice(
    store: lowtide.Store, place: str
) -> None:
    put(store, b"x", b"0")
    with Schedule() as schedule:
        first = schedule.start(store.checkpoint, place).arrive()
        put(store, b"x", b"1")
        second: Step[None] = schedule.start(store.checkpoint)
        assert parts_of(store).checkpointer.run(wait=False) is False
        first.finish()
        second.finish()
        assert store.stats().boundary == 2


# Readers


@PLACES
@CHANGES
def test_readers_of_every_age_read_their_instant_throughout(store: lowtide.Store, place: str, change: Change) -> None:
    """K1. Older than the checkpoint, as old as it, begun during it, and begun during it at an older instant."""
    put(store, b"x", b"old")
    store.checkpoint()
    older = store.snapshot()
    put(store, b"x", b"middle")
    middle = store.snapshot()
    change(store)
    last = content(store)
    newest = store.snapshot()
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        beside = store.snapshot()
        again = store.snapshot(at=middle.ts)
        put(store, b"x", b"after")
        readers = [
            (older, {b"x": b"old"}),
            (middle, {b"x": b"middle"}),
            (again, {b"x": b"middle"}),
            (newest, last),
            (beside, last),
        ]
        for step in (lambda: None, checkpoint.finish, store.checkpoint, store.collect_garbage):
            step()
            for snapshot, expected in readers:
                assert dict(snapshot.keyspace("k").scan()) == expected
                assert snapshot.keyspace("k").get(b"x") == expected.get(b"x")
        for snapshot, _ in readers:
            snapshot.close()
    store.collect_garbage()
    assert store.stats().history == 0


@pytest.mark.parametrize("collector", ["exact", "watermark"])
def test_a_reader_that_begins_after_a_checkpoint_asked_who_lives_loses_nothing(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, collector: str
) -> None:
    """The live snapshots are read after the freeze, so a snapshot that is missed reads at or above the new boundary. If
    they were read before it, a commit in between would be frozen, and what it superseded dropped under an unknown
    reader."""
    store = open_store(collector=collector, checkpointer="thread")
    put(store, b"x", b"0")
    gate = Gate(monkeypatch, parts_of(store).checkpointer, "_sample")
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint)
        gate.reached()
        reader = store.snapshot()
        put(store, b"x", b"1")
        put(store, b"x", b"2")
        gate.open()
        checkpoint.finish()
        for step in (lambda: None, store.checkpoint, store.collect_garbage):
            step()
            assert reader.keyspace("k").get(b"x") == b"0"
        reader.close()


# Conflicts


@PLACES
@CHANGES
def test_an_older_writer_conflicts_wherever_the_change_has_got_to(
    store: lowtide.Store, place: str, change: Change
) -> None:
    """C3, C4. The last change of a key is searched in both layers and in the base, deletions included. Reading the
    boundary before the layers, or leaving no tombstone, would let this writer overwrite what it never saw."""
    put(store, b"x", b"old")
    put(store, b"untouched", b"old")
    store.checkpoint()
    writers = [store.begin() for _ in range(3)]
    untouched = store.begin()
    change(store)
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        before = content(store)
        for step in (lambda: None, checkpoint.finish, store.collect_garbage):
            step()
            writer = writers.pop()
            writer.keyspace("k").put(b"x", b"lost update")
            with pytest.raises(lowtide.ConflictError) as conflict:
                writer.commit()
            assert conflict.value.key == b"x"
            assert conflict.value.committed_ts == store.stats().last_commit
            assert content(store) == before
        untouched.keyspace("k").put(b"untouched", b"new")
        untouched.commit()


@PLACES
@pytest.mark.parametrize("kind", ["key", "range"])
@CHANGES
def test_a_serializable_reader_conflicts_wherever_the_change_has_got_to(
    store: lowtide.Store, place: str, kind: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same by the slower way, which reads the versions themselves because the recent commits were forgotten."""
    monkeypatch.setattr("lowtide.engine.transaction.validate._MOST_KEYS", 0)
    put(store, b"x", b"old")
    store.checkpoint()
    readers = [store.begin("serializable") for _ in range(3)]
    for tx in readers:
        if kind == "key":
            assert tx.keyspace("k").get(b"x") == b"old"
        else:
            assert list(tx.keyspace("k").scan(b"a", b"z")) == [(b"x", b"old")]
    change(store)
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        for step in (lambda: None, checkpoint.finish, store.collect_garbage):
            step()
            tx = readers.pop()
            tx.keyspace("k").put(b"elsewhere", b"1")
            with pytest.raises(lowtide.ConflictError):
                tx.commit()


@PLACES
def test_a_writer_that_begins_beside_the_checkpoint_sees_and_may_change_everything(
    store: lowtide.Store, place: str
) -> None:
    put(store, b"x", b"0")
    delete(store)
    put(store, b"y", b"0")
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        tx = store.begin()
        checkpoint.finish()
        store.collect_garbage()
        assert dict(tx.keyspace("k").scan()) == {b"y": b"0"}
        tx.keyspace("k").put(b"x", b"1")
        tx.keyspace("k").delete(b"y")
        tx.commit()
        assert content(store) == {b"x": b"1"}


def test_the_tombstone_of_a_writer_that_ends_during_the_checkpoint_goes(store: lowtide.Store) -> None:
    """It was left for a writer that the checkpoint counted (G6)."""
    put(store, b"x", b"0")
    store.checkpoint()
    writer = store.begin()
    delete(store)
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, "checkpoint.boundary").arrive()
        writer.rollback()
        checkpoint.finish()
    store.collect_garbage()
    base = parts_of(store).base
    with base.env.begin() as txn:
        assert txn.stat(base.tombstones)["entries"] == 0
        assert txn.stat(base.rows)["entries"] == 0
