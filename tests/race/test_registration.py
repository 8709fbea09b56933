"""To a collection, drawing a snapshot and registering it is one step (scenarios G2, K1)."""

from __future__ import annotations

import lowtide
from tests.support.schedule import Schedule


def put(store: lowtide.Store, key: bytes, value: bytes) -> None:
    store.keyspace("k").put(key, value)


def test_a_collection_between_draw_and_registration_drops_nothing_that_is_needed(store: lowtide.Store) -> None:
    put(store, b"x", b"0")
    with Schedule() as schedule:
        begin = schedule.start(store.begin, "begin.drawn").arrive()
        put(store, b"x", b"1")
        put(store, b"x", b"2")
        tx = begin.finish()
        expected = {1: b"0", 2: b"1", 3: b"2"}[tx.ts]
        assert tx.keyspace("k").get(b"x") == expected
        tx.rollback()


def test_a_checkpoint_between_draw_and_registration_drops_nothing_that_is_needed(store: lowtide.Store) -> None:
    put(store, b"x", b"0")
    store.checkpoint()
    with Schedule() as schedule:
        begin = schedule.start(store.begin, "begin.drawn").arrive()
        put(store, b"x", b"1")
        store.checkpoint()
        tx = begin.finish()
        assert tx.keyspace("k").get(b"x") == {1: b"0", 2: b"1"}[tx.ts]
        tx.rollback()
