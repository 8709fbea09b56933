"""Verify, backup and compact while other threads commit, checkpoint, write the base and close."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.upkeep.verify import verify_files
from tests.conftest import OpenStore
from tests.race.gates import stays_blocked
from tests.support.parts import parts_of
from tests.support.schedule import Schedule


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    store = open_store(checkpointer="thread", cache_rows=1)
    store.keyspace("fruit").put(b"apple", b"red")
    store.checkpoint()
    store.keyspace("fruit").put(b"apple", b"green")
    return store


def test_the_boundary_stands_still_while_a_store_is_verified(store: lowtide.Store) -> None:
    with Schedule() as schedule:
        verify = schedule.start(store.verify, "verify.noted").arrive()
        checkpoint = schedule.start(store.checkpoint)
        assert stays_blocked(checkpoint)
        store.keyspace("fruit").put(b"apple", b"yellow")
        report = verify.finish()
        checkpoint.finish()
    assert report.ok, str(report)
    assert (report.boundary, report.last_commit) == (1, 2)


def test_a_commit_that_is_in_the_log_and_not_yet_published_is_waited_for(store: lowtide.Store) -> None:
    """A moment: what is noted of log, memory and last commit must be of one commit."""
    with Schedule() as schedule:
        commit = schedule.start(lambda: store.keyspace("fruit").put(b"pear", b"green"), "commit.publish").arrive()
        verify = schedule.start(store.verify)
        assert stays_blocked(verify)
        commit.finish()
        report = verify.finish()
    assert report.ok, str(report)
    assert report.last_commit == 3


def test_who_writes_the_base_while_its_file_is_exchanged_writes_to_the_new_one(store: lowtide.Store) -> None:
    base = parts_of(store).base
    with Schedule() as schedule:
        compact = schedule.start(store.compact, "compact.renamed").arrive()
        write = schedule.start(lambda: base.write(lambda txn: txn.put(b"late", b"written", db=base.meta)))
        assert stays_blocked(write)
        compact.finish()
        write.finish()
    assert base.read(lambda txn: txn.get(b"late", db=base.meta)) == b"written"
    store.close()
    with lowtide.open(store.path) as again:
        base = parts_of(again).base
        assert base.read(lambda txn: txn.get(b"late", db=base.meta)) == b"written"


def test_who_reads_while_the_file_is_exchanged_waits_a_moment(store: lowtide.Store) -> None:
    with Schedule() as schedule:
        compact = schedule.start(store.compact, "compact.renamed").arrive()
        point = schedule.start(lambda: store.keyspace("fruit").get(b"apple"))
        scan = schedule.start(lambda: list(store.keyspace("fruit").scan()))
        assert stays_blocked(scan)
        commit = schedule.start(lambda: store.keyspace("fruit").put(b"pear", b"green"))
        compact.finish()
        commit.finish()
        assert store.keyspace("fruit").get(b"pear") == b"green"
        assert point.finish() == b"green"
        assert (b"apple", b"green") in scan.finish()


def test_a_store_is_given_back_only_when_its_backup_is_done(store: lowtide.Store, tmp_path: Path) -> None:
    """The next owner may cut and recycle the very files that are being copied."""
    with Schedule() as schedule:
        backup = schedule.start(lambda: store.backup(tmp_path / "backup"), "backup.segment").arrive()
        close = schedule.start(store.close)
        assert stays_blocked(close)
        with pytest.raises(lowtide.StoreLocked):
            lowtide.open(store.path, exclusive=True)
        assert backup.finish().reaches == 2
        close.finish()
    assert verify_files(tmp_path / "backup").ok
