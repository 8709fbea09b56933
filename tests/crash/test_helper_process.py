"""The process that writes checkpoints for an owner ends with its owner and never harms the next one (K3, K4)."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lowtide
import lowtide.engine.checkpoint.helper as helper_module
import lowtide.engine.recovery.replay as replay
from lowtide.engine.checkpoint.helper import Helper, HelperRequest
from lowtide.engine.garbage.horizon import make_horizon
from lowtide.engine.log.segment import Scan
from lowtide.engine.recovery.cases import Verdict, judge
from lowtide.system import messages
from tests.conftest import OpenStore
from tests.crash.stores import Model, both, child, commit, content_of, is_alive, killed, lines_of, reopened, wait_until
from tests.support.disks import FaultyDisk
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE

OPTIONS: dict[str, Any] = {"checkpointer": "process", "segment_bytes": 4096, "map_size": 1 << 20}


def helper_of(store: lowtide.Store) -> int:
    process_id = parts_of(store).checkpointer._helper.process_id
    assert process_id is not None
    return process_id


def base_boundary(store: lowtide.Store) -> int | None:
    """The boundary as the base itself tells it, not as the owner believes."""
    return parts_of(store).base.read_boundary()


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    store = open_store(**OPTIONS)
    for number in range(6):
        commit(store, both(number, 600))
    store.checkpoint()
    assert is_alive(helper_of(store))
    return store


def test_a_helper_ends_when_the_store_is_closed(store: lowtide.Store) -> None:
    process_id = helper_of(store)
    store.close()
    assert not is_alive(process_id)


def test_a_helper_that_was_killed_is_replaced_and_nothing_is_lost(store: lowtide.Store) -> None:
    for number in range(6, 9):
        before = helper_of(store)
        os.kill(before, signal.SIGKILL)
        wait_until(lambda before=before: not is_alive(before))  # type: ignore[misc]
        commit(store, both(number, 600))
        store.checkpoint()
        assert helper_of(store) != before
        assert base_boundary(store) == store.stats().boundary == store.stats().last_commit
    assert store.stats().checkpoint_failures == 0


def test_a_helper_killed_while_it_works_is_made_up_for(store: lowtide.Store) -> None:
    """Stopped before it reads its request, so that it is certainly killed between the request and the answer."""
    process_id = helper_of(store)
    os.kill(process_id, signal.SIGSTOP)
    commit(store, both(7, 600))
    checkpoint = threading.Thread(target=store.checkpoint, daemon=True)
    checkpoint.start()
    wait_until(lambda: parts_of(store).versions.frozen is not None)
    os.kill(process_id, signal.SIGKILL)
    checkpoint.join(PATIENCE)
    assert not checkpoint.is_alive()
    assert base_boundary(store) == store.stats().boundary == 7
    assert content_of(store)["left"][b"key 0"].startswith(b"7.")


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt while the owner waits: the helper's late answer must not stand for a checkpoint it has not made."""
    model = Model()
    model.states.append(content_of(store))
    real = messages.receive

    def interrupted(stream: object) -> bytes | None:
        monkeypatch.setattr(helper_module, "receive", real)
        raise KeyboardInterrupt

    for number in range(10, 14):
        commit(store, both(number, 600))
        model.apply(both(number, 600))
        monkeypatch.setattr(helper_module, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.checkpoint()
        for _ in range(2):
            commit(store, {"left": {b"more": b"%d" % number}})
            model.apply({"left": {b"more": b"%d" % number}})
            store.checkpoint()
            assert base_boundary(store) == store.stats().boundary == store.stats().last_commit
            assert content_of(store) == model.content


def test_a_helper_that_ends_after_its_work_and_before_its_answer_is_made_up_for(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base has the checkpoint already: making it again, in a thread, finds nothing to do."""
    real = messages.receive

    def lost(stream: Any) -> bytes | None:
        assert real(stream)
        return None

    commit(store, both(7, 600))
    with monkeypatch.context() as patch:
        patch.setattr(helper_module, "receive", lost)
        store.checkpoint()
    assert base_boundary(store) == store.stats().boundary == store.stats().last_commit
    assert store.stats().checkpoint_failures == 0
    assert content_of(store)["left"][b"key 0"].startswith(b"7.")


def test_a_helper_that_reports_an_error_fails_the_checkpoint_and_the_retry_works(store: lowtide.Store) -> None:
    """Here it cannot read the log: the segment that it needs is hidden from it."""
    commit(store, both(7, 600))
    log = store.path / "log"
    log.rename(store.path / "hidden")
    try:
        with pytest.raises(lowtide.Error):
            store.checkpoint()
    finally:
        (store.path / "hidden").rename(log)
    assert store.stats().checkpoint_failures == 1
    assert store.stats().last_checkpoint_failure
    assert content_of(store)["left"][b"key 0"].startswith(b"7.")
    store.checkpoint()
    assert base_boundary(store) == store.stats().last_commit


def test_a_helper_that_cannot_be_started_is_done_without(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    store = open_store(**OPTIONS)
    commit(store, both(1))
    store.checkpoint()
    assert base_boundary(store) == 1
    assert store.stats().checkpoint_failures == 0


OWNER = """
import json, sys, lowtide
store = lowtide.open(sys.argv[1], checkpointer="process", durability="relaxed")
store.keyspace("k").put(b"a", b"1")
store.checkpoint()
print(json.dumps(store._backend.checkpointer._helper.process_id), flush=True)
sys.stdin.readline()
"""


def test_a_helper_ends_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    with child(OWNER, tmp_path / "store") as owner:
        process_id = next(lines_of(owner))
        assert is_alive(process_id)
        owner.kill()
        owner.wait()
        wait_until(lambda: not is_alive(process_id))


def test_a_helper_without_an_owner_does_not_keep_the_store_locked(tmp_path: Path) -> None:
    with child(OWNER, tmp_path / "store") as owner:
        process_id = next(lines_of(owner))
        os.kill(process_id, signal.SIGSTOP)  # it cannot end, as if it were in the middle of a long checkpoint
        try:
            owner.kill()
            owner.wait()
            assert reopened(tmp_path / "store") == {"k": {b"a": b"1"}}
        finally:
            os.kill(process_id, signal.SIGCONT)
        wait_until(lambda: not is_alive(process_id))


# A helper whose owner was killed, and the next owner


@pytest.fixture
def orphaned(tmp_path: Path) -> Iterator[tuple[Path, Model, Callable[[int], None]]]:
    """A killed store with 12 commits and boundary 0, and the checkpoint that its helper was asked for, to be made at
    any later time."""
    model = Model()
    store = lowtide.open(tmp_path / "store", **{**OPTIONS, "checkpointer": "thread"})
    for number in range(12):
        commit(store, both(number, 600))
        model.apply(both(number, 600))
    path = killed(store.path, tmp_path / "killed")
    identity = bytes.fromhex(json.loads((path / "store.json").read_text())["store"])
    store.close()

    helper = Helper()

    def late_checkpoint(upto: int) -> None:
        request = HelperRequest(str(path / "base"), 1 << 20, str(path / "log"), identity, 0, upto, None, "exact", ())
        helper.checkpoint(request, lambda: (make_horizon("exact", (), upto), None))

    yield path, model, late_checkpoint
    helper.close()


@pytest.mark.parametrize("upto", [1, 7, 12])
def test_a_checkpoint_by_an_orphaned_helper_during_recovery_is_no_corruption(
    orphaned: tuple[Path, Model, Callable[[int], None]], upto: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves the boundary after the new owner has read it and before it replays."""
    path, model, late_checkpoint = orphaned
    pending = [upto]

    def judge_late(directory: Path, scans: list[Scan], store_id: bytes, boundary: int) -> Verdict:
        verdict = judge(directory, scans, store_id, boundary)
        if pending:
            late_checkpoint(pending.pop())
        return verdict

    monkeypatch.setattr(replay, "judge", judge_late)
    with lowtide.open(path, segment_bytes=4096, map_size=1 << 20) as store:
        assert not pending
        assert store.stats().last_commit == 12
        assert content_of(store) == model.content
    assert reopened(path) == model.content


def test_a_checkpoint_by_an_orphaned_helper_after_recovery_changes_nothing(
    orphaned: tuple[Path, Model, Callable[[int], None]],
) -> None:
    """Everything that it was asked for is in the base already, and newer commits must not be undone."""
    path, model, late_checkpoint = orphaned
    with lowtide.open(path, segment_bytes=4096, map_size=1 << 20, checkpointer="thread") as store:
        for number in range(12, 20):
            commit(store, both(number, 600))
            model.apply(both(number, 600))
        with pytest.raises(lowtide.Error):
            late_checkpoint(13)  # the log that it wants to read has gone
        store.checkpoint()
        assert content_of(store) == model.content
    assert reopened(path) == model.content


def test_a_log_that_cannot_be_synced_stops_a_checkpoint_before_the_helper_is_asked(open_store: OpenStore) -> None:
    """Else the base could hold a commit that a power loss takes from the log."""
    disk = FaultyDisk()
    store = open_store(**OPTIONS, disk=disk, sync_interval=1000)
    commit(store, both(1))
    disk.fail("sync")
    with pytest.raises(lowtide.StoreFailed):
        store.checkpoint()
    assert base_boundary(store) == 0
    assert isinstance(parts_of(store).checkpointer._helper, Helper)
    assert parts_of(store).checkpointer._helper.process_id is None
