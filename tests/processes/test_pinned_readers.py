"""Processes that read at a pin while the owner continues or dies, or die themselves (scenarios N1, N2, N3, K8)."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any, Literal

import pytest

import lowtide
from lowtide.engine.base import mapping
from tests.conftest import OpenStore
from tests.crash.stores import wait_until
from tests.processes.children import Refused, children
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of
from tests.support.warm import start

ROWS = {b"%04d" % number: b"old %d" % number for number in range(500)}


def fill(store: lowtide.Store, rows: dict[bytes, bytes] = ROWS) -> None:
    with store.transaction() as tx:
        for key, value in rows.items():
            tx.keyspace("k").put(key, value)


def change(store: lowtide.Store, number: int) -> None:
    """Change some rows, delete some, make some."""
    with store.transaction() as tx:
        keyspace = tx.keyspace("k")
        for key in list(ROWS)[number % 7 :: 7]:
            keyspace.put(key, b"new %d" % number)
        keyspace.delete(b"%04d" % (number % 500))
        keyspace.put(b"%04d+" % number, b"made")


@pytest.mark.parametrize("checkpointer", ["thread", "process"])
def test_four_processes_read_the_same_instant_while_the_owner_goes_on(open_store: OpenStore, checkpointer: str) -> None:
    """N1. At the end nothing of it is left."""
    store = open_store(checkpointer=checkpointer)
    fill(store)
    store.pin("p")
    with children(store.path, 4) as readers:
        for each in readers:
            assert each.ask("snapshot", name="p") == 1
        for number in range(12):
            for each in readers:
                each.tell("rows")
            change(store, number)
            store.checkpoint()
            store.collect_garbage()
            for each in readers:
                assert {bytes.fromhex(key): bytes.fromhex(value) for key, value in each.told()} == ROWS
        assert store.stats().history <= len(ROWS)
        store.unpin("p")
        for each in readers:
            with pytest.raises(Refused) as refused:
                each.rows()
            assert refused.value.kind == "SnapshotExpired"
    store.collect_garbage()
    assert store.stats().history == 0


def test_pins_outlive_a_killed_owner_and_expire_in_time(tmp_path: Path) -> None:
    """N2. A reader beyond the end is told so, also when the name was taken again."""
    path, clock = tmp_path / "store", ManualClock(0.0)
    with children(path) as [owner]:
        owner.ask("own", durability="relaxed")
        owner.ask("put", entries=[[b"x".hex(), b"old".hex()]])
        owner.ask("pin", name="p", ttl=3600)
        owner.ask("put", entries=[[b"x".hex(), b"new".hex()]])
        owner.kill()
    with lowtide.open(path, durability="relaxed") as store, children(path) as [reader]:
        [pin] = store.pins()
        assert reader.ask("snapshot", name="p") == pin.ts == 1
        assert reader.rows() == {b"x": b"old"}
        clock.now = pin.expires
        parts = parts_of(store)
        parts.pinning.leases._time = clock.time
        store.collect_garbage()
        assert store.stats().history == 0
        for again in (False, True):
            if again:
                assert store.pin("p").ts == 2
            with pytest.raises(Refused) as refused:
                reader.rows()
            assert refused.value.kind == "SnapshotExpired"


def test_a_reader_that_is_killed_in_mid_scan_holds_nothing_back_beyond_its_lease(open_store: OpenStore) -> None:
    """N3."""
    clock = ManualClock(time.time())
    store = open_store(monitor_interval=0.01, clock=clock)
    fill(store)
    with children(store.path, lease=3000.0) as [reader]:
        assert reader.ask("snapshot") == 1
        reader.ask("begin scan")
        change(store, 0)
        store.checkpoint()
        assert store.stats().history > 0
        reader.kill()
        clock.advance(10_000)
        wait_until(lambda: store.pins() == [] and store.stats().history == 0)
        parts_of(store).base.clear_dead_readers()
        assert str(reader.process.pid) not in parts_of(store).base.env.readers()


def test_the_map_grows_under_scans_in_two_processes(open_store: OpenStore) -> None:
    """K8."""
    store = open_store(map_size=1 << 20, checkpointer="thread")
    fill(store)
    store.pin("p")
    with children(store.path, 2) as readers:
        for each in readers:
            each.ask("snapshot", name="p")
            each.ask("begin scan")
        before = parts_of(store).base.map_size
        for number in range(8):
            fill(store, {b"big %d %d" % (number, each): bytes(4000) for each in range(100)})
            store.checkpoint()
        assert parts_of(store).base.map_size > before
        for each in readers:
            assert [bytes.fromhex(key) for key in each.ask("end scan")] == sorted(ROWS)[1:]
            assert each.rows() == ROWS


def _read_in_child(path: Path, answers: multiprocessing.SimpleQueue[object]) -> None:
    with lowtide.open_snapshot(path) as snapshot:
        answers.put(dict(snapshot.keyspace("k").scan()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_the_owner_open_its_store_and_leave_it_unharmed(
    open_store: OpenStore, method: Literal["fork", "spawn"]
) -> None:
    store = open_store()
    fill(store)
    parts = parts_of(store)
    with lowtide.open_snapshot(store.path) as parents:
        context: Any = multiprocessing.get_context(method)
        answers = context.SimpleQueue()
        process = context.Process(target=_read_in_child, args=(store.path, answers))
        process.start()
        assert answers.get() == ROWS
        process.join()
        assert process.exitcode == 0
        change(store, 0)
        store.checkpoint()
        assert dict(parents.keyspace("k").scan()) == ROWS
        assert len(store.pins()) == 1
    assert not parts.checkpointer.failures
    store.collect_garbage()
    assert store.stats().history == 0


KILLED_SNAPSHOTS = """
import os, signal, sys
from lowtide import open_snapshot
for _ in range(int(sys.argv[2])):
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            snapshot = open_snapshot(sys.argv[1], pin="p")
            os.write(writing, snapshot.keyspace("k").get(b"x"))
        except BaseException as error:
            os.write(writing, f"{type(error).__module__}.{type(error).__name__}".encode())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    print(os.read(reading, 100).decode(), flush=True)
    os.close(reading)
    os.wait()
"""


def test_the_owner_frees_the_slots_of_readers_that_were_killed(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new reader cannot free a slot of a full table itself: LMDB needs a slot to open the base."""
    monkeypatch.setattr(mapping, "MAX_READERS", 5)
    store = open_store(monitor_interval=3600, checkpointer="thread")
    store.keyspace("k").put(b"x", b"1")
    store.pin("p", ttl=1000)

    def kill_readers(count: int) -> list[str]:
        process = start(KILLED_SNAPSHOTS, store.path, count)
        try:
            outcomes = process.stdout.read().split()
            assert process.wait() == 0
        finally:
            process.close()
        return outcomes

    outcomes = kill_readers(6)
    assert outcomes[0] == "1"
    assert outcomes[-1] == "lowtide.errors.Error"
    parts_of(store).monitor.tick()
    assert kill_readers(1) == ["1"]
