"""SIGKILL and power loss during a load that writes directly to the base: the whole load survives, or none of it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import lowtide
from lowtide.sharing.loading import bulk, direct, staged
from tests.crash.power import crashes
from tests.crash.stores import child, lines_of
from tests.support.disks import RecordingDisk
from tests.support.parts import parts_of
from tests.unit.sharing.loading.jobs import check_indexes, check_nothing_left, documents, load

LOADING = """
import json, os, signal, sys, lowtide
os.environ["OPENBLAS_NUM_THREADS"], os.environ["JE_ARROW_MALLOC_CONF"] = "1", "background_thread:false"
import pandas, pyarrow
assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not fork"
from lowtide.engine.transaction.commit import Committer
from lowtide.sharing.loading import bulk, direct, staged
from tests.unit.sharing.loading.jobs import load

bulk.DIRECT_ROWS, direct.CHUNK_ROWS, staged._ROWS = 1, 30, 30

def dying(work):
    def step(*arguments, **more):
        global left
        result = work(*arguments, **more)
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return step

def die():
    store = lowtide.open(sys.argv[1], checkpointer="thread")
    bulk.put_entries, bulk.note_filled, bulk.claim = map(dying, (bulk.put_entries, bulk.note_filled, bulk.claim))
    Committer.commit_alone = dying(Committer.commit_alone)
    load(store, "upsert", [{"_id": number, "n": number, "new": True} for number in range(10, 60)], bulk_bytes=0)
    os.kill(os.getpid(), signal.SIGKILL)

for line in sys.stdin:
    left = int(line)
    if os.fork() == 0:
        die()
    print(json.dumps(os.waitstatus_to_exitcode(os.wait()[1])), flush=True)
"""
"""Dies in a fork, for each number of steps that it is given: imports take longer than a load."""
OLD = [{"_id": number, "n": number} for number in range(20)]
NEW = [*OLD[:10], *({"_id": number, "n": number, "new": True} for number in range(10, 60))]


def test_a_load_that_is_killed_at_any_step_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with lowtide.open(path) as store:
        store["c"].create_index("n", unique=True)
        store["c"].insert_many(OLD)
    killed, found = 0, OLD
    with child(LOADING, path) as process:
        codes = lines_of(process)
        while found == OLD:
            process.stdin.write(f"{killed}\n")
            process.stdin.flush()
            assert next(codes) == -signal.SIGKILL
            killed += 1
            with lowtide.open(path) as store:
                found = documents(store)
                assert found in (OLD, NEW)
                assert store.verify().ok
                check_indexes(store)
    assert killed > 8, "after each put, the count, the claim and the commit"


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_a_power_loss_at_any_moment_leaves_all_of_a_load_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    monkeypatch.setattr(bulk, "DIRECT_ROWS", 1)
    monkeypatch.setattr(direct, "CHUNK_ROWS", 20)
    monkeypatch.setattr(staged, "_ROWS", 15)
    path = tmp_path / "store"
    disk = RecordingDisk(path / "base" / "data.mdb")
    store = lowtide.open(path, durability=durability, disk=disk, checkpointer="thread", segment_bytes=4096)  # type: ignore[arg-type]
    store["c"].insert_many(OLD)
    store.checkpoint()
    disk.note("old")
    load(store, "upsert", NEW[10:], bulk_bytes=0)
    parts_of(store).loader.finish()
    parts_of(store).log.sync()
    disk.note("new")
    store.close()
    seen = set()
    for number, crash in enumerate(each for each in crashes(disk.trace) if each.notes):
        copy = tmp_path / f"{number}"
        crash.materialise(copy, (path / "store.json").read_bytes())
        with lowtide.open(copy, durability="relaxed", checkpointer="thread") as crashed:
            found = documents(crashed)
            assert found == NEW if "new" in crash.notes else found in (OLD, NEW), crash
            seen.add(found == NEW)
            assert crashed.verify().ok
            if found == OLD and number % 10 == 0:
                load(crashed, "upsert", NEW[10:], bulk_bytes=0)
                parts_of(crashed).loader.finish()
                assert documents(crashed) == NEW
                check_nothing_left(crashed)
    assert seen == {True, False}
