"""No level holds a lock from begin to commit: any number of transactions interleave in one thread (I11)."""

from __future__ import annotations

import itertools

import pytest

from lowtide import Isolation
from tests.isolation.world import LEVELS, World, delete, get, put, rows, scan
from tests.support.schedule import Schedule


@pytest.mark.parametrize(("first", "second"), list(itertools.product(LEVELS, LEVELS)))
def test_two_writing_transactions_interleaved_in_one_thread_both_finish(
    plain: World, first: Isolation, second: Isolation
) -> None:
    """A lock that one of them held would stop the other one, and with it the thread, for ever."""
    plain.fill(a=1, b=2, shared=0)
    t1, t2 = plain.begin(first), plain.begin(second)
    put(t1, "a", 10)
    put(t2, "b", 20)
    # Read by key only at the weaker levels: what SERIALIZABLE reads, the other one may not change.
    assert get(t1, "a") == 10
    assert get(t2, "b") == 20
    plain.store.checkpoint()
    put(t1, "c", 30)
    delete(t2, "d")
    plain.store.collect_garbage()
    t2.commit()
    t1.commit()
    assert plain.rows() == {"a": 10, "b": 20, "c": 30, "shared": 0}


@pytest.mark.parametrize("level", LEVELS)
def test_a_hundred_open_writers_stop_neither_a_commit_nor_a_checkpoint(plain: World, level: Isolation) -> None:
    writers = [plain.begin(level) for _ in range(100)]
    for number, tx in enumerate(writers):
        put(tx, f"key-{number:03d}", number)
    plain.put("other", 1)
    plain.store.checkpoint()
    plain.store.collect_garbage()
    for tx in reversed(writers):
        tx.commit()
    assert len(plain.rows()) == 101


@pytest.mark.parametrize("level", LEVELS)
def test_an_open_scan_stops_neither_a_commit_nor_a_checkpoint(plain: World, level: Isolation) -> None:
    plain.fill(a=1, b=2)
    entries = scan(plain.begin(level))
    next(entries)
    plain.put("c", 3)
    plain.store.checkpoint()
    plain.put("d", 4)
    plain.store.checkpoint()
    assert plain.rows() == {"a": 1, "b": 2, "c": 3, "d": 4}


@pytest.mark.parametrize("point", ["checkpoint.sampled", "checkpoint.boundary", "checkpoint.applied"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_checkpoint_that_stands_still_stops_nobody(plain: World, level: Isolation, point: str) -> None:
    """Also not the first commit to a new keyspace, and also inside the checkpoint's LMDB transaction."""
    plain.fill(a=1, b=2)
    with Schedule() as schedule:
        checkpoint = schedule.start(plain.store.checkpoint, point).arrive()
        with plain.store.transaction(level) as tx:
            assert rows(tx) == {"a": 1, "b": 2}
            put(tx, "a", 10)
            delete(tx, "b")
            tx.keyspace("new").put(b"x", b"1")
        assert plain.rows() == {"a": 10}
        checkpoint.finish()
    assert plain.rows() == {"a": 10}
    assert plain.store.keyspaces() == ["k", "new"]


@pytest.mark.parametrize("level", LEVELS)
def test_readers_go_on_while_a_commit_stands_still(plain: World, level: Isolation) -> None:
    plain.fill(a=1)
    with Schedule() as schedule:
        writer = schedule.start(lambda: plain.put("a", 2), "commit.log").arrive()
        with plain.store.transaction(level, read_only=True) as tx:
            assert (get(tx, "a"), rows(tx)) == (1, {"a": 1})
        writer.finish()
    assert plain.get("a") == 2
