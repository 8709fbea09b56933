"""One old reader, and reports that come and go meanwhile: the history is bounded by what they see (invariant 4)."""

from __future__ import annotations

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.garbage.background import wait_until
from tests.support.parts import parts_of

KEYS = [b"%03d" % number for number in range(200)]
THRESHOLD = 50


def write(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        for key in KEYS:
            tx.keyspace("k").put(key, b"value")
    store.checkpoint()


@pytest.mark.parametrize("checkpointer", ["thread", "process"])
def test_the_history_stays_within_twice_what_is_seen(open_store: OpenStore, checkpointer: str) -> None:
    """In the background, without a call of ``collect_garbage``, with each kind of checkpointer."""
    store = open_store(collect_threshold=THRESHOLD, checkpointer=checkpointer)
    base = parts_of(store).base
    write(store)
    with store.snapshot() as old:
        write(store)
        for _ in range(8):
            with store.snapshot() as report:
                write(store)
                assert report.keyspace("k").get(KEYS[0]) == b"value"
            wait_until(lambda: base.count_history() <= 2 * len(KEYS) + THRESHOLD)
        assert len(list(old.keyspace("k").scan())) == len(KEYS)
    wait_until(lambda: base.count_history() == 0)


def test_pins_of_reports_beside_an_old_pin(open_store: OpenStore) -> None:
    """The same with pins, as other processes and Spark take them."""
    store = open_store(collect_threshold=THRESHOLD)
    base = parts_of(store).base
    write(store)
    store.pin("old")
    write(store)
    for number in range(5):
        pin = store.pin(f"report {number}", keyspaces="k")
        write(store)
        pin.release()
        wait_until(lambda: base.count_history() <= 2 * len(KEYS) + THRESHOLD)
    store.unpin("old")
    wait_until(lambda: base.count_history() == 0)
