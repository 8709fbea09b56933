"""KeyboardInterrupt anywhere in a checkpoint, a close or an opening: nothing is lost or stays locked (P1, K3)."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

import lowtide
from lowtide.upkeep.verify import verify_files
from tests.crash.interrupts import Places, interrupted
from tests.crash.stores import SMALL, Durability, Model, both, commit, content_of, in_time, killed, reopened
from tests.support.attack import FULL
from tests.support.parts import parts_of

HANDING_OVER = ("StoreAccess._own_or_join", "StoreAccess.__init__", "Store.__init__")
"""An interrupt between the last step of an opening and its return leaves an open store without a reference to it. No
program can prevent that."""
CLOSING = ("in Ownership.release", "in OwnedStore.close", "in Service.close")
"""An interrupt there leaves a lock or a socket to Python's collector, and the next opening would wait for its owner."""


def press(tried: Places, work: Callable[[], object]) -> list[str]:
    """Do ``work``, interrupted at the next place; returns the place, or nothing when all were tried."""
    error = KeyboardInterrupt("pressed by the test")
    with interrupted(tried, error, sparing=HANDING_OVER) as reached:
        try:
            work()
        except KeyboardInterrupt:
            assert reached
    if len(tried) % 32 == 0 or any(place.endswith(CLOSING) for place in reached):
        gc.collect()  # what was half open waits for the cyclic collector, and each opening looks through all of it
    return reached


def test_an_interrupt_anywhere_in_a_checkpoint_loses_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    store = lowtide.open(tmp_path / "store", **SMALL, durability="relaxed")
    model, tried, number = Model(), Places(visits=1, one_in=3), 0
    try:
        reached = ["somewhere"]
        while reached:
            reader = store.snapshot()
            seen = content_of(store)
            for size in (1500, 100):
                number += 1
                commit(store, both(number, size))
                model.apply(both(number, size))
            reached = press(tried, store.checkpoint)
            where = f"after an interrupt in {reached}"
            assert content_of(store) == model.content, where
            left = {name: dict(reader.keyspace(name).scan()) for name in ("left", "right")}
            assert {name: entries for name, entries in left.items() if entries} == seen, where
            if len(tried) % 3 == 0:
                with lowtide.open(killed(store.path, tmp_path / "killed"), **SMALL) as restarted:
                    assert content_of(restarted) == model.content, where
                shutil.rmtree(tmp_path / "killed")
            in_time(store.checkpoint, where)
            reader.close()
            assert store.stats().boundary == parts_of(store).base.read_boundary() == number, where
    except BaseException:
        store._finalizer.detach()  # with a lock that is never released, closing it at exit would not return
        raise
    assert len(tried) > (50 if FULL else 20), "the checkpoint was hardly traced"
    assert len(list((store.path / "log").iterdir())) <= 6, "segments that an interrupt kept were never released"
    in_time(store.close)
    assert reopened(tmp_path / "store") == model.content


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_an_interrupt_anywhere_in_a_close_gives_the_store_back_all_the_same(
    tmp_path: Path, durability: Durability
) -> None:
    """At once, or when it is closed once more."""
    model, tried, number = Model(), Places(visits=1, one_in=4, nth=2 * (durability == "full")), 0
    reached = ["somewhere"]
    while reached:
        store = lowtide.open(tmp_path / "store", **SMALL, durability=durability)
        assert content_of(store) == model.content, f"after an interrupt in {reached}"
        number += 1
        commit(store, both(number, 100))
        model.apply(both(number, 100))
        reached = press(tried, store.close)
        try:
            in_time(store.close, f"after an interrupt in {reached}")
        except BaseException:
            store._finalizer.detach()
            raise
    assert len(tried) > (50 if FULL else 20), "the close was hardly traced"
    assert reopened(tmp_path / "store") == model.content


def test_an_interrupt_anywhere_in_an_opening_or_a_making_leaves_a_store_that_can_be_opened(tmp_path: Path) -> None:
    """First of a killed store with a torn tail and several segments, so that every kind of work is done; then of a new
    one, at the places that are left."""
    model = Model()
    killed_store = torn(tmp_path, model)
    tried, reached = Places(visits=1, one_in=8), ["somewhere"]
    while reached:
        copy = killed(killed_store, tmp_path / "copy")
        reached = press(tried, lambda copy=copy: lowtide.open(copy, **SMALL).close())  # type: ignore[misc]
        with opened_again(copy) as again:
            assert content_of(again) == model.content, f"after an interrupt in {reached}"
        shutil.rmtree(copy)
    opening = len(tried)
    path, reached = tmp_path / "new", ["somewhere"]
    while reached:
        reached = press(tried, lambda: lowtide.open(path, **SMALL).close())
        with opened_again(path) as new:
            commit(new, both(1))
            assert content_of(new)["left"] == {b"key 1": b"1."}, f"after an interrupt in {reached}"
        shutil.rmtree(path)
    assert opening > (100 if FULL else 20), "the opening was hardly traced"
    assert len(tried) > opening + (20 if FULL else 2), "the making was hardly traced"


def torn(directory: Path, model: Model) -> Path:
    """A store that was killed in the middle of a commit."""
    store = lowtide.open(directory / "living", **SMALL, durability="relaxed")
    for number in range(6):
        commit(store, both(number, 700))
        model.apply(both(number, 700))
    commit(store, {"left": {b"torn": b"off"}})
    path = killed(store.path, directory / "killed")
    store.close()
    last = sorted((path / "log").glob("*.log"))[-1]
    assert b"torn" in last.read_bytes()
    last.write_bytes(last.read_bytes().replace(b"torn", b"t0rn"))
    return path


def opened_again(path: Path) -> lowtide.Store:
    """The store, opened after an interrupted opening: what was half open goes with the last reference to it."""
    try:
        return lowtide.open(path, **SMALL)
    except (lowtide.Error, lmdb.Error):
        gc.collect()
        return lowtide.open(path, **SMALL)


@pytest.mark.parametrize("work", ["verify", "compact", "backup"])
def test_an_interrupt_anywhere_in_the_upkeep_that_a_user_asks_for_leaves_a_store_that_goes_on(
    tmp_path: Path, work: str
) -> None:
    store = lowtide.open(tmp_path / "store", **SMALL, durability="relaxed")
    model, tried, number = Model(), Places(visits=1, one_in=6), 0
    calls: dict[str, Callable[[], object]] = {
        "verify": store.verify,
        "compact": store.compact,
        "backup": lambda: store.backup(tmp_path / "backup"),
    }
    try:
        reached = ["somewhere"]
        while reached:
            number += 1
            commit(store, both(number, 600))
            model.apply(both(number, 600))
            reached = press(tried, calls[work])
            where = f"after an interrupt in {reached}"
            assert content_of(store) == model.content, where
            in_time(store.checkpoint, where)
            assert in_time(store.verify, where).ok, where
            if work == "backup" and (tmp_path / "backup" / "store.json").exists():
                assert verify_files(tmp_path / "backup").ok, where
    except BaseException:
        store._finalizer.detach()  # with a lock that is never released, closing it at exit would not return
        raise
    assert len(tried) > (50 if FULL else 15), "it was hardly traced"
    in_time(store.close)
    assert reopened(tmp_path / "store") == model.content
    if work == "backup":
        assert reopened(tmp_path / "backup") == model.content
