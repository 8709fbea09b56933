"""The owner of the store executes a job, or the caller if there is no owner. Killed or stopped owners lose nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.recovery.ownership import Ownership
from lowtide.errors import UsageError, WriteError
from lowtide.sharing.loading.staged import READY, cancel, remove_staging, staging_of
from lowtide.store import handover
from lowtide.store.handover import LoadTimeout, ensure_store, load
from lowtide.store.owned import OwnedStore
from tests.conftest import OpenStore
from tests.support.warm import Started, start
from tests.unit.sharing.loading.jobs import check_nothing_left, documents, prepare

_OWNER = """
import os, signal, sys, threading
import lowtide, pyarrow
from lowtide.engine import EngineTransaction
from lowtide.sharing.loading import bulk, loader

go_on = threading.Event()
store, place = lowtide.open(sys.argv[1], durability="relaxed"), sys.argv[2]
claim, commit = loader.claim, EngineTransaction.commit

def stop(*how):
    print("there", flush=True)
    if "kill" in place:
        os.kill(os.getpid(), signal.SIGKILL)
    go_on.wait()

def claiming(directory):
    if place.endswith("before claim"):
        stop()
    claim(directory)
    if place.endswith("before commit"):
        stop()

def committing(self):
    claimed = any("claimed" in files for _, _, files in os.walk(os.path.join(sys.argv[1], "staging")))
    ts = commit(self)
    if place.endswith("after commit") and claimed:
        stop()
    return ts

loader.claim = bulk.claim = claiming
EngineTransaction.commit = committing
print("open", flush=True)
for line in sys.stdin:
    go_on.set()
"""


@contextmanager
def owner(path: Path, place: str = "") -> Iterator[Started]:
    """A process that owns the store, and kills or stops itself at a place of the next job."""
    process = start(_OWNER, path, place)
    try:
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.close()


def go_on(stopped: Started) -> None:
    print(file=stopped.stdin, flush=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lowtide.open(tmp_path / "store", durability="relaxed").close()
    return tmp_path / "store"


def found(path: Path) -> list[object]:
    with lowtide.open(path, durability="relaxed") as store:
        return [each["_id"] for each in documents(store)]


def test_who_asks_does_it_if_nobody_owns_the_store(path: Path) -> None:
    assert load(path, prepare(path, "append", [{"_id": 1}])).counts.inserted == 1
    assert found(path) == [1]


def test_the_owner_in_the_same_process_does_it(open_store: OpenStore) -> None:
    store = open_store()
    receipt = load(store.path, prepare(store.path, "append", [{"_id": 1}]))
    assert receipt.ts == store.stats().last_commit
    assert documents(store) == [{"_id": 1}]


def test_the_owner_in_another_process_does_it(path: Path) -> None:
    with owner(path):
        assert load(path, prepare(path, "append", [{"_id": 1}])).counts.inserted == 1
        with pytest.raises(WriteError, match="duplicate key in collection 'c'"):
            load(path, prepare(path, "append", [{"_id": 1}]))
    assert found(path) == [1]


@pytest.mark.parametrize("place", ["before claim", "before commit", "after commit"])
def test_an_owner_that_is_killed_in_the_middle_loses_and_doubles_nothing(path: Path, place: str) -> None:
    name = prepare(path, "append", [{"_id": each} for each in range(2000)])
    with owner(path, f"kill {place}"):
        receipt = load(path, name)
    assert receipt.repeated == (place == "after commit")
    assert receipt.counts.inserted == 2000
    assert found(path) == list(range(2000))


@pytest.mark.parametrize("place", ["before claim", "before commit", "after commit"])
def test_an_owner_that_is_killed_in_a_bulk_load_loses_and_doubles_nothing(path: Path, place: str) -> None:
    with lowtide.open(path, durability="relaxed") as store:
        store["c"].insert_one({"_id": -1})
    name = prepare(path, "append", [{"_id": each} for each in range(2000)], bulk_bytes=0)
    with owner(path, f"kill {place}"):
        receipt = load(path, name)
    assert receipt.repeated == (place == "after commit")
    assert found(path) == list(range(-1, 2000))
    if place != "after commit":  # else the old keyspaces are left to the next load
        with lowtide.open(path, durability="relaxed") as store:
            check_nothing_left(store)


def test_the_next_owner_is_asked_when_one_is_killed(path: Path) -> None:
    name = prepare(path, "append", [{"_id": 1}])
    with owner(path, "kill after commit") as first:
        asking = threading.Thread(target=load, args=(path, name))
        asking.start()
        first.wait()
        asking.join()
    assert found(path) == [1]


def test_what_an_owner_does_not_finish_in_time_is_taken_back(path: Path) -> None:
    name = prepare(path, "append", [{"_id": 1}])
    with owner(path, "stop before claim") as stopped:
        with pytest.raises(LoadTimeout, match="withdrawn, nothing was changed"):
            load(path, name, timeout=2)
        go_on(stopped)
        with pytest.raises(lowtide.Error, match="cancelled"):
            load(path, name)
    assert found(path) == []


def test_what_is_being_committed_when_time_runs_out_is_said_to_be_unknown(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "_GRACE", 0.3)
    name = prepare(path, "append", [{"_id": 1}])
    with owner(path, "stop before commit") as stopped:
        with pytest.raises(LoadTimeout, match="was committing the write"):
            load(path, name, timeout=2)
        go_on(stopped)
        assert load(path, name).repeated
    assert found(path) == [1]


def test_the_answer_that_comes_in_the_time_of_grace_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = prepare(path, "append", [{"_id": 1}])
    with owner(path, "stop before commit") as stopped:

        def refused(directory: Path) -> bool:
            done = cancel(directory)
            go_on(stopped)
            return done

        monkeypatch.setattr(handover, "cancel", refused)
        assert load(path, name, timeout=2).counts.inserted == 1


def test_a_store_that_is_held_without_an_owner_that_answers_is_waited_for(path: Path) -> None:
    held = Ownership(path / "lock")
    name = prepare(path, "append", [{"_id": 1}])
    with pytest.raises(LoadTimeout, match=r"could not be reached \(this process"):
        load(path, name, timeout=0.2)
    held.release()
    name = prepare(path, "append", [{"_id": 2}])
    assert load(path, name, timeout=0.2).counts.inserted == 1


def test_an_exclusive_owner_takes_no_job(open_store: OpenStore) -> None:
    store = open_store(exclusive=True)
    with pytest.raises(LoadTimeout, match=r"this process.*exclusive=True.*nothing was changed"):
        load(store.path, prepare(store.path, "append", [{"_id": 1}]))
    assert documents(store) == []


def test_an_owner_of_an_older_version_is_named(open_store: OpenStore) -> None:
    store = open_store()
    parts = store._backend
    assert isinstance(parts, OwnedStore)
    handlers = dict(parts._service._handlers)
    del handlers["load"]
    parts._service._handlers = handlers
    with pytest.raises(UsageError, match="runs a version of Lowtide that cannot take documents"):
        load(store.path, prepare(store.path, "append", [{"_id": 1}]))


def test_a_job_that_was_asked_for_twice_at_a_time_is_done_once(open_store: OpenStore) -> None:
    store = open_store()
    name = prepare(store.path, "append", [{"_id": each} for each in range(3000)])
    receipts = []
    asking = [threading.Thread(target=lambda: receipts.append(load(store.path, name))) for _ in range(4)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert len({each.ts for each in receipts}) == 1
    assert sorted(each.repeated for each in receipts) == [False, True, True, True]


def test_a_store_is_made_if_there_is_none(tmp_path: Path) -> None:
    ensure_store(tmp_path / "new")
    ensure_store(tmp_path / "new")
    assert load(tmp_path / "new", prepare(tmp_path / "new", "append", [{"_id": 1}])).counts.inserted == 1


def test_nothing_stays_when_a_job_is_over(path: Path) -> None:
    name = prepare(path, "append", [{"_id": 1}])
    directory = staging_of(path, name)
    assert (directory / READY).exists()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in directory.iterdir()} == {0o600}
    load(path, name)
    remove_staging(path, name)
    remove_staging(path, name)
    assert list((path / "staging").iterdir()) == []
    assert os.listdir(path / "staging") == []
