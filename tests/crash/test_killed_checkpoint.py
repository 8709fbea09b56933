"""A kill between any two steps of a checkpoint: the content is as before, and recovery can be repeated (K3, K4)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.crash.interrupts import calling_at
from tests.crash.stores import SMALL, Model, both, child, commit, content_of, killed, lines_of, reopened
from tests.support.disks import RecordingDisk, Renamed
from tests.support.schedule import Schedule

POINTS = ["checkpoint.sampled", "checkpoint.boundary", "checkpoint.applied"]


@pytest.fixture
def filled(open_store: OpenStore) -> tuple[lowtide.Store, Model]:
    """A store with a base, a history and several segments above them."""
    store, model = open_store(**SMALL), Model()
    for number in range(5):
        commit(store, both(number, 300))
        model.apply(both(number, 300))
    store.checkpoint()
    for number in range(5, 15):
        commit(store, both(number, 600))
        model.apply(both(number, 600))
    return store, model


@pytest.mark.parametrize("held", [False, True], ids=["nobody reads", "somebody reads"])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_before_a_step_of_a_checkpoint_changes_nothing(
    filled: tuple[lowtide.Store, Model], point: str, held: bool, tmp_path: Path
) -> None:
    store, model = filled
    reader = store.snapshot() if held else None
    commit(store, both(16, 10))
    model.apply(both(16, 10))
    with calling_at(point, lambda: killed(store.path, tmp_path / "killed")):
        store.checkpoint()
    if reader is not None:
        reader.close()
    assert content_of(store) == model.content
    copy = killed(tmp_path / "killed", tmp_path / "killed again")
    assert reopened(tmp_path / "killed") == model.content

    # Go on from the killed state, with a deletion of everything: nothing of the old may shine through.
    with lowtide.open(copy, **SMALL) as again:
        assert again.stats().history == 0, "what was kept for the readers of the killed owner has gone"
        for name in ("left", "right"):
            for key, _ in list(again.keyspace(name).scan()):
                again.keyspace(name).delete(key)
        again.checkpoint()
        assert content_of(again) == {}
    assert reopened(copy) == {}


def test_a_kill_at_each_file_operation_of_a_checkpoint_changes_nothing(tmp_path: Path) -> None:
    """The release of segments too, and the rotation into a recycled one."""

    class KillingDisk(RecordingDisk):
        def record(self, *events: object) -> None:
            super().record(*events)  # type: ignore[arg-type]
            if armed:
                copies.append((len(model.states), killed(path, tmp_path / f"killed {len(copies)}")))

    copies: list[tuple[int, Path]] = []
    armed = False
    model, path = Model(), tmp_path / "store"
    disk = KillingDisk(path / "base" / "data.mdb")
    with lowtide.open(path, **SMALL, disk=disk) as store:
        for number in range(6):
            commit(store, both(number, 700))
            model.apply(both(number, 700))
        armed = True
        store.checkpoint()
        for number in range(6, 10):
            commit(store, both(number, 700))
            model.apply(both(number, 700))
        armed = False
    assert any(isinstance(event, Renamed) and event.target.startswith("spare") for event in disk.trace)
    assert len(copies) > 8
    for committed, copy in copies:
        left = reopened(copy)
        # The commit that was under way at this operation may be there or not: it is not acknowledged.
        assert left in model.states[committed - 1 : committed + 1]
        shutil.rmtree(copy)


def test_commits_during_a_checkpoint_keep_their_log_records(
    filled: tuple[lowtide.Store, Model], tmp_path: Path
) -> None:
    store, model = filled
    with Schedule() as schedule:
        checkpoint = schedule.start(store.checkpoint, *POINTS)
        for number, point in enumerate(POINTS, 20):
            checkpoint.arrive()
            commit(store, both(number, 800))
            model.apply(both(number, 800))
            assert content_of(store) == model.content
            assert reopened(killed(store.path, tmp_path / point)) == model.content
            checkpoint.resume()
        checkpoint.finish()
    assert reopened(killed(store.path, tmp_path / "killed after")) == model.content


OWNER = """
import json, os, sys, threading, lowtide
from tests.support.schedule import Schedule

store = lowtide.open(sys.argv[1], durability="relaxed", checkpointer=sys.argv[2], segment_bytes=65536)
with store.transaction() as tx:
    for number in range(20_000):
        tx.keyspace("k").put(b"%06d" % number, b"v" * 20)
if sys.argv[2] == "process":
    store.checkpoint()  # so that the helper runs already
with store.transaction() as tx:
    for number in range(20_000):
        tx.keyspace("k").put(b"%06d" % number, b"w" * 20)
print(json.dumps(store._backend.checkpointer._helper.process_id), flush=True)
threading.Thread(target=store.checkpoint, daemon=True).start()
number = 0
while True:
    number += 1
    store.keyspace("counter").put(b"last", b"%d" % number)
    print(json.dumps(number), flush=True)
"""


@pytest.mark.parametrize("checkpointer", ["thread", "process"])
@pytest.mark.parametrize("wait", [1, 40, 400])
def test_an_owner_killed_during_a_checkpoint_of_many_rows_loses_nothing(
    checkpointer: str, wait: int, tmp_path: Path
) -> None:
    """The new owner opens at once, while the old one's helper may still be writing to the base."""
    acknowledged = 0
    with child(OWNER, tmp_path / "store", checkpointer) as owner:
        said = lines_of(owner)
        next(said)
        for number in said:
            acknowledged = number
            if number >= wait:
                owner.kill()
                break
        acknowledged = max([acknowledged, *said])
        with lowtide.open(tmp_path / "store", durability="relaxed", checkpointer="thread") as store:
            assert int(store.keyspace("counter").get(b"last") or b"0") >= acknowledged
            rows = dict(store.keyspace("k").scan())
            assert len(rows) == 20_000
            assert set(rows.values()) == {b"w" * 20}
            store.keyspace("k").delete(b"000000")
            store.checkpoint()
    left = reopened(tmp_path / "store", map_size=1 << 28)
    assert len(left["k"]) == 19_999
