"""Readers inside the owner's own process: they share its base, and closing one does not close the other."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of

READERS = ["follower", "fresh", "pinned"]


def reading(path: Path, kind: str) -> lowtide.Store | lowtide.Snapshot:
    if kind == "follower":
        return lowtide.open(path, read_only=True)
    return lowtide.open_snapshot(path, pin="p" if kind == "pinned" else None)


def rows(reader: lowtide.Store | lowtide.Snapshot) -> dict[bytes, bytes]:
    return dict(reader.keyspace("k").scan())


@pytest.mark.parametrize("order", list(itertools.permutations(["owner", *READERS])), ids="-".join)
def test_owner_and_readers_may_be_closed_in_any_order(open_store: OpenStore, order: tuple[str, ...]) -> None:
    """Each reads on until it is closed itself; at the end another owner finds everything, and nothing left behind."""
    owner = open_store(checkpointer="thread")
    owner.keyspace("k").put(b"x", b"old")
    owner.pin("p")
    open_now: dict[str, lowtide.Store | lowtide.Snapshot] = {"owner": owner}
    for kind in READERS:
        open_now[kind] = reading(owner.path, kind)
    owner.keyspace("k").put(b"x", b"new")
    owner.checkpoint()
    for closed in order:
        for kind, each in open_now.items():
            assert rows(each) == {b"x": b"new" if kind in ("owner", "follower") else b"old"}, kind
        open_now.pop(closed).close()
    with lowtide.open(owner.path, durability="relaxed", checkpointer="thread") as again:
        assert rows(again) == {b"x": b"new"}
        assert [pin.name for pin in again.pins()] == ["p"]
        assert again.stats().history == 1
        again.unpin("p")
        again.collect_garbage()
        assert again.stats().history == 0
        assert again.verify().ok


@pytest.mark.parametrize("kind", READERS)
def test_a_reader_outlives_one_owner_and_sees_the_next(open_store: OpenStore, kind: str) -> None:
    owner = open_store(checkpointer="thread")
    owner.keyspace("k").put(b"x", b"old")
    owner.pin("p")
    with reading(owner.path, kind) as reader:
        owner.close()
        for number in range(3):
            store = open_store(checkpointer="thread")
            store.keyspace("k").put(b"x", b"%d" % number)
            store.checkpoint()
            store.collect_garbage()
            assert rows(reader) == {b"x": b"%d" % number if kind == "follower" else b"old"}
            store.close()
            assert rows(reader) == {b"x": b"%d" % number if kind == "follower" else b"old"}


def _release(store: lowtide.Store, clock: ManualClock) -> None:
    store.unpin("p")


def _expire(store: lowtide.Store, clock: ManualClock) -> None:
    clock.advance(3600.0)
    parts_of(store).pinning.expire()


def _replace(store: lowtide.Store, clock: ManualClock) -> None:
    store.unpin("p")
    store.pin("p")


@pytest.mark.parametrize("end", [_release, _expire, _replace])
@pytest.mark.parametrize("how", ["open_snapshot", "follower"])
def test_a_snapshot_at_a_pin_ends_with_it_and_its_closing_harms_nobody(
    open_store: OpenStore, how: str, end: Callable[[lowtide.Store, ManualClock], None]
) -> None:
    clock = ManualClock(time.time())
    owner = open_store(checkpointer="thread", clock=clock)
    owner.keyspace("k").put(b"x", b"old")
    owner.pin("p", ttl=3600.0)
    with lowtide.open(owner.path, read_only=True, clock=clock) as follower:
        snapshot = follower.snapshot(at="p") if how == "follower" else lowtide.open_snapshot(owner.path, pin="p")
        scan = snapshot.keyspace("k").scan()
        owner.keyspace("k").put(b"x", b"new")
        owner.checkpoint()
        assert snapshot.keyspace("k").get(b"x") == b"old"
        end(owner, clock)
        owner.collect_garbage()
        for _ in range(2):
            with pytest.raises(lowtide.SnapshotExpired):
                snapshot.keyspace("k").get(b"x")
        with pytest.raises(lowtide.SnapshotExpired):
            list(scan)
        snapshot.close()
        snapshot.close()
        assert rows(follower) == rows(owner) == {b"x": b"new"}
    owner.collect_garbage()
    assert owner.stats().history == 0
    assert rows(owner) == {b"x": b"new"}


def test_a_snapshot_of_the_owner_at_a_pin_holds_the_commit_by_itself(open_store: OpenStore) -> None:
    owner = open_store(checkpointer="thread")
    owner.keyspace("k").put(b"x", b"old")
    pin = owner.pin("p")
    with owner.snapshot(at=pin) as snapshot:
        owner.keyspace("k").put(b"x", b"new")
        owner.checkpoint()
        pin.release()
        owner.collect_garbage()
        assert rows(snapshot) == {b"x": b"old"}
    owner.collect_garbage()
    assert owner.stats().history == 0


def test_a_fresh_snapshot_whose_pin_was_taken_from_it_ends_and_can_be_closed(open_store: OpenStore) -> None:
    owner = open_store(checkpointer="thread")
    owner.keyspace("k").put(b"x", b"old")
    snapshot = lowtide.open_snapshot(owner.path)
    assert rows(snapshot) == {b"x": b"old"}
    [pin] = owner.pins()
    assert owner.unpin(pin.name)
    owner.keyspace("k").put(b"x", b"new")
    owner.checkpoint()
    owner.collect_garbage()
    with pytest.raises(lowtide.SnapshotExpired):
        rows(snapshot)
    snapshot.close()
    assert rows(owner) == {b"x": b"new"}
    assert owner.pins() == []


def test_the_owner_closes_under_a_scan_of_a_reader_which_goes_on(open_store: OpenStore) -> None:
    owner = open_store(checkpointer="thread")
    with owner.transaction() as tx:
        for number in range(3000):
            tx.keyspace("k").put(b"%04d" % number, b"old")
    with lowtide.open(owner.path, read_only=True) as follower, lowtide.open_snapshot(owner.path) as fresh:
        scans = [follower.keyspace("k").scan(), fresh.keyspace("k").scan()]
        for each in scans:
            assert next(each) == (b"0000", b"old")
        with owner.transaction() as tx:
            for number in range(3000):
                tx.keyspace("k").put(b"%04d" % number, b"new")
        owner.close()
        for each in scans:
            assert list(each) == [(b"%04d" % number, b"old") for number in range(1, 3000)]
