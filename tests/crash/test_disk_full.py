"""Disk full: the commit or checkpoint fails, changes nothing, and succeeds once there is room (P2, K3)."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.crash.stores import SMALL, Model, both, commit, content_of, files_limited_to, killed, reopened
from tests.support.descriptors import open_below
from tests.support.disks import FaultyDisk
from tests.support.parts import parts_of


def test_a_commit_without_room_for_its_segment_changes_nothing_and_the_store_goes_on(open_store: OpenStore) -> None:
    disk, model = FaultyDisk(), Model()
    store = open_store(disk=disk, **SMALL)
    for number in range(2):
        commit(store, both(number, 500))
        model.apply(both(number, 500))
    disk.fail("create", error=errno.ENOSPC, forever=True)
    for _ in range(3):
        with pytest.raises(lowtide.DiskFull, match="nothing was committed"):
            commit(store, both(2, 1500))
        assert content_of(store) == model.content
    assert store.stats().failure is None
    commit(store, both(3, 5))  # there is room for it in the segment that exists
    model.apply(both(3, 5))
    disk.heal()
    commit(store, both(2, 1500))
    model.apply(both(2, 1500))
    store.checkpoint()
    assert content_of(store) == model.content
    store.close()
    assert reopened(store.path) == model.content


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("operation", ["create", "write_durably", "rename", "sync_directory"])
def test_wherever_the_making_of_a_segment_finds_no_room_a_restart_shows_what_was_acknowledged(
    operation: str, error: int, tmp_path: Path
) -> None:
    """With a smaller commit after the failed one, which still fits into the old segment."""
    disk, model = FaultyDisk(), Model()
    store = lowtide.open(tmp_path / "store", **SMALL, durability="relaxed", disk=disk)
    commit(store, both(0, 500))
    model.apply(both(0, 500))
    disk.fail(operation, error=error)
    with pytest.raises(lowtide.DiskFull):
        commit(store, both(1, 1800))
    disk.heal()
    assert reopened(killed(store.path, tmp_path / "killed at once")) == model.content
    for number, size in ((2, 5), (3, 1800), (5, 1800)):
        commit(store, both(number, size))
        model.apply(both(number, size))
        copy = killed(store.path, tmp_path / "killed")
        assert reopened(copy) == model.content
        shutil.rmtree(copy)
    names = sorted(path.name for path in (store.path / "log").iterdir())
    assert len([name for name in names if name.startswith("spare")]) <= 2, names
    store.close()
    assert reopened(store.path) == model.content


def test_attempts_that_find_no_room_leak_no_descriptor(open_store: OpenStore) -> None:
    disk = FaultyDisk()
    store = open_store(disk=disk, **SMALL)
    commit(store, both(0, 500))
    for operation in ("create", "write_durably", "rename", "sync_directory"):
        disk.fail(operation, error=errno.ENOSPC, forever=True)
        before = len(open_below(store.path))
        for _ in range(5):
            with pytest.raises(lowtide.DiskFull):
                commit(store, both(1, 1800))
        assert len(open_below(store.path)) == before, operation
        disk.heal()


def test_a_limit_of_the_system_on_the_log_is_a_full_disk(open_store: OpenStore) -> None:
    store = open_store(segment_bytes=1 << 20)
    store.keyspace("k").put(b"a", b"1")
    with files_limited_to(1 << 19), pytest.raises(lowtide.DiskFull):
        store.keyspace("k").put(b"b", bytes(1 << 19))
    assert dict(store.keyspace("k").scan()) == {b"a": b"1"}
    assert not list((store.path / "log").glob("spare-*"))
    store.keyspace("k").put(b"b", bytes(1 << 19))
    store.close()
    assert reopened(store.path)["k"] == {b"a": b"1", b"b": bytes(1 << 19)}


def test_a_limit_of_the_system_on_the_base_fails_the_checkpoint_and_nothing_else(open_store: OpenStore) -> None:
    """The log was made large enough before, so commits go on; the base cannot grow."""
    store = open_store(checkpointer="thread", segment_bytes=256 * 1024)
    entries = {b"%04d" % number: b"v" * 500 for number in range(300)}
    commit(store, {"k": dict(entries)})
    size = (store.path / "base" / "data.mdb").stat().st_size
    with files_limited_to(size):
        for attempt in (1, 2):
            with pytest.raises(lowtide.Error):
                store.checkpoint()
            assert store.stats().checkpoint_failures == attempt
            assert store.stats().last_checkpoint_failure
            assert store.stats().boundary == 0
        commit(store, {"k": {b"0000": None, b"0001": b"new"}})
        assert content_of(store)["k"].get(b"0001") == b"new"
    entries.pop(b"0000")
    entries[b"0001"] = b"new"
    store.checkpoint()
    assert store.stats().boundary == store.stats().last_commit
    assert content_of(store)["k"] == entries
    store.close()
    assert reopened(store.path, map_size=1 << 24)["k"] == entries


def test_a_store_that_cannot_be_made_for_want_of_room_can_be_made_later(tmp_path: Path) -> None:
    with files_limited_to(100_000), pytest.raises(lowtide.DiskFull):
        lowtide.open(tmp_path / "store")
    with lowtide.open(tmp_path / "store") as store:
        store.keyspace("k").put(b"a", b"1")
    assert reopened(tmp_path / "store") == {"k": {b"a": b"1"}}


def test_a_full_map_grows_by_itself(open_store: OpenStore) -> None:
    store = open_store(map_size=128 * 1024, checkpointer="thread")
    entries = {b"%04d" % number: b"v" * 400 for number in range(2000)}
    commit(store, {"k": dict(entries)})
    with store.snapshot() as before:
        store.checkpoint()
        assert dict(before.keyspace("k").scan()) == entries
    assert store.stats().checkpoint_failures == 0
    assert parts_of(store).base.map_size > 128 * 1024
    assert content_of(store)["k"] == entries


def test_a_full_map_grows_for_the_helper_process_too(open_store: OpenStore) -> None:
    store = open_store(map_size=128 * 1024, checkpointer="process")
    entries = {b"%04d" % number: b"v" * 400 for number in range(2000)}
    commit(store, {"k": dict(entries)})
    store.checkpoint()
    assert store.stats().checkpoint_failures == 0
    assert content_of(store)["k"] == entries
    assert parts_of(store).base.read_boundary() == 1
