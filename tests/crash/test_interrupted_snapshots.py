"""An interrupt wherever the interpreter can deliver one leaves no snapshot registered (invariants 5 and 6).

A registration has an owner at every instruction, so it ends with the object that the interrupted call was making or
using. A registration that outlived that object would hold back collection until the store is closed.
"""

from __future__ import annotations

import contextlib
import gc
import random
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

import lowtide
from lowtide import Isolation
from lowtide.engine.transaction.request import Request
from tests.conftest import OpenStore
from tests.crash.interrupts import Places, interrupted, looking
from tests.crash.stores import SMALL
from tests.schedules.world import examine
from tests.support.attack import FULL
from tests.support.parts import parts_of

Work = Callable[[lowtide.Store], None]
SIGNALS = 400


class Alarm(BaseException):
    """What the handlers of these signals raise."""


def change(store: lowtide.Store) -> None:
    """Another commit, so that a snapshot from before it holds something back."""
    store.keyspace("k").put(b"changed", b"again")


def rolled_back(level: Isolation) -> Work:
    def work(store: lowtide.Store) -> None:
        tx = store.begin(level)
        change(store)
        keyspace = tx.keyspace("k")
        keyspace.get(b"changed")
        keyspace.put(b"own", b"1")
        tx.rollback()

    return work


def committed(level: Isolation) -> Work:
    def work(store: lowtide.Store) -> None:
        tx = store.begin(level)
        change(store)
        tx.keyspace("k").get(b"a")
        tx.keyspace("k").put(b"own", b"1")
        tx.commit()

    return work


def in_a_block(level: Isolation) -> Work:
    def work(store: lowtide.Store) -> None:
        with store.transaction(level) as tx:
            keyspace = tx.keyspace("k")
            assert next(iter(keyspace.scan()))
            keyspace.put(b"own", b"2")
            with contextlib.suppress(ValueError), tx.savepoint():
                keyspace.put(b"inner", b"3")
                raise ValueError

    return work


def refused(store: lowtide.Store) -> None:
    with contextlib.suppress(lowtide.ConflictError), store.transaction("serializable") as tx:
        tx.keyspace("k").put(b"changed", b"mine")
        change(store)


def failed(store: lowtide.Store) -> None:
    with contextlib.suppress(ValueError), store.transaction("serializable") as tx:
        assert list(tx.keyspace("k").scan())
        raise ValueError


def snapshot(store: lowtide.Store) -> None:
    with store.snapshot() as snapshot:
        change(store)
        assert snapshot.keyspace("k").get(b"a") == b"1"
        assert list(snapshot.keyspace("k").scan())


def snapshot_at_another(store: lowtide.Store) -> None:
    with store.snapshot() as first:
        change(store)
        with store.snapshot(at=first.ts) as second:
            assert second.keyspace("k").get(b"a") == b"1"
        with contextlib.suppress(lowtide.SnapshotExpired):
            store.snapshot(at=0)


def autocommit(store: lowtide.Store) -> None:
    keyspace = store.keyspace("k")
    keyspace.put(b"own", b"1")
    assert keyspace.get(b"own") == b"1"
    scan = keyspace.scan()
    assert next(scan)
    change(store)
    scan.close()  # type: ignore[attr-defined]
    assert list(keyspace.scan())


def documents(level: Isolation) -> Work:
    def work(store: lowtide.Store) -> None:
        with store.transaction(level) as tx:
            users = tx["users"]
            users.update_one({"_id": 1}, {"$inc": {"n": 1}})
            assert next(users.find()) is not None
            users.delete_one({"_id": 2})
            users.insert_one({"_id": 2})

    return work


def documents_of_the_store(store: lowtide.Store) -> None:
    users = store["users"]
    users.update_one({"_id": 1}, {"$inc": {"n": 1}})
    cursor = users.find({"n": {"$gt": 0}})
    assert next(cursor)
    cursor.close()
    assert users.count_documents({}) > 0


def run(store: lowtide.Store) -> None:
    store.run(lambda tx: tx.keyspace("k").put(b"own", b"1"))


LEVELS = (Isolation.NONE, Isolation.READ_COMMITTED, Isolation.SNAPSHOT_READ, Isolation.SNAPSHOT, Isolation.SERIALIZABLE)

WORKS: dict[str, Work] = {
    **{f"rolled back, {level.value}": rolled_back(level) for level in LEVELS[1:]},
    **{f"committed, {level.value}": committed(level) for level in LEVELS},
    **{f"in a block, {level.value}": in_a_block(level) for level in LEVELS[1:]},
    **{f"documents, {level.value}": documents(level) for level in (Isolation.NONE, Isolation.READ_COMMITTED)},
    "refused": refused,
    "failed": failed,
    "snapshot": snapshot,
    "snapshot at another": snapshot_at_another,
    "autocommit": autocommit,
    "documents of the store": documents_of_the_store,
    "run": run,
}


def fill(store: lowtide.Store) -> None:
    store.keyspace("k").put_many({b"a": b"1", b"b": b"2", b"changed": b"0"})
    store["users"].insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
    store["users"].create_index("n")


def registered(store: lowtide.Store) -> dict[str, object]:
    """The tables of the registry that are not empty."""
    registry = parts_of(store).registry
    tables = {name: getattr(registry, name) for name in ("live", "details", "serializable", "partial", "expired")}
    return {name: table for name, table in tables.items() if table}


@contextlib.contextmanager
def by_reference_counts() -> Iterator[None]:
    """Without the cyclic collector, on which nothing relies, and without pytest's hook, which would keep what a
    destructor raises, and all that its frames own."""
    gc.collect()
    hook, sys.unraisablehook = sys.unraisablehook, lambda swallowed: None
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        sys.unraisablehook = hook


@pytest.mark.parametrize("name", WORKS)
def test_an_interrupt_anywhere_leaves_nothing_registered(
    name: str, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while the error is handled, either, but for what its frames still own."""
    store = open_store(**SMALL, durability="relaxed")
    monkeypatch.setattr(parts_of(store).loader, "tidy", lambda: None)  # the background would register a snapshot
    fill(store)
    tried = Places(visits=1, one_in=8 if name.startswith("documents") else 4)  # the former go through far more code
    work, nth, reached = WORKS[name], 0, ["somewhere"]
    with by_reference_counts():
        while reached:
            nth += 1
            with interrupted(tried, Alarm()) as reached, contextlib.suppress(Alarm):
                work(store)
            assert registered(store) == {}, f"after an interrupt in {reached}"
    assert nth > (20 if FULL else 5), "the work was hardly traced"
    assert examine(parts_of(store)) == []


@pytest.mark.parametrize("name", WORKS)
def test_whatever_is_live_is_named_at_every_instruction(name: str, open_store: OpenStore) -> None:
    store = open_store(**SMALL, durability="relaxed")
    fill(store)
    registry = parts_of(store).registry
    unnamed: list[str] = []

    def look(place: str) -> None:
        unnamed.extend(f"{token} at {place}" for token in registry.live.keys() - registry.details.keys())

    with looking(look):
        WORKS[name](store)
    assert unnamed == []


def test_an_interrupted_follower_leaves_nothing_registered_and_is_not_committed(open_store: OpenStore) -> None:
    """It waits behind a leader that has taken its commit. What it leaned on is released under it, so that the leader
    must refuse it: what validation needs may be gone."""
    store = open_store(**SMALL, durability="relaxed")
    fill(store)
    committer, registry = parts_of(store).committer, parts_of(store).registry
    tx = store.begin()
    tx.keyspace("k").put(b"own", b"1")
    taken: list[Request] = []

    def wait(request: Request, before: list[Request]) -> None:
        taken.append(committer._queue.popleft())
        raise Alarm

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "_wait", wait)
        with committer._lock, pytest.raises(Alarm):
            tx.commit()
    assert registered(store) == {}
    with committer.exclusive():
        committer._commit(taken)
    assert isinstance(taken[0].error, lowtide.TransientError)
    assert store.keyspace("k").get(b"own") is None
    assert registry.published == store.stats().last_commit
    tx.rollback()


def test_a_storm_of_alarms_leaves_nothing_registered(open_store: OpenStore) -> None:
    """Real signals, one a round at a random moment of the work. What one that fell into a destructor has left is found
    by the next thorough collection; all else is released by then."""
    store = open_store(durability="relaxed", checkpointer="thread")
    fill(store)
    rng, delivered, works = random.Random(12), 0, list(WORKS.values())

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal delivered
        delivered += 1
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    with by_reference_counts():
        try:
            for nth in range(SIGNALS):
                with contextlib.suppress(Alarm):
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 3e-3))
                    while delivered == nth:
                        rng.choice(works)(store)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert delivered == SIGNALS
        store.collect_garbage()
        assert registered(store) == {}
    assert examine(parts_of(store)) == []
