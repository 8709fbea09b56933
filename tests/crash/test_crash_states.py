"""Power loss at every step of a life that uses every feature: pins, consumers, before images and history survive too.

In each state the store opens. It holds a prefix of the commits that includes every durable one, the durable pins and
positions, and a change feed of exactly these commits. Opening it again changes nothing that can be read.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lowtide
from tests.crash.lives import Life, certain_from, every_lmdb_commit
from tests.crash.pages import PAGE, changed_pages, unfinished
from tests.crash.power import Crash, crashes, crashes_in_the_base
from tests.crash.stores import Durability
from tests.support.attack import FULL, some
from tests.support.disks import RecordingDisk

QUICK = 16
PAIRS = [
    (512, 4096, "full", "thread"),
    (512, 4096, "relaxed", "process"),
    (4096, 16384, "full", "process"),
    (4096, 16384, "relaxed", "thread"),
]
"""Bytes of a sector and of a segment, durability and checkpointer: each two of the settings together."""
OTHERS = [
    (512, 4096, "full", "process"),
    (512, 4096, "relaxed", "thread"),
    (4096, 16384, "full", "thread"),
    (4096, 16384, "relaxed", "process"),
]
"""The rest of the combinations, for the full attack."""


def lived(path: Path, durability: Durability, checkpointer: str, segment: int = 4096) -> Life[RecordingDisk]:
    disk = RecordingDisk(path / "base" / "data.mdb")
    life = Life(path, durability, disk, checkpointer=checkpointer, segment_bytes=segment)
    with every_lmdb_commit(life.disk):
        life.live()
    return life


def check(life: Life[RecordingDisk], crash: Crash, path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    crash.materialise(path, (life.path / "store.json").read_bytes())
    life.check(path, certain_from(crash.notes), crash.how)


def noted(found: list[Crash]) -> list[Crash]:
    """Those after the store was made: before that there is no manifest, and nothing to lose."""
    return [crash for crash in found if crash.notes]


@pytest.mark.parametrize(("sector", "segment", "durability", "checkpointer"), [*PAIRS, *OTHERS] if FULL else PAIRS)
def test_after_a_power_loss_all_that_was_certain_is_there(
    sector: int, segment: int, durability: Durability, checkpointer: str, tmp_path: Path
) -> None:
    life = lived(tmp_path / "store", durability, checkpointer, segment)
    states = noted(list(crashes(life.disk.trace, sector)))
    assert len(states) > QUICK
    for crash in some(states, QUICK):
        check(life, crash, tmp_path / "crashed")


@pytest.mark.parametrize(
    ("durability", "checkpointer"),
    [("full", "process"), ("relaxed", "thread")] + [("full", "thread"), ("relaxed", "process")] * FULL,
)
def test_after_a_power_loss_in_the_middle_of_an_lmdb_commit_it_did_not_happen(
    durability: Durability, checkpointer: str, tmp_path: Path
) -> None:
    """Whichever of its pages reached the disk."""
    life = lived(tmp_path / "store", durability, checkpointer)
    states = noted(list(crashes_in_the_base(life.disk.trace)))
    assert len(states) > QUICK
    for crash in some(states, QUICK):
        check(life, crash, tmp_path / "crashed")


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_a_power_loss_in_the_recovery_from_a_power_loss_is_as_harmless(durability: Durability, tmp_path: Path) -> None:
    """At every step of the recovery, its LMDB commits included."""
    life = lived(tmp_path / "store", durability, "thread")
    torn = [crash for crash in noted(list(crashes(life.disk.trace))) if "all names" in crash.how]
    for crash in some(torn, 3):
        found = tmp_path / "found"
        shutil.rmtree(found, ignore_errors=True)
        crash.materialise(found, (life.path / "store.json").read_bytes())
        trace = recovered(found, life)
        states = noted([*crashes(trace.trace), *crashes_in_the_base(trace.trace)])
        for second in some(states, 6):
            how = f"{crash.how}; then {second.how}"
            shutil.rmtree(tmp_path / "crashed", ignore_errors=True)
            second.materialise(tmp_path / "crashed", (life.path / "store.json").read_bytes())
            life.check(tmp_path / "crashed", certain_from(crash.notes), how)


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_a_life_after_a_power_loss_may_end_with_another_one(durability: Durability, tmp_path: Path) -> None:
    """What the first one left of torn writes never comes back; groups of commits are torn between any two."""
    life = lived(tmp_path / "store", durability, "thread")
    manifest = (life.path / "store.json").read_bytes()
    first = [crash for crash in noted(list(crashes(life.disk.trace))) if "all names" in crash.how]
    for number, crash in enumerate(some(first, 3)):
        path = tmp_path / f"second {number}"
        crash.materialise(path, manifest)
        disk = found_on(path)
        second = Life(path, durability, disk, before=life.model)
        for size in (10, 300, 900):
            second.commit(20 + size, size)
        second.group(1, 2, 3)
        second.checkpoint()
        second.commit(30, 600)
        second.group(4, 5, 6, 7)
        second.store.close()
        for again in some(noted(list(crashes(disk.trace))), 8):
            known = certain_from((*crash.notes, *again.notes))
            shutil.rmtree(tmp_path / "crashed", ignore_errors=True)
            again.materialise(tmp_path / "crashed", manifest)
            # Until the second life has begun, more of the first may be there.
            begun = second if len(again.notes) > 1 else life
            begun.check(tmp_path / "crashed", known, f"{crash.how}; then {again.how}")


def found_on(path: Path) -> RecordingDisk:
    """A disk with the files of a store as they were found, for what is done to them next."""
    disk = RecordingDisk(path / "base" / "data.mdb")
    for segment in sorted((path / "log").iterdir()):
        disk.open(segment).close()
    disk.note("found")
    return disk


def recovered(path: Path, life: Life[RecordingDisk]) -> RecordingDisk:
    """The trace of one recovery, which begins with the files as they were found."""
    disk = found_on(path)
    with every_lmdb_commit(disk), lowtide.open(path, **life.options, disk=disk):
        pass
    return disk


# The model of LMDB's commit


def test_the_pages_of_a_commit_are_lost_in_any_part_and_the_meta_pages_stay() -> None:
    before = bytes([1]) * PAGE * 2 + bytes([2]) * PAGE * 3
    after = bytes([3]) * PAGE * 2 + bytes([2]) * PAGE + bytes([4]) * PAGE * 3
    assert changed_pages(before, after) == [3, 4, 5]
    found = [content for _, content in unfinished(before, after)]
    assert all(content[: 3 * PAGE] == before[: 3 * PAGE] for content in found)
    assert before[: 3 * PAGE] + after[3 * PAGE :] in found
    only_the_last = before + after[5 * PAGE :]
    assert only_the_last in found
    assert len(set(found)) > 7
