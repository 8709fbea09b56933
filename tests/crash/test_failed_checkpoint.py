"""A checkpoint that fails at one of its steps is shown in the stats, and brings back no deleted key (K2, K3)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.engine.base.environment import Base
from lowtide.engine.versions.layers import VersionStore
from lowtide.system.clock import SystemClock
from tests.conftest import OpenStore
from tests.crash.interrupts import raising_at
from tests.crash.stores import SMALL, Model, both, commit, content_of, killed, reopened, wait_until
from tests.support.disks import FaultyDisk

POINTS = ["checkpoint.sampled", "checkpoint.boundary", "checkpoint.applied"]
ERRORS = [RuntimeError("broken"), lowtide.DiskFull("no room"), MemoryError(), KeyboardInterrupt()]


def fail_at(store: lowtide.Store, point: str, error: BaseException) -> None:
    with raising_at(point, error) as raised, pytest.raises(type(error)):
        store.checkpoint()
    assert raised


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("point", POINTS)
def test_a_failure_is_seen_and_harms_nobody_and_the_retry_works(
    open_store: OpenStore, point: str, error: BaseException, tmp_path: Path
) -> None:
    store, model = open_store(**SMALL), Model()
    for number in range(6):
        commit(store, both(number, 400))
        model.apply(both(number, 400))
    with store.snapshot() as early:
        seen = dict(early.keyspace("left").scan())
        fail_at(store, point, error)
        stats = store.stats()
        if isinstance(error, Exception):
            assert stats.checkpoint_failures == 1
            assert stats.last_checkpoint_failure is not None
            assert str(error) in stats.last_checkpoint_failure
        assert stats.failure is None
        assert content_of(store) == model.content
        assert reopened(killed(store.path, tmp_path / "killed")) == model.content
        for number in range(6, 12):
            commit(store, both(number, 400))
            model.apply(both(number, 400))
        assert content_of(store) == model.content
        assert reopened(killed(store.path, tmp_path / "killed later")) == model.content
        store.checkpoint()
        assert store.stats().boundary == store.stats().last_commit == 12
        assert dict(early.keyspace("left").scan()) == seen
    assert content_of(store) == model.content
    store.close()
    assert reopened(store.path) == model.content


def test_a_failure_that_says_nothing_of_itself_is_still_shown(open_store: OpenStore) -> None:
    """MemoryError has no message: its name must do."""
    store = open_store(**SMALL)
    commit(store, both(1))
    fail_at(store, "checkpoint.sampled", MemoryError())
    assert store.stats().last_checkpoint_failure


# A key that was deleted stays deleted, whatever failed in between


def update(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"key", b"updated")


def delete(store: lowtide.Store) -> None:
    store.keyspace("k").delete(b"key")


def collect(store: lowtide.Store) -> None:
    store.collect_garbage()


def checkpoint(store: lowtide.Store) -> None:
    store.checkpoint()


STEPS: list[Callable[[lowtide.Store], None]] = [update, delete, collect, checkpoint]


@pytest.mark.parametrize("restart_after", [None, 0, 1, 2, 3], ids=lambda step: f"restart after {step}")
@pytest.mark.parametrize("held", [False, True], ids=["nobody reads", "somebody reads"])
@pytest.mark.parametrize("point", [*POINTS, None])
def test_a_deleted_key_is_never_seen_again(
    open_store: OpenStore, tmp_path: Path, point: str | None, held: bool, restart_after: int | None
) -> None:
    """Base row, a checkpoint that fails at ``point``, then update, delete, collect, checkpoint, a kill in between."""
    store = open_store(**SMALL)
    store.keyspace("k").put(b"key", b"original")
    store.keyspace("k").put(b"other", b"stays")
    store.checkpoint()
    update(store)
    reader = store.snapshot() if held else None
    if point is not None:
        fail_at(store, point, RuntimeError("broken"))
    for index, step in enumerate(STEPS):
        step(store)
        if index >= 1:
            assert store.keyspace("k").get(b"key") is None
        if reader is not None:
            assert reader.keyspace("k").get(b"key") == b"updated"
        if index == restart_after:
            reader = None
            copy = killed(store.path, tmp_path / "killed")
            store = open_store("killed", **SMALL)
            assert store.path == copy
    if reader is not None:
        reader.close()
        store.collect_garbage()
    assert dict(store.keyspace("k").scan()) == {b"other": b"stays"}
    assert store.stats().history == 0
    store.close()
    assert reopened(store.path) == {"k": {b"other": b"stays"}}
    base = Base(store.path / "base", 1 << 20)
    try:
        with base.env.begin() as txn:
            assert [key[4:] for key, _ in txn.cursor(base.rows)] == [b"other"], "nothing of it is left on disk"
            assert txn.stat(base.tombstones)["entries"] == 0
    finally:
        base.close()


def test_a_key_deleted_while_a_failed_checkpoint_holds_its_update_stays_deleted(open_store: OpenStore) -> None:
    """The update is in the frozen layer, the deletion above it: the retry writes the one, the next one the other."""
    store = open_store(**SMALL)
    update(store)
    fail_at(store, "checkpoint.boundary", RuntimeError("broken"))
    delete(store)
    with raising_at("checkpoint.applied", RuntimeError("broken")), pytest.raises(RuntimeError):
        store.checkpoint()
    assert store.keyspace("k").get(b"key") is None
    collect(store)
    checkpoint(store)
    assert store.keyspace("k").get(b"key") is None
    assert store.stats().chains == 0


# Failures of the parts below


def test_a_base_that_cannot_be_written_at_all_does_not_stop_commits(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store, model = open_store(**SMALL), Model()

    def no_room(self: Base, change: Callable[[Any], object]) -> object:
        raise lowtide.DiskFull("no room in the base")

    with monkeypatch.context() as patch:
        patch.setattr(Base, "write", no_room)
        for number in range(20):
            commit(store, both(number, 300))
            model.apply(both(number, 300))
            with pytest.raises(lowtide.DiskFull, match="no room"):
                store.checkpoint()
        assert store.stats().checkpoint_failures == 20
        assert content_of(store) == model.content
    assert reopened(killed(store.path, tmp_path / "killed")) == model.content
    store.checkpoint()
    assert store.stats().log_bytes < 4096
    assert content_of(store) == model.content


class SteppedClock(SystemClock):
    """A clock whose seconds pass when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.monotonic = lambda: self.now


def test_the_background_tries_again_after_a_failure(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a checkpoint due after every commit; but not before a pause, so that a full disk is not hammered."""
    clock = SteppedClock()
    store = open_store(**{**SMALL, "checkpoint_versions": 1, "clock": clock})
    failures = [lowtide.DiskFull("no room")]
    real = VersionStore.drop_frozen

    def once(self: VersionStore) -> None:
        if failures:
            raise failures.pop()
        real(self)

    monkeypatch.setattr(VersionStore, "drop_frozen", once)
    commit(store, both(1))
    wait_until(lambda: store.stats().checkpoint_failures == 1)
    commit(store, both(2))
    assert store.stats().checkpoints == 0
    clock.now += 3600
    commit(store, both(3))
    wait_until(lambda: store.stats().boundary == 3)
    assert store.stats().checkpoint_failures == 1
    assert content_of(store)["left"] == {b"key %d" % number: b"%d." % number for number in (1, 2, 3)}


@pytest.mark.parametrize("operation", ["rename", "remove", "sync_directory", "sync"])
def test_segments_that_cannot_be_released_are_released_later(open_store: OpenStore, operation: str) -> None:
    disk = FaultyDisk()
    store, model = open_store(disk=disk, **SMALL), Model()
    for number in range(12):
        commit(store, both(number, 900))
        model.apply(both(number, 900))
    disk.fail(operation, forever=True)
    try:
        store.checkpoint()
    except lowtide.StoreFailed:
        assert operation == "sync"
    assert content_of(store) == model.content
    disk.heal()
    if operation != "sync":
        commit(store, both(12, 900))
        model.apply(both(12, 900))
        store.checkpoint()
        assert len(list((store.path / "log").iterdir())) <= 4
    store.close()
    assert reopened(store.path) == model.content
