"""A keyspace of the store itself: each call is its own transaction, and a single write never conflicts."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.errors import UsageError
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together
from tests.support.schedule import Schedule


def test_each_write_is_a_commit(store: lowtide.Store) -> None:
    keyspace = store.keyspace("k")
    keyspace.put(b"x", b"1")
    keyspace.put(b"x", b"2")
    keyspace.delete(b"x")
    keyspace.delete(b"never there")
    assert store.stats().last_commit == 4
    assert keyspace.get(b"x") is None


@pytest.mark.parametrize("checkpointed", [False, True])
def test_each_read_is_of_the_latest_commit(store: lowtide.Store, checkpointed: bool) -> None:
    keyspace = store.keyspace("k")
    for number in range(3):
        with store.transaction() as tx:
            tx.keyspace("k").put(b"x", b"%d" % number)
            tx.keyspace("k").put(b"y", b"%d" % number)
        if checkpointed:
            store.checkpoint()
        assert keyspace.get(b"x") == b"%d" % number
        assert dict(keyspace.scan()) == {b"x": b"%d" % number, b"y": b"%d" % number}


def test_a_read_looks_through_a_frozen_layer_and_takes_the_newer_one(store: lowtide.Store) -> None:
    keyspace = store.keyspace("k")
    for key in (b"base", b"frozen", b"active"):
        keyspace.put(key, b"base")
    store.checkpoint()
    keyspace.put(b"frozen", b"frozen")
    keyspace.put(b"active", b"frozen")
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, "checkpoint.apply").arrive()
        keyspace.put(b"active", b"active")
        keyspace.delete(b"base")
        assert [keyspace.get(key) for key in (b"base", b"frozen", b"active")] == [None, b"frozen", b"active"]
        assert dict(keyspace.scan()) == {b"frozen": b"frozen", b"active": b"active"}
        checkpoint.finish()
    assert dict(keyspace.scan()) == {b"frozen": b"frozen", b"active": b"active"}


def test_a_scan_is_of_one_instant(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowtide.engine.versions.visibility._FIRST_CHUNK", 1)
    keyspace = store.keyspace("k")
    for key in (b"a", b"b", b"c"):
        keyspace.put(key, b"old")
    entries = keyspace.scan()
    seen = [next(entries)]
    for key in (b"a", b"b", b"d"):
        keyspace.put(key, b"new")
    keyspace.delete(b"c")
    store.checkpoint()
    store.collect_garbage()
    seen += entries
    assert seen == [(b"a", b"old"), (b"b", b"old"), (b"c", b"old")]
    assert store.stats().snapshots == []


def test_a_scan_holds_its_instant_only_while_it_runs(store: lowtide.Store) -> None:
    keyspace = store.keyspace("k")
    for key in (b"a", b"b"):
        keyspace.put(key, b"")
    entries = keyspace.scan()
    assert store.stats().snapshots == [], "not before it was asked for anything"
    next(entries)
    (held,) = store.stats().snapshots
    assert held.where.startswith(__file__)
    list(entries)
    assert store.stats().snapshots == []


def test_single_writes_never_conflict(store: lowtide.Store) -> None:
    def write(value: bytes) -> None:
        for _ in range(50):
            store.keyspace("k").put(b"x", value)
            store.keyspace("k").delete(b"x")

    run_together(lambda: write(b"a"), lambda: write(b"b"), lambda: write(b"c"))
    assert store.stats().last_commit == 300


def test_a_closed_store_refuses_reads_writes_and_scans(store: lowtide.Store) -> None:
    keyspace = store.keyspace("k")
    keyspace.put(b"x", b"1")
    store.close()
    for call in (
        lambda: keyspace.get(b"x"),
        lambda: keyspace.put(b"x", b"2"),
        lambda: keyspace.delete(b"x"),
        lambda: list(keyspace.scan()),
    ):
        with pytest.raises(UsageError, match="closed"):
            call()


def test_a_store_that_was_opened_read_only_refuses_writes(open_store: OpenStore) -> None:
    store = open_store()
    store.keyspace("k").put(b"x", b"1")
    store.close()
    reading = open_store(read_only=True)
    assert reading.keyspace("k").get(b"x") == b"1"
    with pytest.raises(UsageError, match="read-only"):
        reading.keyspace("k").put(b"x", b"2")
    with pytest.raises(UsageError, match="read-only"):
        reading.keyspace("k").delete(b"x")
    with reading.transaction() as tx, pytest.raises(UsageError, match="read-only"):
        tx.keyspace("k").put(b"x", b"2")
    assert dict(reading.keyspace("k").scan()) == {b"x": b"1"}
