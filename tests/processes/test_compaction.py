"""Compaction beside other processes: they keep reading the old base, and nothing that they write is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.base import exchange
from lowtide.upkeep.compact import compact
from tests.conftest import OpenStore
from tests.crash.stores import lines_of, wait_until
from tests.processes.children import Child, Refused, children
from tests.support.stopping import stopped
from tests.support.warm import start

KEPT = {b"%05d" % number: b"x" * 200 for number in range(10)}


def fill_and_empty(store: lowtide.Store, keys: int = 2000) -> None:
    with store.transaction() as tx:
        for number in range(keys):
            tx.keyspace("k").put(b"%05d" % number, b"x" * 200)
    store.checkpoint()
    with store.transaction() as tx:
        for number in range(10, keys):
            tx.keyspace("k").delete(b"%05d" % number)
    store.checkpoint()


def reads_old_file(child: Child) -> bool:
    """Whether the process still has a base mapped that has lost its name."""
    maps = Path(f"/proc/{child.process.pid}/maps").read_text()
    return any("data.mdb" in line and "(deleted)" in line for line in maps.splitlines())


def test_a_joined_process_compacts_and_all_of_them_go_on(open_store: OpenStore) -> None:
    store = open_store()
    fill_and_empty(store)
    with children(store.path, 3) as [first, second, reader]:
        first.ask("own")
        second.ask("own")
        reader.ask("follow")
        assert [each.latest()[1] for each in (first, second, reader)] == [KEPT] * 3
        before, after = first.ask("compact")
        assert after < before / 4
        assert (store.path / "base" / "data.mdb").stat().st_size == after
        assert not (store.path / "base.tmp").exists()
        for number, each in enumerate((first, second)):
            each.ask("put", entries=[[b"n".hex(), (b"%d" % number).hex()]])
        store.keyspace("k").put(b"m", b"1")
        store.checkpoint()
        expected = {**KEPT, b"n": b"1", b"m": b"1"}
        assert [each.latest()[1] for each in (first, second, reader)] == [expected] * 3
        assert store.verify().ok


def test_counters_and_pins_of_four_processes_survive_compactions_all_the_time(open_store: OpenStore) -> None:
    store = open_store(segment_bytes=1 << 14, checkpoint_bytes=1 << 14)
    with children(store.path, 4) as joined:
        for each in joined:
            each.ask("own")
        for each in joined:
            each.tell("add", times=100, pins=10)
        compactions = 0
        while compactions < 20:
            store.compact()
            compactions += 1
        for each in joined:
            each.told()
        assert {each.latest()[1][b"n"] for each in joined} == {b"400"}
        assert store.keyspace("k").get(b"n") == b"400"
        assert store.verify().ok


def test_a_process_that_is_stopped_holds_nobody_up_and_goes_on_afterwards(open_store: OpenStore) -> None:
    store = open_store()
    fill_and_empty(store)
    store.keyspace("k").put(b"later", b"in the log")
    with children(store.path, 2, lease=3000.0) as [joined, pinned]:
        joined.ask("own")
        joined.ask("hold")
        store.pin("kept", ttl=3600)
        pinned.ask("snapshot", name="kept")
        seen = joined.rows()
        assert seen == pinned.rows() == {**KEPT, b"later": b"in the log"}
        with stopped(joined.process.pid), stopped(pinned.process.pid):
            for number in range(3):
                store.keyspace("k").put(b"00001", b"%d" % number)
                store.compact()
            store.keyspace("k").delete(b"00002")
            store.checkpoint()
            store.collect_garbage()
        assert joined.rows() == pinned.rows() == seen
        joined.ask("put", entries=[[b"00003".hex(), b"mine".hex()]])
        assert store.keyspace("k").get(b"00003") == joined.latest()[1][b"00003"] == b"mine"
        assert joined.rows() == seen
        assert not reads_old_file(joined)
        store.unpin("kept")
        with pytest.raises(Refused, match="SnapshotExpired"):
            pinned.rows()
        assert not reads_old_file(pinned)


def test_what_others_pin_after_a_compaction_is_seen_by_those_that_have_the_old_base(open_store: OpenStore) -> None:
    store = open_store()
    fill_and_empty(store)
    with children(store.path, 3) as [first, second, reader]:
        first.ask("own")
        second.ask("own")
        reader.ask("follow")
        assert second.ask("pins") == reader.ask("pins")
        store.compact()
        first.ask("pin", name="of the first", ttl=3600)
        assert "of the first" in second.ask("pins")
        assert "of the first" in reader.ask("pins")
        store.compact()
        assert second.ask("unpin", name="of the first")
        assert "of the first" not in reader.ask("pins")
        assert "of the first" not in [pin.name for pin in store.pins()]
        store.compact()
        reader.ask("consume", name="c", since=0)
        store.compact()
        assert first.ask("position", name="c") == store.stats().last_commit


def test_a_pin_that_is_written_while_the_copy_is_made_is_in_the_new_base(open_store: OpenStore) -> None:
    store = open_store()
    fill_and_empty(store)
    with children(store.path, 1) as [joined]:
        joined.ask("own")
        steps: list[str] = []

        def step(name: str) -> None:
            steps.append(name)
            if name == "copied":
                joined.ask("pin", name=f"pin {len(steps)}", ttl=3600)

        compact(store._backend.running, step)
        assert steps == ["copied", "copied", "copied again", "renamed", "reopened"]
        assert {"pin 1", "pin 2"} <= set(joined.ask("pins"))
        assert {"pin 1", "pin 2"} <= {pin.name for pin in store.pins()}


def test_a_writer_that_waited_for_the_exchange_writes_to_the_new_base(open_store: OpenStore) -> None:
    store = open_store()
    fill_and_empty(store)
    with children(store.path, 1) as [joined]:
        joined.ask("own")
        joined.latest()

        def step(name: str) -> None:
            if name == "renamed":
                joined.tell("pin", name="waited", ttl=3600)

        compact(store._backend.running, step)
        joined.told()
        assert "waited" in [pin.name for pin in store.pins()]


def test_a_child_that_is_forked_after_a_compaction_joins(open_store: OpenStore) -> None:
    store = open_store()
    fill_and_empty(store)
    with children(store.path, 1) as [joined]:
        joined.ask("own")
        joined.latest()
        store.compact()
        assert joined.ask("forked") == len(KEPT) + 1  # while its parent still has the old base
        assert joined.latest()[1] == {**KEPT, b"of the child": b"1"}
        store.compact()
        assert joined.ask("forked") == len(KEPT) + 1


def test_snapshots_are_opened_all_the_time_while_the_base_is_exchanged(open_store: OpenStore) -> None:
    store = open_store()
    fill_and_empty(store, 200)
    store.pin("kept", ttl=3600)
    program = """
import sys, lowtide
print('"begun"', flush=True)
for number in range(300):
    with lowtide.open_snapshot(sys.argv[1], pin="kept") as snapshot:
        assert len(list(snapshot.keyspace("k").scan())) == 10
"""
    readers = [start(program, store.path) for _ in range(2)]
    try:
        for each in readers:
            assert next(lines_of(each)) == "begun"
        while any(each.poll() is None for each in readers):
            store.compact()
        assert [each.returncode for each in readers] == [0, 0]
    finally:
        for each in readers:
            each.close()


KILLED = """
import os, signal, sys
import lowtide
from lowtide.upkeep.compact import compact

store = lowtide.open(sys.argv[1])
with store.transaction() as tx:
    for number in range(500):
        tx.keyspace("k").put(b"%05d" % number, b"x" * 200)
store.checkpoint()
store.keyspace("k").put(b"later", b"in the log")
print('"open"', flush=True)
sys.stdin.readline()

def step(name):
    if name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

compact(store._backend.running, step)
print("never killed")
"""


@pytest.mark.parametrize("step", ["copied", "renamed", "reopened"])
def test_the_owner_is_killed_at_each_step_and_the_others_go_on(tmp_path: Path, step: str) -> None:
    path = tmp_path / "store"
    owner = start(KILLED, path, step)
    try:
        assert next(lines_of(owner)) == "open"
        with children(path, 3) as [first, second, reader]:
            first.ask("own")
            second.ask("own")
            reader.ask("follow")
            held = first.ask("hold")
            seen = first.rows()
            assert len(seen) == 501
            assert first.ask("pin", name="before", ttl=3600) == held
            owner.stdin.write("\n")
            owner.stdin.flush()
            assert owner.wait() == -signal.SIGKILL
            first.ask("add", times=5, pins=1)
            second.ask("add", times=5, pins=1)
            assert first.rows() == seen
            assert "before" in second.ask("pins")
            assert [each.latest()[1] for each in (first, second, reader)] == [{**seen, b"n": b"10"}] * 3
            assert not (path / "base.tmp").exists()
            second.ask("compact")
            assert first.rows() == seen
            assert [each.latest()[1] for each in (first, second, reader)] == [{**seen, b"n": b"10"}] * 3
            reader.ask("snapshot", name="before")
            assert reader.rows() == seen
        with lowtide.open(path) as store:
            assert store.keyspace("k").get(b"n") == b"10"
            assert store.verify().ok
    finally:
        owner.close()


def test_an_idle_process_lets_go_of_the_old_base_by_itself(open_store: OpenStore) -> None:
    """So its space is given back."""
    store = open_store()
    fill_and_empty(store)
    with children(store.path, 1, lease=0.6) as [joined]:
        joined.ask("own")
        joined.latest()
        store.compact()
        wait_until(lambda: not reads_old_file(joined))


def test_a_file_system_that_cannot_exchange_directories_needs_it_to_be_alone(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_exchanged", lambda first, second: False)
    store = open_store()
    fill_and_empty(store)
    with children(store.path, 1) as [joined]:
        joined.ask("own")
        with pytest.raises(Refused, match=r"UsageError.*other processes"):
            joined.ask("compact")
        with pytest.raises(lowtide.UsageError, match="other processes"):
            store.compact()
        joined.ask("close", name="store")
        assert store.compact().freed > 0
        joined.ask("own")
        assert joined.latest()[1] == KEPT
    assert store.verify().ok
