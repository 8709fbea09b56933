"""Running a checkpoint beside commits: its steps, its failures, and which thread or process makes it (K3, G5)."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

import lowtide
from lowtide.engine.checkpoint import checkpointer as module
from lowtide.engine.checkpoint.apply import Applied, apply_checkpoint
from lowtide.errors import Error
from tests.conftest import OpenStore
from tests.support.patience import PATIENCE


def put(store: lowtide.Store, *numbers: int) -> None:
    for number in numbers:
        store.keyspace("k").put(b"%d" % number, b"value %d" % number)


def parts(store: lowtide.Store) -> Any:
    return store._backend


def test_a_checkpoint_brings_everything_to_the_base_and_empties_memory(store: lowtide.Store) -> None:
    put(store, 1, 2, 3)
    assert store.stats().versions == 3
    store.checkpoint()
    stats = store.stats()
    assert (stats.boundary, stats.last_commit) == (3, 3)
    assert (stats.versions, stats.chains, stats.version_bytes) == (0, 0, 0)
    assert stats.checkpoints == 1
    assert dict(store.keyspace("k").scan()) == {b"%d" % number: b"value %d" % number for number in (1, 2, 3)}


def test_with_nothing_new_a_checkpoint_does_nothing(store: lowtide.Store) -> None:
    store.checkpoint()
    put(store, 1)
    store.checkpoint()
    store.checkpoint()
    assert store.stats().checkpoints == 1


def test_the_log_below_the_boundary_is_given_up(open_store: OpenStore) -> None:
    store = open_store(segment_bytes=4096)
    for _ in range(3):
        store.keyspace("k").put(b"a", bytes(3000))
    before = store.stats().log_bytes
    store.checkpoint()
    assert store.stats().log_bytes < before


def test_a_checkpoint_is_skipped_if_one_is_running_and_nobody_waits(store: lowtide.Store) -> None:
    put(store, 1)
    checkpointer = parts(store).checkpointer
    with checkpointer._busy:
        assert checkpointer.run(wait=False) is False
        assert store.stats().boundary == 0
    assert checkpointer.run(wait=False) is True
    assert store.stats().boundary == 1


def test_a_checkpoint_that_is_waited_for_covers_all_that_was_committed_before_the_call(store: lowtide.Store) -> None:
    """Also if another one is running meanwhile, which froze before that."""
    put(store, 1)
    checkpointer = parts(store).checkpointer
    with checkpointer._busy:
        with parts(store).committer.exclusive():
            parts(store).versions.freeze(1)
        put(store, 2)
        waiting = threading.Thread(target=store.checkpoint, daemon=True)
        waiting.start()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert store.stats().boundary == 2
    assert store.stats().checkpoints == 2


def fail_once(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next attempt to apply a checkpoint fail, as on a full disk."""
    real = apply_checkpoint

    def failing(*arguments: Any) -> Applied:
        monkeypatch.setattr(module, "apply_checkpoint", real)
        raise Error("no room")

    monkeypatch.setattr(module, "apply_checkpoint", failing)


def test_a_failure_publishes_nothing_is_shown_and_the_next_one_works(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 1, 2)
    fail_once(store, monkeypatch)
    with pytest.raises(Error, match="no room"):
        store.checkpoint()
    stats = store.stats()
    assert (stats.boundary, stats.versions, stats.checkpoint_failures) == (0, 2, 1)
    assert stats.last_checkpoint_failure == "no room"
    put(store, 2, 3)
    assert dict(store.keyspace("k").scan()) == {b"%d" % number: b"value %d" % number for number in (1, 2, 3)}
    store.checkpoint()
    stats = store.stats()
    assert (stats.boundary, stats.versions, stats.checkpoints) == (4, 0, 2)
    assert dict(store.keyspace("k").scan()) == {b"%d" % number: b"value %d" % number for number in (1, 2, 3)}


def test_what_was_deleted_while_a_failed_checkpoint_was_pending_stays_deleted(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K2: base row, update, failed checkpoint, delete, collect, checkpoint."""
    put(store, 1)
    store.checkpoint()
    store.keyspace("k").put(b"1", b"changed")
    fail_once(store, monkeypatch)
    with pytest.raises(Error, match="no room"):
        store.checkpoint()
    store.keyspace("k").delete(b"1")
    store.collect_garbage()
    assert store.keyspace("k").get(b"1") is None
    store.checkpoint()
    assert store.keyspace("k").get(b"1") is None
    assert list(store.keyspace("k").scan()) == []


def test_the_background_pauses_after_failures_for_longer_and_longer(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer = parts(store).checkpointer
    assert checkpointer.may_try()
    put(store, 1)
    pauses = []
    for _ in range(9):
        fail_once(store, monkeypatch)
        with pytest.raises(Error, match="no room"):
            store.checkpoint()
        assert not checkpointer.may_try()
        pauses.append(checkpointer._pause)
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert pauses[-1] == 30.0
    store.checkpoint()
    assert checkpointer.may_try()


# Who makes it


def helper_of(store: lowtide.Store) -> int | None:
    found: int | None = parts(store).checkpointer._helper.process_id
    return found


@pytest.mark.parametrize(("kind", "helped"), [("thread", False), ("auto", False), ("process", True)])
def test_a_small_checkpoint_is_made_in_a_process_only_if_that_was_asked_for(
    open_store: OpenStore, kind: str, helped: bool
) -> None:
    store = open_store(checkpointer=kind)
    put(store, 1)
    store.checkpoint()
    assert (helper_of(store) is not None) == helped
    assert store.keyspace("k").get(b"1") == b"value 1"


def test_a_large_checkpoint_is_made_in_a_process_by_default(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELPER_FROM", 3)
    store = open_store()
    put(store, 1, 2)
    store.checkpoint()
    assert helper_of(store) is None
    put(store, 1, 2, 3)
    store.checkpoint()
    assert helper_of(store) is not None
    assert store.stats().boundary == 5


def test_a_helper_that_is_killed_at_work_is_made_up_for_in_a_thread(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(checkpointer="process")
    put(store, 1)
    store.checkpoint()
    helper = parts(store).checkpointer._helper
    request = parts(store).checkpointer._request
    process = helper_of(store)
    assert process is not None

    def killing(*arguments: Any) -> Any:
        os.kill(process, signal.SIGKILL)
        return request(*arguments)

    monkeypatch.setattr(parts(store).checkpointer, "_request", killing)
    monkeypatch.setattr(helper, "_started", lambda: helper._process)  # as if it had been alive when it was asked
    put(store, 2)
    with store.snapshot() as before:
        put(store, 2)
        store.checkpoint()
        assert store.stats().boundary == 3
        assert before.keyspace("k").get(b"2") == b"value 2"
    assert "making the checkpoint in a thread" in caplog.text
    assert store.stats().checkpoint_failures == 0


def test_the_owner_grows_the_map_for_its_helper(open_store: OpenStore) -> None:
    store = open_store(checkpointer="process", map_size=1 << 18)
    before = parts(store).base.map_size
    for number in range(100):
        store.keyspace("k").put(b"%d" % number, bytes(5000))
    store.checkpoint()
    assert parts(store).base.map_size > before
    assert store.stats().boundary == 100
    assert helper_of(store) is not None
    assert sum(1 for _ in store.keyspace("k").scan()) == 100
