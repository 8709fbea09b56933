"""Readers that are stopped for too long, pins that are taken concurrently, and owners killed in mid-commit."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.conftest import OpenStore
from tests.crash.stores import lines_of, wait_until
from tests.processes.children import Refused, children
from tests.support.parts import parts_of
from tests.support.stopping import stopped

ROWS = {b"%03d" % number: b"old %d" % number for number in range(100)}


def test_a_follower_that_stood_still_beyond_its_lease_never_shows_wrong_rows(open_store: OpenStore) -> None:
    """Its pin is short-lived and is not renewed, so the process is not stopped while it writes to the base."""
    store = open_store(monitor_interval=0.01, checkpointer="thread")
    with store.transaction() as tx:
        for key, value in ROWS.items():
            tx.keyspace("k").put(key, value)
    store.checkpoint()
    store.keyspace("k").put(b"later", b"in the log")
    with children(store.path, lease=3000.0) as [follower]:
        follower.ask("follow")
        follower.ask("lease", seconds=0.5)
        assert follower.ask("hold") == 2
        with stopped(follower.process.pid):
            wait_until(lambda: parts_of(store).pinning.leases.all() == [])
            with store.transaction() as tx:
                for key in ROWS:
                    tx.keyspace("k").put(key, b"new")
            store.checkpoint()
            store.collect_garbage()
            assert store.stats().history == 0
        follower.ask("lease", seconds=3000.0)
        for _ in range(2):
            with pytest.raises(Refused, match="SnapshotExpired"):
                follower.rows()
            assert follower.latest() == (3, {**dict.fromkeys(ROWS, b"new"), b"later": b"in the log"})
        follower.ask("close", name="snapshot")
        store.keyspace("k").put(b"000", b"newest")
        assert follower.latest()[1][b"000"] == b"newest"
        assert len(store.pins()) == 1


@pytest.mark.parametrize("checkpointer", ["thread", "process"])
def test_fresh_pins_of_four_processes_beside_a_writing_owner_each_show_their_commit(
    open_store: OpenStore, checkpointer: str
) -> None:
    store = open_store(checkpointer=checkpointer, segment_bytes=4096, checkpoint_bytes=5000)
    model: list[dict[bytes, bytes]] = [{}]

    def write(count: int) -> None:
        for _ in range(count):
            number = len(model)
            key = b"%d" % (number % 13)
            state = dict(model[-1])
            if number % 5 == 4:
                state.pop(key, None)
                store.keyspace("k").delete(key)
            else:
                state[key] = b"%d" % number * 20
                store.keyspace("k").put(key, state[key])
            model.append(state)

    write(20)
    with children(store.path, 4) as readers:
        for _ in range(8):
            begun = len(model) - 1
            for each in readers:
                each.tell("snapshot")
            write(20)
            stamps = [each.told() for each in readers]
            for each in readers:
                each.tell("rows")
            write(20)
            for each, ts in zip(readers, stamps, strict=True):
                assert begun <= ts < len(model)
                assert {bytes.fromhex(key): bytes.fromhex(value) for key, value in each.told()} == model[ts]
                each.ask("close", name="snapshot")
    assert store.pins() == []
    store.collect_garbage()
    assert store.stats().history == 0


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_a_reader_takes_over_from_an_owner_killed_in_mid_commit_and_sees_all_that_was_acknowledged(
    tmp_path: Path, durability: str
) -> None:
    path, rng, last = tmp_path / "store", random.Random(8), 0

    def state(ts: int) -> dict[bytes, bytes]:
        return {b"%d" % (number % 5): b"%d" % number for number in range(max(1, ts - 4), ts + 1)}

    for number in range(4):
        with children(path, 3) as [owner, beside, after]:
            owner.ask("own", durability=durability, segment_bytes=4096, checkpoint_bytes=2000, checkpointer="thread")
            beside.ask("follow")
            assert beside.latest() == (last, state(last))
            owner.tell("commit for ever", after=last)
            acknowledged = lines_of(owner.process)
            for _ in range(rng.randint(1, 150)):
                last = next(acknowledged)
            owner.process.kill()
            last = max([last, *acknowledged])
            if number % 2:
                ts = after.ask("snapshot")
                assert after.rows() == state(ts)
            else:
                after.ask("follow")
                ts, rows = after.latest()
                assert rows == state(ts)
            assert last <= ts <= last + 1
            assert beside.latest() == (ts, state(ts))
            last = ts
