"""A read that took its view and is overtaken by commits and checkpoints reads its snapshot (scenarios K1, I3)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import lowtide
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE
from tests.support.schedule import Schedule

Change = Callable[[lowtide.Store], None]


def put(store: lowtide.Store, key: bytes, value: bytes) -> None:
    store.keyspace("k").put(key, value)


def update(store: lowtide.Store) -> None:
    put(store, b"x", b"new")


def delete(store: lowtide.Store) -> None:
    store.keyspace("k").delete(b"x")


def delete_and_insert(store: lowtide.Store) -> None:
    delete(store)
    put(store, b"x", b"old")
    put(store, b"x", b"newer")


CHANGES = pytest.mark.parametrize("change", [update, delete, delete_and_insert])


@CHANGES
@pytest.mark.parametrize("before", [b"old", None])
def test_a_read_before_the_base_is_not_misled_by_a_checkpoint(
    store: lowtide.Store, change: Change, before: bytes | None
) -> None:
    """K1. The reader found nothing in its layers. If the checkpoint did not keep what this snapshot sees, or the read
    took any row for its own, it would return the new value, or nothing."""
    put(store, b"other", b"1")
    if before is not None:
        put(store, b"x", before)
    store.checkpoint()
    with store.snapshot() as snapshot, Schedule() as schedule:
        read = schedule.start(lambda: snapshot.keyspace("k").get(b"x"), "read.base").arrive()
        change(store)
        store.checkpoint()
        put(store, b"x", b"last")
        store.checkpoint()
        assert read.finish() == before
        assert snapshot.keyspace("k").get(b"x") == before
        assert store.keyspace("k").get(b"x") == b"last"


@CHANGES
@pytest.mark.parametrize("place", ["checkpoint.sampled", "checkpoint.boundary", "checkpoint.applied"])
def test_a_read_that_holds_a_frozen_layer_finds_the_rest_in_the_base(
    store: lowtide.Store, change: Change, place: str
) -> None:
    """K1. The view was taken while the checkpoint stood in the middle, and its frozen layer has only versions that are
    newer than the snapshot. Looking into the base before the layers would miss what was moved in between."""
    put(store, b"x", b"old")
    store.checkpoint()
    with store.snapshot() as snapshot, Schedule() as schedule:
        change(store)
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        read = schedule.start(lambda: snapshot.keyspace("k").get(b"x"), "read.base").arrive()
        checkpoint.finish()
        put(store, b"x", b"last")
        store.checkpoint()
        store.collect_garbage()
        assert read.finish() == b"old"


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_is_overtaken_by_a_checkpoint_before_each_chunk_and_shows_its_snapshot(
    store: lowtide.Store, reverse: bool
) -> None:
    """I3. Half of the keys were in the base and half in memory. A scan that took its base before its layers would lose
    the half that was moved; one that kept the layers' keys of an earlier chunk would show it twice."""
    for number in range(0, 400, 2):
        put(store, b"%04d" % number, b"base")
    store.checkpoint()
    for number in range(0, 400, 5):
        put(store, b"%04d" % number, b"memory")
    with store.snapshot() as snapshot, Schedule() as schedule:
        expected = list(snapshot.keyspace("k").scan(reverse=reverse))
        assert len(expected) == 240
        scan = schedule.start(lambda: list(snapshot.keyspace("k").scan(reverse=reverse)), "scan.base", "scan.base")
        scan.arrive()
        _change_everywhere(store, b"first")
        store.checkpoint()
        scan.resume()
        scan.arrive()
        _change_everywhere(store, b"second")
        store.checkpoint()
        store.collect_garbage()
        assert scan.finish() == expected
        assert list(snapshot.keyspace("k").scan(reverse=reverse)) == expected


def _change_everywhere(store: lowtide.Store, value: bytes) -> None:
    """Update every third key, whether it exists or not, and delete every seventh, in one commit."""
    with store.transaction() as tx:
        keyspace = tx.keyspace("k")
        for number in range(0, 400, 3):
            keyspace.put(b"%04d" % number, value)
        for number in range(0, 400, 7):
            keyspace.delete(b"%04d" % number)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("place", ["checkpoint.sampled", "checkpoint.boundary", "checkpoint.applied"])
def test_a_scan_that_holds_a_frozen_layer_is_overtaken_by_its_drop(
    store: lowtide.Store, place: str, reverse: bool
) -> None:
    """I3. The frozen layer and the base may both have a key by then: it is shown once, with the snapshot's value."""
    for number in range(10):
        put(store, b"%d" % number, b"base")
    store.checkpoint()
    put(store, b"3", b"memory")
    store.keyspace("k").delete(b"4")
    with store.snapshot() as snapshot, Schedule() as schedule:
        expected = list(snapshot.keyspace("k").scan(reverse=reverse))
        store.keyspace("k").delete(b"3")
        put(store, b"4", b"again")
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        put(store, b"5", b"above the frozen layer")
        scan = schedule.start(lambda: list(snapshot.keyspace("k").scan(reverse=reverse)), "scan.base").arrive()
        put(store, b"55", b"unseen")
        checkpoint.finish()
        store.checkpoint()
        assert scan.finish() == expected


def test_the_latest_value_is_one_that_was_published_during_the_read(store: lowtide.Store) -> None:
    """The chain is taken before the published timestamp. The other way round two commits in between would leave the
    reader with a chain that has nothing at its timestamp any more: it would find no value at all."""
    put(store, b"x", b"0")
    with Schedule() as schedule:
        read = schedule.start(lambda: store.keyspace("k").get(b"x"), "read.latest").arrive()
        put(store, b"x", b"1")
        put(store, b"x", b"2")
        assert read.finish() in (b"0", b"1", b"2")
        assert store.keyspace("k").get(b"x") == b"2"


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_latest_value_is_not_one_that_is_being_published(store: lowtide.Store, checkpointed: bool) -> None:
    """Taking the newest of the chain without asking what is published would show a commit before it is one."""
    put(store, b"x", b"0")
    if checkpointed:
        store.checkpoint()
    with Schedule() as schedule:
        commit = schedule.start(lambda: put(store, b"x", b"1"), "commit.visible").arrive()
        early = schedule.start(lambda: store.keyspace("k").get(b"x"), "read.latest").arrive()
        late = schedule.start(lambda: store.keyspace("k").get(b"x"), "read.latest").arrive()
        assert early.finish() == b"0"
        commit.finish()
        assert late.finish() == b"1", "it was published before this reader asked"


@pytest.mark.parametrize("place", ["checkpoint.sampled", "checkpoint.boundary"])
def test_a_row_that_was_cached_while_a_checkpoint_replaced_it_is_not_read_after_it(
    store: lowtide.Store, place: str
) -> None:
    """A reader with the old view caches the row that the base still has. A cache that outlived the drop of the layer
    would bring that row back for all readers."""
    put(store, b"x", b"old")
    store.checkpoint()
    parts_of(store).versions.view[2].clear()  # which the checkpoint has filled
    with store.snapshot() as snapshot, Schedule() as schedule:
        read = schedule.start(lambda: snapshot.keyspace("k").get(b"x"), "read.base").arrive()
        put(store, b"x", b"new")
        checkpoint = schedule.start(store.checkpoint, place).arrive()
        assert read.finish() == b"old"
        checkpoint.finish()
        assert store.keyspace("k").get(b"x") == b"new"
        with store.snapshot() as later:
            assert later.keyspace("k").get(b"x") == b"new"
        assert snapshot.keyspace("k").get(b"x") == b"old"


def test_a_row_that_is_cached_after_the_checkpoint_replaced_it_goes_into_a_dead_cache(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader has the old row in its hand when the layer is dropped, and caches it then. A cache that is emptied
    instead of replaced would have the old row after that."""
    put(store, b"x", b"old")
    store.checkpoint()
    parts_of(store).versions.view[2].clear()  # which the checkpoint has filled
    base = parts_of(store).base
    real, has_row, go_on = base.row, threading.Event(), threading.Event()

    def row_and_wait(full_key: bytes) -> bytes | None:
        found = real(full_key)
        has_row.set()
        assert go_on.wait(PATIENCE)
        return found

    with store.snapshot() as snapshot, Schedule() as schedule:
        monkeypatch.setattr(base, "row", row_and_wait)
        read = schedule.start(lambda: snapshot.keyspace("k").get(b"x"))
        assert has_row.wait(PATIENCE)
        monkeypatch.undo()
        put(store, b"x", b"new")
        store.checkpoint()
        go_on.set()
        assert read.finish() == b"old"
        assert store.keyspace("k").get(b"x") == b"new"
        assert snapshot.keyspace("k").get(b"x") == b"old"
