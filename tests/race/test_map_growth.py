"""The map of the base grows under open readers, and no snapshot changes (K8, within one process).

LMDB ends the read transactions of a process when its map grows. A read here holds one for a single lookup or chunk, and
retries if it is cut short. If this is broken: without the second attempt in ``Base._again`` readers fail with an error
of LMDB; a snapshot that held a read transaction for its whole life would fail for good.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE
from tests.support.schedule import Schedule

SMALL: dict[str, Any] = {"map_size": 1 << 18, "segment_bytes": 1 << 20}
VALUE = bytes(3000)


def map_size(store: lowtide.Store) -> int:
    return parts_of(store).base.map_size


def fill(store: lowtide.Store, first: int, count: int, value: bytes = VALUE) -> None:
    with store.transaction() as tx:
        for number in range(first, first + count):
            tx.keyspace("k").put(b"%05d" % number, value)


@pytest.mark.parametrize("checkpointer", ["thread", "process"])
def test_twenty_snapshots_stay_as_they_were_while_the_map_grows(open_store: OpenStore, checkpointer: str) -> None:
    store = open_store(**SMALL, checkpointer=checkpointer)
    snapshots = []
    sizes = {map_size(store)}
    for number in range(20):
        fill(store, 0, 3, b"%d" % number)
        snapshots.append(store.snapshot())
        fill(store, 10 + number * 20, 20)
        if number % 4 == 3:
            store.checkpoint()
            sizes.add(map_size(store))
    assert len(sizes) > 2
    for number, snapshot in enumerate(snapshots):
        found = dict(snapshot.keyspace("k").scan())
        assert len(found) == 3 + 20 * number
        assert found[b"00002"] == snapshot.keyspace("k").get(b"00002") == b"%d" % number
        snapshot.close()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_read_and_a_scan_that_stand_before_the_base_go_on_in_the_grown_map(
    open_store: OpenStore, reverse: bool
) -> None:
    store = open_store(**SMALL, checkpointer="thread")
    fill(store, 0, 10, b"old")
    store.checkpoint()
    before = map_size(store)
    with store.snapshot() as snapshot, Schedule() as schedule:
        keyspace = snapshot.keyspace("k")
        expected = list(keyspace.scan(reverse=reverse))
        read = schedule.start(lambda: keyspace.get(b"00003"), "read.base").arrive()
        scan = schedule.start(lambda: list(keyspace.scan(reverse=reverse)), "scan.base").arrive()
        fill(store, 0, 200)
        store.checkpoint()
        assert map_size(store) > before
        assert read.finish() == b"old"
        assert scan.finish() == expected


@pytest.mark.parametrize("checkpointer", ["thread", "process"])
def test_readers_that_never_rest_neither_fail_nor_hold_up_the_growth(open_store: OpenStore, checkpointer: str) -> None:
    store = open_store(**SMALL, checkpointer=checkpointer, cache_rows=1)
    fill(store, 0, 10, b"old")
    store.checkpoint()
    before = map_size(store)
    errors: list[BaseException] = []
    done = threading.Event()
    snapshot = store.snapshot()

    def read() -> None:
        try:
            while not done.is_set():
                keyspace = snapshot.keyspace("k")
                assert keyspace.get(b"00003") == keyspace.get(b"00004") == b"old"
                assert len(list(keyspace.scan())) == 10
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        with Schedule() as schedule:
            for number in range(4):
                fill(store, number * 200, 200)
                schedule.start(store.checkpoint).finish()
    finally:
        done.set()
    for reader in readers:
        reader.join(PATIENCE)
        assert not reader.is_alive()
    assert errors == []
    assert map_size(store) >= before * 8
    snapshot.close()
