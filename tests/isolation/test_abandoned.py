"""Any thread may finish a transaction, and a transaction that is dropped unfinished holds nothing back (I12)."""

from __future__ import annotations

import gc
import itertools
import sys
from types import FrameType
from typing import Any

import pytest

import lowtide
from lowtide import Isolation
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together, wait_until
from tests.isolation.world import FIRST_COMMITTER_WINS, LEVELS, World, get, put, roll_back, rows, scan
from tests.support.parts import parts_of


def nothing_is_held(store: lowtide.Store) -> bool:
    stats = store.stats()
    registry = parts_of(store).registry
    return (
        stats.snapshots == []
        and stats.low_water_mark == stats.last_commit
        and not (registry.live or registry.details or registry.serializable)
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_is_finished_on_another_thread(plain: World, level: Isolation, end: str) -> None:
    plain.fill(x=1)
    tx = plain.begin(level)
    put(tx, "x", 2)
    run_together(lambda: put(tx, "y", 3))
    assert get(tx, "y") == 3
    run_together(tx.commit if end == "commit" else lambda: roll_back(tx))  # type: ignore[arg-type]
    expected = {"x": 2, "y": 3} if end == "commit" or level is Isolation.NONE else {"x": 1}
    assert plain.rows() == expected
    assert nothing_is_held(plain.store)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_a_dropped_transaction_is_rolled_back_and_forgotten(world: World, level: Isolation, in_a_cycle: bool) -> None:
    world.fill(x=1)
    tx = world.begin(level)
    assert rows(tx) == {"x": 1}
    if level is not Isolation.NONE:
        put(tx, "x", 2)
    world.put("x", 3)
    world.meanwhile()
    holder: list[object] = [tx]
    if in_a_cycle:
        holder.append(holder)
    del tx, holder
    gc.collect()
    assert nothing_is_held(world.store)
    assert world.rows() == {"x": 3}


@pytest.mark.parametrize("level", LEVELS)
def test_the_transaction_of_a_thread_that_ended_holds_nothing_back(world: World, level: Isolation) -> None:
    world.fill(x=1)

    def leave_it_open() -> None:
        tx = world.begin(level)
        next(scan(tx))
        if level is not Isolation.NONE:
            put(tx, "x", 2)

    run_together(leave_it_open)
    gc.collect()
    assert nothing_is_held(world.store)
    assert world.rows() == {"x": 1}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("store_wide", [False, True])
def test_a_scan_that_is_dropped_half_way_holds_nothing_back(plain: World, level: Isolation, store_wide: bool) -> None:
    plain.fill(x=1, y=2)
    tx = plain.begin(level)
    entries = plain.store.keyspace("k").scan() if store_wide else tx.keyspace("k").scan()
    next(entries)
    tx.commit()
    del tx, entries
    gc.collect()
    assert nothing_is_held(plain.store)


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_transaction_that_was_refused_holds_nothing_back(world: World, level: Isolation) -> None:
    """Refused ones stay referenced here, as they do in a traceback."""
    world.fill(x=1)
    refused = []
    for number in range(50):
        tx = world.begin(level)
        put(tx, "x", number)
        world.put("x", -number)
        with pytest.raises(lowtide.ConflictError):
            tx.commit()
        refused.append(tx)
    world.meanwhile()
    assert nothing_is_held(world.store)
    assert len(parts_of(world.store).committer._validator.recent.commits) == 0 or level is Isolation.SERIALIZABLE


@pytest.mark.parametrize("kind", ["transaction", "snapshot"])
def test_what_the_history_kept_for_a_dropped_reader_goes_with_the_next_sweep(open_store: OpenStore, kind: str) -> None:
    """Another reader lives on, so the sweep cannot simply clear everything: the dropped one must have been noted."""
    store = open_store(checkpointer="thread")
    keyspace = store.keyspace("k")
    keyspace.put(b"x", b"0")
    store.checkpoint()
    dropped: object = store.begin() if kind == "transaction" else store.snapshot()
    keyspace.put(b"x", b"1")
    keeper = store.snapshot()
    keyspace.put(b"x", b"2")
    store.checkpoint()
    assert store.stats().history == 2
    del dropped
    gc.collect()
    parts_of(store).collector.collect()  # no more than what the background does; it may be at it already
    wait_until(lambda: store.stats().history == 1)
    assert keeper.keyspace("k").get(b"x") == b"1"


@pytest.mark.parametrize("step", range(12))
def test_a_scan_may_be_finalized_while_the_background_is_being_woken(open_store: OpenStore, step: int) -> None:
    """Python's cyclic collector finalizes a dropped scan at any moment, in any thread: also in the middle of waking the
    background, when a lock that the finalizer wants would be held by its own thread for ever."""
    store = open_store(collect_threshold=1, checkpointer="thread")

    def leave_a_scan_to_the_collector() -> None:
        keyspace = store.keyspace("k")
        for number in range(10):
            keyspace.put(b"%d" % number, b"0")
        store.checkpoint()
        entries = keyspace.scan()
        next(entries)
        keyspace.put(b"0", b"1")
        store.checkpoint()
        holder: list[object] = [entries]
        holder.append(holder)

    def wake_with_a_collection_in_the_middle() -> None:
        steps = itertools.count()

        def collect(frame: FrameType, event: str, argument: Any) -> Any:
            if next(steps) == step:
                sys.settrace(None)
                gc.collect()
            return collect

        sys.settrace(collect)
        try:
            parts_of(store).maintenance.wake()
        finally:
            sys.settrace(None)

    gc.disable()
    try:
        leave_a_scan_to_the_collector()
        assert len(store.stats().snapshots) == 1
        run_together(wake_with_a_collection_in_the_middle)
    finally:
        gc.enable()
    gc.collect()
    assert store.stats().snapshots == []
