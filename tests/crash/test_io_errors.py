"""The n-th operation on the log fails, once or from then on: the commit fails and leaves nothing (P2). Every n in the
full attack.

Nothing of it comes back after a restart. The store accepts no further commit, says why, and can still be read.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from tests.crash.stores import SMALL, Changes, Durability, Model, both, commit, content_of, killed, reopened
from tests.support.attack import FULL, SAMPLE
from tests.support.disks import FaultyDisk
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE

SIZES = [100, 900, 1900, 50, 700, 1200, 10, 1500]


def workload(store: lowtide.Store, model: Model) -> Iterator[Changes]:
    """Commits of several sizes over several segments with a checkpoint in between; yields each before it is made."""
    for number, size in enumerate(SIZES):
        if number == 5:
            try:
                store.checkpoint()
            except lowtide.Error:
                assert store.stats().checkpoint_failures == 1
                assert store.stats().last_checkpoint_failure
        changes = both(number, size)
        yield changes
        assert commit(store, changes) == len(model.states)
        model.apply(changes)


def run_until_failure(store: lowtide.Store, model: Model) -> BaseException | None:
    try:
        for _ in workload(store, model):
            pass
    except lowtide.Error as error:
        return error
    return None


def check_refused(store: lowtide.Store, model: Model) -> None:
    """What a store with a broken log does."""
    for changes in (both(20), both(21, 3000)):
        with pytest.raises(lowtide.StoreFailed, match="accepts no more commits"):
            commit(store, changes)
    assert "injected" in (store.stats().failure or "")
    assert content_of(store) == model.content
    with store.transaction(read_only=True) as tx:
        assert dict(tx.keyspace("left").scan()) == model.content.get("left", {})


FAULTS = [
    ("write_durably", "full", 0.0),
    ("write_durably", "full", 0.5),
    ("write_durably", "full", 1.0),
    ("write", "relaxed", 0.0),
    ("write", "relaxed", 0.5),
    ("write", "relaxed", 1.0),
    ("sync", "relaxed", 0.0),
    ("sync", "full", 0.0),
    ("create", "full", 0.0),
    ("rename", "full", 0.0),
    ("sync_directory", "full", 0.0),
    ("remove", "full", 0.0),
]


@pytest.mark.parametrize("forever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize(("operation", "durability", "written"), FAULTS)
def test_a_commit_that_meets_an_error_is_nowhere_and_the_last_one(
    operation: str, durability: Durability, written: float, forever: bool, tmp_path: Path
) -> None:
    nth, fired, fires = 0, 0, True
    while fires:
        nth += 1 if FULL or nth == 0 else 1 + SAMPLE % 3 if nth == 1 else 3  # after the first one, one in three
        path, copy = tmp_path / "store", tmp_path / "killed"
        disk, model = FaultyDisk(), Model()
        store = lowtide.open(path, **SMALL, durability=durability, disk=disk)
        disk.fail(operation, nth=nth, forever=forever, written=written)
        error = run_until_failure(store, model)
        fires = disk.fired > 0
        fired += fires
        assert content_of(store) == model.content
        if error is not None:
            assert isinstance(error, lowtide.StoreFailed), error
            check_refused(store, model)
            disk.heal()
            check_refused(store, model)
        assert reopened(killed(path, copy)) == model.content
        disk.heal()
        store.close()
        assert reopened(path) == model.content
        shutil.rmtree(path)
        shutil.rmtree(copy)
    if operation != "remove":
        assert fired or (operation, durability) == ("sync", "full"), "the fault was never met"


def test_a_store_that_failed_works_again_once_it_was_reopened(tmp_path: Path) -> None:
    disk, model = FaultyDisk(), Model()
    with lowtide.open(tmp_path / "store", **SMALL, disk=disk) as store:
        disk.fail("write_durably", nth=3, forever=True)
        assert isinstance(run_until_failure(store, model), lowtide.StoreFailed)
    with lowtide.open(tmp_path / "store", **SMALL, disk=disk) as store:
        assert store.stats().failure is None or disk.fired
        disk.heal()
    with lowtide.open(tmp_path / "store", **SMALL, disk=disk) as store:
        assert content_of(store) == model.content
        assert commit(store, both(30)) == len(model.states)
        model.apply(both(30))
    assert reopened(tmp_path / "store") == model.content


def test_a_sync_in_the_background_that_fails_stops_further_commits(tmp_path: Path) -> None:
    """What was acknowledged before stays visible: relaxed durability never promised more."""
    disk = FaultyDisk()
    with lowtide.open(tmp_path / "store", durability="relaxed", sync_interval=0.001, disk=disk) as store:
        disk.fail("sync", forever=True)
        commit(store, both(1))
        syncer = parts_of(store).syncer
        assert syncer is not None
        syncer._thread.join(PATIENCE)
        assert not syncer._thread.is_alive()
        with pytest.raises(lowtide.StoreFailed, match="Input/output error"):
            commit(store, both(2))
        assert content_of(store)["left"] == {b"key 1": b"1."}
        with pytest.raises(lowtide.StoreFailed):
            store.checkpoint()
        assert store.stats().checkpoint_failures == 1
    assert reopened(tmp_path / "store")["left"] == {b"key 1": b"1."}


def test_writes_at_isolation_none_fail_in_the_same_way(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with lowtide.open(tmp_path / "store", **SMALL, disk=disk) as store:
        tx = store.begin("none")
        tx.keyspace("k").put(b"a", b"1")
        disk.fail("write", "write_durably", forever=True)
        with pytest.raises(lowtide.StoreFailed):
            tx.keyspace("k").put(b"b", b"2")
        assert dict(store.keyspace("k").scan()) == {b"a": b"1"}
    assert reopened(tmp_path / "store") == {"k": {b"a": b"1"}}


@pytest.mark.parametrize(
    "operation", ["write", "sync", "rename", "remove", "sync_directory", "create", "write_durably"]
)
def test_an_error_while_a_store_is_recovered_harms_nothing(operation: str, tmp_path: Path) -> None:
    """The opening fails, and one that meets no error finds everything."""
    model = Model()
    store = lowtide.open(tmp_path / "store", **SMALL, durability="relaxed")
    assert run_until_failure(store, model) is None
    commit(store, both(11, 10))
    torn = killed(tmp_path / "store", tmp_path / "killed")
    store.close()
    last = sorted((torn / "log").glob("*.log"))[-1]
    assert b"11.xxx" in last.read_bytes()
    last.write_bytes(last.read_bytes().replace(b"11.xxx", b"11.xyx", 1))
    shutil.copy(last, torn / "log" / "spare-9.tmp")
    nth = fired = 0
    while nth == fired:
        nth += 1
        disk = FaultyDisk()
        copy = killed(torn, tmp_path / f"killed {nth}")
        disk.fail(operation, nth=nth)
        try:
            lowtide.open(copy, **SMALL, disk=disk).close()
        except lowtide.Error:
            assert disk.fired
        fired += disk.fired > 0
        assert reopened(copy) == model.content
        shutil.rmtree(copy)


def test_an_error_while_a_store_is_made_leaves_one_that_can_be_made(tmp_path: Path) -> None:
    for operation in ("create", "write_durably", "rename", "sync_directory"):
        nth = fired = 0
        while nth == fired:
            nth += 1
            disk = FaultyDisk()
            path = tmp_path / f"{operation} {nth}"
            disk.fail(operation, nth=nth)
            try:
                lowtide.open(path, disk=disk).close()
            except lowtide.Error:
                assert disk.fired
            fired += disk.fired > 0
            with lowtide.open(path) as store:
                commit(store, both(1))
            assert reopened(path)["left"] == {b"key 1": b"1."}
        assert fired
