"""Commits, snapshots and their ends while a checkpoint has stopped in the middle (scenarios K1, K3, K4, C4, G6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.crash.stores import content_of, killed, reopened
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE
from tests.support.schedule import Schedule

Entries = dict[bytes, bytes]

KEYS = [b"a", b"b", b"c", b"d", b"e"]
EVERY_PLACE = pytest.mark.parametrize("place", ["checkpoint.sampled", "checkpoint.boundary", "checkpoint.applied"])


def put(store: lowtide.Store, key: bytes, value: bytes) -> None:
    store.keyspace("k").put(key, value)


def entries(reader: lowtide.Snapshot) -> Entries:
    """What a snapshot sees, which is the same by scan and key by key."""
    keyspace = reader.keyspace("k")
    found = dict(keyspace.scan())
    assert found == dict(keyspace.scan(reverse=True))
    assert {key: value for key in KEYS if (value := keyspace.get(key)) is not None} == found
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.001)


def fill(store: lowtide.Store) -> None:
    """Values in the base and in the layer that the next checkpoint freezes: updated, deleted, inserted."""
    for key in (b"a", b"b", b"c"):
        put(store, key, b"base")
    store.checkpoint()
    put(store, b"a", b"frozen")
    store.keyspace("k").delete(b"b")
    put(store, b"d", b"frozen")


def change(store: lowtide.Store) -> None:
    put(store, b"a", b"active")
    put(store, b"b", b"active")
    store.keyspace("k").delete(b"d")
    put(store, b"e", b"active")


CONTENT_BEFORE: Entries = {b"a": b"frozen", b"c": b"base", b"d": b"frozen"}
CONTENT_AFTER: Entries = {b"a": b"active", b"b": b"active", b"c": b"base", b"e": b"active"}


@EVERY_PLACE
def test_snapshots_from_before_during_and_after_see_what_they_should(store: lowtide.Store, place: str) -> None:
    """K1. A checkpoint that kept by a sample from before the freeze, or that dropped the layer before the base had it,
    would show one of these snapshots a value of another, or none."""
    fill(store)
    with store.snapshot() as before, Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        with store.snapshot() as early:
            change(store)
            with store.snapshot() as late:
                for _ in range(2):
                    assert entries(before) == CONTENT_BEFORE
                    assert entries(early) == CONTENT_BEFORE
                    assert entries(late) == CONTENT_AFTER
                    checkpoint.finish()
                store.checkpoint()
                store.collect_garbage()
                assert entries(before) == CONTENT_BEFORE
                assert entries(early) == CONTENT_BEFORE
                assert entries(late) == CONTENT_AFTER


@EVERY_PLACE
def test_a_snapshot_of_before_the_frozen_layer_keeps_what_the_base_had(store: lowtide.Store, place: str) -> None:
    """K1. No other snapshot sees the rows that are about to be replaced. Replacing them without a copy in the history
    would lose them with the checkpoint's commit, while the reader is live."""
    for key in (b"a", b"b", b"c"):
        put(store, key, b"base")
    store.checkpoint()
    with store.snapshot() as snapshot, Schedule() as schedule:
        put(store, b"a", b"frozen")
        store.keyspace("k").delete(b"b")
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        assert entries(snapshot) == dict.fromkeys((b"a", b"b", b"c"), b"base")
        change(store)
        checkpoint.finish()
        store.checkpoint()
        store.collect_garbage()
        assert entries(snapshot) == dict.fromkeys((b"a", b"b", b"c"), b"base")


@EVERY_PLACE
def test_commits_during_a_checkpoint_keep_their_log_records(open_store: OpenStore, tmp_path: Path, place: str) -> None:
    """K3, K4. Killed while the checkpoint is stopped and after it. A boundary that covered the new commits, or a log
    that was released up to its end, would lose them."""
    store = open_store(segment_bytes=4096)
    fill(store)
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        change(store)
        for number in range(100):  # over several segments
            store.keyspace("more").put(b"%d" % number, b"x" * 200)
        expected = content_of(store)
        assert expected["k"] == CONTENT_AFTER
        assert len(expected["more"]) == 100
        assert reopened(killed(tmp_path / "store", tmp_path / "standing")) == expected
        checkpoint.finish()
        assert reopened(killed(tmp_path / "store", tmp_path / "finished")) == expected
        put(store, b"a", b"last")
        expected = content_of(store)
        assert reopened(killed(tmp_path / "store", tmp_path / "later")) == expected


@EVERY_PLACE
@pytest.mark.parametrize("collected", [False, True])
def test_a_writer_from_before_an_insertion_and_a_deletion_conflicts(
    store: lowtide.Store, place: str, collected: bool
) -> None:
    """C4. Neither a chain nor a row is left of the key, only the tombstone. If it were missing, or swept while the
    writer is live, the writer would overwrite two commits that it never saw."""
    put(store, b"other", b"1")
    writer = store.begin()
    put(store, b"a", b"inserted")
    store.keyspace("k").delete(b"a")
    writer.keyspace("k").put(b"a", b"late")
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        if collected:
            checkpoint.finish()
            store.collect_garbage()
            put(store, b"other", b"2")
            store.checkpoint()
            store.collect_garbage()
        with pytest.raises(lowtide.ConflictError):
            writer.commit()
        checkpoint.finish()
    assert store.keyspace("k").get(b"a") is None


@EVERY_PLACE
def test_a_writer_from_before_conflicts_with_a_deletion_that_comes_after_the_freeze(
    store: lowtide.Store, place: str
) -> None:
    """C4. The insertion is in the frozen layer, the deletion in the active one, and each is checkpointed on its own."""
    put(store, b"other", b"1")
    writer = store.begin()
    writer.keyspace("k").put(b"a", b"late")
    put(store, b"a", b"inserted")
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        store.keyspace("k").delete(b"a")
        checkpoint.finish()
        store.checkpoint()
        store.collect_garbage()
        with pytest.raises(lowtide.ConflictError):
            writer.commit()
    store.collect_garbage()
    base = parts_of(store).base
    assert base.row(parts_of(store).engine.catalog.prefix_of("k") + b"a") is None, (
        "G6: the tombstone went with the writer"
    )


@EVERY_PLACE
def test_a_writer_that_begins_while_the_checkpoint_stands_does_not_conflict_with_it(
    store: lowtide.Store, place: str
) -> None:
    """It saw the deletion. A tombstone with any timestamp but the deletion's would refuse it for nothing."""
    put(store, b"a", b"inserted")
    old = store.begin()
    store.keyspace("k").delete(b"a")
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        writer = store.begin()
        checkpoint.finish()
        assert writer.keyspace("k").get(b"a") is None
        writer.keyspace("k").put(b"a", b"again")
        writer.commit()
        assert old.keyspace("k").get(b"a") == b"inserted"
        old.rollback()
    assert store.keyspace("k").get(b"a") == b"again"


@EVERY_PLACE
def test_a_snapshot_that_ends_while_the_checkpoint_stands_leaves_nothing_in_the_history(
    store: lowtide.Store, place: str
) -> None:
    """G6. The checkpoint keeps versions for a snapshot that ends meanwhile. A sweep that only handled reported ends,
    and was told of this one before the versions were written, would leave them there."""
    put(store, b"a", b"base")
    put(store, b"b", b"base")
    store.checkpoint()
    snapshot = store.snapshot()
    put(store, b"a", b"new")
    store.keyspace("k").delete(b"b")
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        snapshot.close()
        checkpoint.finish()
    store.collect_garbage()
    stats = store.stats()
    assert stats.history == 0
    assert stats.versions == 0
    with store.snapshot() as after:
        assert entries(after) == {b"a": b"new"}


def test_the_background_is_told_of_a_snapshot_that_ended_before_the_history_had_anything(store: lowtide.Store) -> None:
    """G6. Without the thorough sweep, only what the engine recorded is swept. The end of a snapshot during the
    checkpoint must be recorded again after it."""
    put(store, b"a", b"base")
    store.checkpoint()
    snapshot = store.snapshot()
    put(store, b"a", b"new")
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, "checkpoint.boundary").arrive()
        snapshot.close()
        checkpoint.finish()
    wait_until(lambda: store.stats().history == 0)
