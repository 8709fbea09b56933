"""The owner, as joined stores see it: it closes, is killed, is stopped or is busy, and no commit is lost or applied
twice."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.log.cursor import first_kept
from lowtide.engine.recovery.members import Members
from lowtide.sharing.joined import Joined
from lowtide.store import backend_of
from lowtide.store.owned import OwnedStore
from tests.crash.stores import child, wait_until
from tests.processes.begun import STOPPED, increment
from tests.support.patience import PATIENCE
from tests.support.stopping import stopped


def test_the_log_is_kept_for_a_commit_that_is_not_answered(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", segment_bytes=4096) as owner, Members(owner.path) as waiting:
        token = waiting.begin_waiting(0)
        for number in range(100):
            owner.keyspace("k").put(b"a", b"%d" % number * 100)
        owner.checkpoint()
        assert first_kept(owner.path / "log") == 1
        waiting.end_waiting(token)
        owner.keyspace("k").put(b"a", b"1")
        owner.checkpoint()
        assert first_kept(owner.path / "log") > 1


def test_what_was_begun_goes_on_when_the_owner_closes(owner: lowtide.Store, joined: lowtide.Store) -> None:
    tx, snapshot = joined.begin("serializable"), joined.snapshot()
    assert tx.keyspace("k").get(b"a") == b"1"
    tx.keyspace("new").put(b"x", b"1")
    owner.keyspace("k").put(b"b", b"2")
    owner.close()
    assert snapshot.keyspace("k").get(b"b") is None
    assert tx.keyspace("k").get(b"a") == b"1"
    assert tx.commit() == 3
    assert isinstance(backend_of(joined), OwnedStore)
    assert joined.keyspace("k").get(b"b") == b"2"
    assert joined.keyspace("new").get(b"x") == b"1"
    assert snapshot.keyspace("k").get(b"a") == b"1"
    snapshot.close()


def test_a_conflict_across_a_change_of_owners_is_found(owner: lowtide.Store, joined: lowtide.Store) -> None:
    tx, gone = joined.begin(), joined.begin()
    tx.keyspace("k").put(b"b", b"mine")
    gone.keyspace("k").put(b"a", b"mine")
    owner.keyspace("k").put(b"b", b"theirs")
    owner.keyspace("k").delete(b"a")
    owner.close()
    for each in (tx, gone):
        with pytest.raises(lowtide.ConflictError):
            each.commit()


def test_many_stores_of_one_process_hand_over_to_each_other(tmp_path: Path) -> None:
    stores = [lowtide.open(tmp_path / "store") for _ in range(4)]
    for store in stores:
        for each in stores[stores.index(store) :]:
            each.run(increment)
        store.close()
    with lowtide.open(tmp_path / "store") as store:
        assert store.keyspace("k").get(b"n") == b"10"
        assert store.verify().ok


KILLED = """
import os, signal, sys, lowtide
from lowtide.sharing.joined_commits import JoinedCommits

def ending(name):
    done = getattr(JoinedCommits, name)

    def killed(self, message):
        if sys.argv[2] == "after" and name != "answer_to":
            done(self, message)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(JoinedCommits, name, killed)

if sys.argv[3] == "alone":
    ending("answer")
else:
    ending("taken" if sys.argv[2] == "before" else "answer_to")
store = lowtide.open(sys.argv[1])
store.keyspace("k").put(b"a", b"1")
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("way", ["alone", "inbox"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_owner_is_killed_is_there_once(tmp_path: Path, when: str, way: str) -> None:
    """Killed before it committed, or after: the answer is lost in both cases. The first commit of a connection is
    handled alone, the further ones by the inbox."""
    with child(KILLED, tmp_path / "store", when, way) as process:
        assert process.stdout.readline() == "open\n"
        with lowtide.open(tmp_path / "store") as store:
            if way == "inbox":
                store.keyspace("k").put(b"a", b"1")
            tx = store.begin()
            snapshot = store.snapshot()
            tx.keyspace("k").put(b"a", b"2")
            tx.keyspace("k").put(b"new", b"1")
            ts = 2 if way == "alone" else 3
            assert tx.commit() == ts
            assert process.wait(PATIENCE) == -signal.SIGKILL
            assert snapshot.keyspace("k").get(b"a") == b"1"
            snapshot.close()
            changes = [(change.ts, change.key) for change in store.changes(since=ts - 1)]
            assert changes == [(ts, b"a"), (ts, b"new")]
            assert store.verify().ok


def test_a_stopped_process_blocks_nobody_and_a_killed_one_holds_nothing_back(owner: lowtide.Store) -> None:
    with child(STOPPED, owner.path) as process:
        assert [process.stdout.readline() for _ in range(2)] == ["open\n", "begun\n"]
        with stopped(process.pid):
            for _ in range(20):
                owner.run(increment)
            owner.checkpoint()
            assert [each.pid for each in owner.stats().processes] == [os.getpid(), process.pid]
            assert owner.stats().pins
            process.kill()
        process.wait(PATIENCE)
    while owner.stats().pins:
        pass  # the monitor removes its lease; a test that waits for ever is ended
    assert [each.pid for each in owner.stats().processes] == [os.getpid()]


def test_a_commit_that_waits_for_a_stopped_owner_is_told_of_and_reads_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with child(STOPPED, tmp_path / "store") as process:
        assert [process.stdout.readline() for _ in range(2)] == ["open\n", "begun\n"]
        with lowtide.open(tmp_path / "store") as store:
            store.keyspace("k").put(b"a", b"1")
            backend = backend_of(store)
            assert isinstance(backend, Joined)
            with stopped(process.pid):
                commit = threading.Thread(target=store.keyspace("k").put, args=(b"a", b"2"))
                commit.start()
                wait_until(lambda: bool(backend._members.waiting))
                for _ in range(3):
                    backend._renew()
                assert [record.levelname for record in caplog.records] == ["WARNING"]
                assert f"process {process.pid}" in caplog.text
                assert store.keyspace("k").get(b"a") == b"1"
                other = lowtide.open(tmp_path / "store")
                assert other.keyspace("k").get(b"a") == b"1"
            commit.join(PATIENCE)
            other.close()
            assert store.keyspace("k").get(b"a") == b"2"


BUSY = """
import sys, lowtide
store = lowtide.open(sys.argv[1])

def increment(tx):
    keyspace = tx.keyspace("k")
    keyspace.put(b"n", b"%d" % (int(keyspace.get(b"n") or b"0") + 1))

store.run(increment)
print("open", flush=True)
while True:
    store.run(increment)
"""


def test_a_joined_process_gets_its_turn_beside_an_owner_that_changes_the_same_key(tmp_path: Path) -> None:
    """The owner's attempts take a tenth of the time, so without a turn the joined one would hardly ever come first."""
    with child(BUSY, tmp_path / "store") as process:
        assert process.stdout.readline() == "open\n"
        with lowtide.open(tmp_path / "store") as store:
            for _ in range(20):
                store.run(increment)
