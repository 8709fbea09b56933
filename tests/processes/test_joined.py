"""A store that another process owns: the whole API works, and all commits are validated together."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.log.writer import LogWriter
from lowtide.engine.transaction import commit
from lowtide.engine.transaction.request import open_gate
from lowtide.sharing.joined import Joined
from lowtide.store import backend_of
from lowtide.store.owned import OwnedStore
from tests.crash.stores import wait_until
from tests.processes.begun import increment
from tests.support.patience import PATIENCE

LEVELS = [level.value for level in lowtide.Isolation]


def log_of(owner: lowtide.Store) -> LogWriter:
    backend = backend_of(owner)
    assert isinstance(backend, OwnedStore)
    return backend.log


def test_each_sees_what_the_other_one_commits_at_once(owner: lowtide.Store, joined: lowtide.Store) -> None:
    for number in range(50):
        joined.keyspace("k").put(b"x", b"%d" % number)
        assert joined.keyspace("k").get(b"x") == owner.keyspace("k").get(b"x") == b"%d" % number
        owner.keyspace("k").put(b"y", b"%d" % number)
        assert joined.keyspace("k").get(b"y") == b"%d" % number


def test_a_commit_is_shown_to_other_processes_before_it_is_acknowledged(
    owner: lowtide.Store, joined: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that begins after an acknowledgement, wherever that was received, looks at the shared page only."""
    parts, follower = backend_of(owner), backend_of(joined)
    assert isinstance(parts, OwnedStore)
    assert isinstance(follower, Joined)
    committer, told = parts.committer, []

    def opening(gate: threading.Lock | None) -> None:
        told.append((parts.registry.published, follower._page.published))
        open_gate(gate)

    monkeypatch.setattr(commit, "open_gate", opening)
    puts = [threading.Thread(target=owner.keyspace("k").put, args=(b"%d" % each, b"1")) for each in range(3)]
    with committer.exclusive():
        for each in puts:
            each.start()
        wait_until(lambda: [each.gate is not None for each in list(committer._queue)] == [True] * 3)
    for each in puts:
        each.join(PATIENCE)
    assert max(published for published, _ in told) == 4
    assert [published for published, _ in told] == [shown for _, shown in told]


def test_a_keyspace_of_the_store_is_scanned_whether_or_not_it_existed_when_it_was_opened(
    owner: lowtide.Store, joined: lowtide.Store
) -> None:
    early, late = joined.keyspace("new"), joined.keyspace("k")
    assert list(early.scan()) == []
    for each in (early, late):
        each.put_many([(b"b", b"2"), (b"a", b"1"), (b"bb", b"3")])
        entries = [(b"a", b"1"), (b"b", b"2"), (b"bb", b"3")]
        assert list(each.scan()) == list(joined.keyspace(each.name).scan()) == entries
        assert list(each.scan(b"b")) == list(each.scan(prefix=b"b")) == entries[1:]
        assert list(each.scan(b"a", b"bb", reverse=True)) == entries[1::-1]
        assert list(each.scan(b"b", b"a")) == []
    assert list(owner.keyspace("new").scan()) == entries


def test_a_keyspace_that_was_opened_reads_on_whatever_becomes_of_what_it_reads_from(
    owner: lowtide.Store, joined: lowtide.Store
) -> None:
    """The generation of the log that was followed ends, the lease is lost, the process takes the store over."""
    keyspace, follower = joined.keyspace("k"), backend_of(joined)
    assert isinstance(follower, Joined)
    assert keyspace.get(b"a") == b"1"
    for number in range(3):
        owner.keyspace("k").put(b"a", b"%d" % number)
        if number == 0:
            follower.retire()
        elif number == 1:
            for pin in owner.pins():
                owner.unpin(pin.name)
            owner.checkpoint()
        else:
            owner.close()
        assert keyspace.get(b"a") == b"%d" % number
        assert keyspace.get(b"missing") is None
        keyspace.put(b"b", b"%d" % number)
        assert keyspace.get(b"b") == joined.keyspace("k").get(b"b") == b"%d" % number
    joined.close()
    with pytest.raises(lowtide.UsageError, match="closed"):
        keyspace.get(b"a")


@pytest.mark.parametrize("level", LEVELS)
def test_transactions_of_every_level_read_and_write(owner: lowtide.Store, joined: lowtide.Store, level: str) -> None:
    for _ in range(3):
        joined.run(increment, isolation=level)
        owner.run(increment, isolation=level)
    assert owner.keyspace("k").get(b"n") == b"6"
    with joined.transaction(level) as tx:
        assert dict(tx.keyspace("k").scan()) == {b"a": b"1", b"n": b"6"}
        tx["users"].insert_one({"_id": level})
    assert owner.collection("users").count_documents({}) == 1


@pytest.mark.parametrize("level", ["read_committed", "none"])
def test_below_snapshot_a_transaction_sees_each_new_commit(
    owner: lowtide.Store, joined: lowtide.Store, level: str
) -> None:
    with joined.transaction(level) as tx:
        assert tx.keyspace("k").get(b"a") == b"1"
        owner.keyspace("k").put(b"a", b"2")
        assert tx.keyspace("k").get(b"a") == b"2"
        assert dict(tx.keyspace("k").scan()) == {b"a": b"2"}


def test_a_conflict_names_the_key_and_both_commits(owner: lowtide.Store, joined: lowtide.Store) -> None:
    tx = joined.begin()
    tx.keyspace("k").put(b"a", b"mine")
    with owner.transaction() as other:
        other.keyspace("k").put(b"a", b"theirs")
    with pytest.raises(lowtide.ConflictError) as caught:
        tx.commit()
    error = caught.value
    assert (error.keyspace, error.key, error.snapshot_ts, error.committed_ts) == ("k", b"a", 1, 2)
    assert owner.keyspace("k").get(b"a") == b"theirs"


@pytest.mark.parametrize("checkpoint", [False, True], ids=["in memory", "in the base"])
@pytest.mark.parametrize("how", ["key", "range"])
def test_what_a_serializable_transaction_read_is_validated(
    owner: lowtide.Store, joined: lowtide.Store, how: str, checkpoint: bool
) -> None:
    tx = joined.begin("serializable")
    if how == "key":
        assert tx.keyspace("k").get(b"missing") is None
    else:
        assert [key for key, _ in tx.keyspace("k").scan(b"m")] == []
    tx.keyspace("k").put(b"z", b"1")
    owner.keyspace("k").put(b"missing", b"here")
    if checkpoint:
        owner.checkpoint()
    with pytest.raises(lowtide.ConflictError, match="read key b'missing'"):
        tx.commit()


@pytest.mark.parametrize("level", ["snapshot", "serializable"])
def test_a_deletion_leaves_a_trace_until_the_transaction_has_ended(
    owner: lowtide.Store, joined: lowtide.Store, level: str
) -> None:
    """The row is gone from base and memory; only the tombstone tells."""
    tx = joined.begin(level)
    tx.keyspace("k").get(b"a")
    tx.keyspace("k").put(b"a", b"mine")
    owner.keyspace("k").delete(b"a")
    owner.checkpoint()
    owner.collect_garbage()
    with pytest.raises(lowtide.ConflictError):
        tx.commit()
    assert owner.keyspace("k").get(b"a") is None


def test_a_transaction_that_outlived_its_lease_is_refused(owner: lowtide.Store, joined: lowtide.Store) -> None:
    tx = joined.begin()
    tx.keyspace("k").put(b"a", b"mine")
    for pin in owner.pins():
        owner.unpin(pin.name)
    with pytest.raises(lowtide.SnapshotExpired):
        tx.commit()
    assert owner.keyspace("k").get(b"a") == b"1"
    joined.run(increment)


def test_a_unique_index_is_unique_for_both(owner: lowtide.Store, joined: lowtide.Store) -> None:
    joined.collection("users").create_index("email", unique=True)
    first, second = owner.begin(), joined.begin()
    first["users"].insert_one({"email": "ann"})
    second["users"].insert_one({"email": "ann"})
    first.commit()
    with pytest.raises(lowtide.Error):
        second.commit()
    with pytest.raises(lowtide.errors.DuplicateKeyError):
        joined.collection("users").insert_one({"email": "ann"})
    assert owner.collection("users").count_documents({}) == 1


def test_an_index_is_built_and_a_schema_set_from_a_joined_store(owner: lowtide.Store, joined: lowtide.Store) -> None:
    users = joined.collection("users")
    users.insert_many([{"_id": number, "age": number % 7} for number in range(300)])
    users.create_index("age")
    assert owner.collection("users").count_documents({"age": 3}) == 43
    assert users.find({"age": 3}).explain() == owner.collection("users").find({"age": 3}).explain()
    assert joined.sql("select count(*) from users where age = 3").fetchone() == (43,)


def test_callbacks_run_here_in_commit_order(owner: lowtide.Store, joined: lowtide.Store) -> None:
    called: list[int] = []

    def work() -> None:
        for _ in range(20):
            with joined.transaction() as tx:
                tx.keyspace("k").put(os.urandom(4), b"1")
                tx.on_commit(called.append)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert len(called) == 60
    assert called == sorted(called)


def test_changes_watch_consumers_and_pins(owner: lowtide.Store, joined: lowtide.Store) -> None:
    consumer = joined.consumer("mirror", since=0)
    joined.keyspace("k").put(b"b", b"2")
    assert [change.key for change in consumer.changes()] == [b"a", b"b"]
    with joined.watch(since=1, timeout=PATIENCE) as watch:
        assert next(watch).key == b"b"
    with joined.pin("here", ttl=60) as pin:
        joined.keyspace("k").put(b"b", b"3")
        with joined.snapshot(at=pin) as snapshot, owner.snapshot(at="here") as other:
            assert snapshot.keyspace("k").get(b"b") == other.keyspace("k").get(b"b") == b"2"


def test_upkeep_is_done_by_the_owner(owner: lowtide.Store, joined: lowtide.Store, tmp_path: Path) -> None:
    joined.keyspace("k").put(b"b", b"2")
    joined.checkpoint()
    assert owner.stats().boundary == joined.stats().boundary == 2
    assert joined.collect_garbage() == 0
    assert joined.verify().ok
    assert joined.inspect_key("k", b"b").versions[0].begin == 2
    assert joined.inspect_base().tables[0].name == "rows"
    report = joined.compact()
    assert report.after == (owner.path / "base" / "data.mdb").stat().st_size
    assert joined.keyspace("k").get(b"b") == owner.keyspace("k").get(b"b") == b"2"
    assert joined.backup(tmp_path / "copy").reaches == 2
    with lowtide.open(tmp_path / "copy") as copy:
        assert copy.keyspace("k").get(b"b") == b"2"


def test_statistics_show_every_process(owner: lowtide.Store, joined: lowtide.Store) -> None:
    for _ in range(3):
        joined.run(increment)
    tx = joined.begin()
    tx.keyspace("k").put(b"n", b"0")
    owner.run(increment)
    with pytest.raises(lowtide.ConflictError):
        tx.commit()
    first, second = joined.stats().processes
    assert (first.role, first.commits, first.conflicts) == ("owner", 2, 0)
    assert (second.role, second.commits, second.conflicts) == ("joined", 3, 1)
    assert first.pid == second.pid == os.getpid()
    assert 'role="joined"} 3' in joined.metrics()


def test_a_new_keyspace_has_one_number(owner: lowtide.Store, joined: lowtide.Store) -> None:
    tx = joined.begin()
    tx.keyspace("new").put(b"x", b"joined")
    assert "new" not in owner.keyspaces(), "a name that was only used is not there"
    owner.keyspace("other").put(b"x", b"owner")
    tx.commit()
    assert owner.keyspace("new").get(b"x") == b"joined"
    assert joined.keyspace("other").get(b"x") == b"owner"
    assert joined.keyspaces() == owner.keyspaces() == ["k", "new", "other"]


def test_before_images_are_as_the_owner_keeps_them(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", before_images=True) as owner, lowtide.open(tmp_path / "store") as joined:
        joined.keyspace("k").put(b"a", b"1")
        with joined.transaction() as tx:
            tx.keyspace("k").put(b"a", b"2")
        assert [change.before for change in owner.changes(before=True)] == [None, b"1"]


def test_a_commit_is_as_durable_as_its_process_asked_for(tmp_path: Path) -> None:
    with (
        lowtide.open(tmp_path / "store", durability="relaxed", sync_interval=1e6) as owner,
        lowtide.open(tmp_path / "store", durability="full") as joined,
    ):
        owner.keyspace("k").put(b"a", b"1")
        log = log_of(owner)
        assert log.durable_ts == 0
        joined.keyspace("k").put(b"a", b"2")
        assert log.durable_ts == 2
