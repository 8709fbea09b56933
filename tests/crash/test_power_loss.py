"""Modelled power loss: after every operation on the log, with any part of the unsynced writes and names lost (K4, K6).

In each state the store opens and holds a prefix of the commits that includes every durable one. Opening it again
changes nothing.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lowtide
from tests.crash.power import Crash, crashes
from tests.crash.stores import SMALL, Durability, Model, both, commit, content_of
from tests.support.attack import some
from tests.support.disks import FaultyDisk, RecordingDisk
from tests.support.parts import parts_of

QUICK = 20
"""States of one life that are tried in every run."""


class Recording:
    """A store on a recording disk, with a model of its commits. The trace notes from when on a commit is durable."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self.path = path
        self.disk = RecordingDisk(path / "base" / "data.mdb")
        self.faults = FaultyDisk(self.disk)
        self.durability = durability
        self.model = Model()
        self.store = lowtide.open(path, **SMALL, durability=durability, disk=self.faults)
        self.disk.note(0)

    def commit(self, number: int, size: int) -> None:
        changes = both(number, size)
        ts = commit(self.store, changes)
        self.model.apply(changes)
        if self.durability == "full":
            self.disk.note(ts)

    def checkpoint(self) -> None:
        self.store.checkpoint()
        self.disk.note(self.store.stats().boundary)

    def sync(self) -> None:
        parts_of(self.store).log.sync()
        self.disk.note(self.store.stats().last_commit)

    def crashes(self) -> Iterator[Crash]:
        """The states once the store was made: before that there is no manifest, and nothing to lose."""
        return (crash for crash in crashes(self.disk.trace) if crash.notes)

    def materialise(self, crash: Crash, path: Path) -> Path:
        shutil.rmtree(path, ignore_errors=True)
        crash.materialise(path, (self.path / "store.json").read_bytes())
        return path


def steady(recording: Recording) -> None:
    """Several segments, records of one to four sectors, checkpoints that recycle, and a clean end."""
    for number, size in enumerate([100, 100, 20, 1500, 700, 700]):
        recording.commit(number, size)
    recording.checkpoint()
    for number, size in enumerate([1200, 1200, 30], 6):
        recording.commit(number, size)
    recording.checkpoint()
    for number, size in enumerate([1200, 10, 10, 600], 9):
        recording.commit(number, size)
    recording.store.close()


def shuffled(seed: int) -> Callable[[Recording], None]:
    def run(recording: Recording) -> None:
        chance = random.Random(seed)
        for number in range(16):
            recording.commit(number, chance.choice([0, 10, 300, 500, 900, 1900]))
            if chance.random() < 0.2:
                recording.checkpoint()
            elif chance.random() < 0.2:
                recording.sync()
        recording.store.close()

    run.__name__ = f"shuffled_{seed}"
    return run


@pytest.mark.parametrize("durability", ["full", "relaxed"])
@pytest.mark.parametrize("work", [steady, shuffled(1), shuffled(2)], ids=lambda work: work.__name__)
def test_after_any_power_loss_a_prefix_with_every_durable_commit_is_there(
    work: Callable[[Recording], None], durability: Durability, tmp_path: Path
) -> None:
    recording = Recording(tmp_path / "store", durability)
    work(recording)
    states = list(recording.crashes())
    assert len(states) > 60, "there is hardly anything to lose"
    for crash in some(states, QUICK):
        check(recording, crash, tmp_path / "crashed")


def check(recording: Recording, crash: Crash, path: Path) -> None:
    recording.materialise(crash, path)
    for attempt in ("recovered", "opened again"):
        with lowtide.open(path, **SMALL, durability="relaxed") as store:
            last = store.stats().last_commit
            assert last >= max(note for note in crash.notes if isinstance(note, int)), (crash.how, attempt)
            assert content_of(store) == recording.model.states[last], (crash.how, attempt)


def test_a_power_loss_during_recovery_is_as_harmless(tmp_path: Path) -> None:
    """For a sample of the states after a power loss, the power goes again at every step of the recovery from it."""
    recording = Recording(tmp_path / "store", "relaxed")
    for number, size in enumerate([100, 1500, 900, 700]):
        recording.commit(number, size)
    recording.checkpoint()
    for number, size in enumerate([300, 1500, 600], 4):
        recording.commit(number, size)
    states = [crash for crash in recording.crashes() if len(crash.log) > 1]
    recording.store.close()
    torn = [crash for crash in states if "torn" in crash.how or "all unsynced writes but" in crash.how]
    assert len(torn) > 5
    for crash in torn[:: max(1, len(torn) // 6)]:
        durable = max(note for note in crash.notes if isinstance(note, int))
        again = Recovery(recording.materialise(crash, tmp_path / "crashed"))
        for second in again.crashes():
            second.materialise(tmp_path / "crashed again", again.manifest)
            with lowtide.open(tmp_path / "crashed again", **SMALL, durability="relaxed") as store:
                last = store.stats().last_commit
                assert last >= durable, (crash.how, second.how)
                assert content_of(store) == recording.model.states[last], (crash.how, second.how)
            shutil.rmtree(tmp_path / "crashed again")


class Recovery:
    """The trace of one recovery, which begins with the files as they were found."""

    def __init__(self, path: Path) -> None:
        self.manifest = (path / "store.json").read_bytes()
        disk = RecordingDisk(path / "base" / "data.mdb")
        for segment in sorted((path / "log").iterdir()):
            disk.open(segment).close()
        disk.note("found")
        with lowtide.open(path, **SMALL, durability="relaxed", disk=disk):
            pass
        self._trace = disk.trace

    def crashes(self) -> Iterator[Crash]:
        return (crash for crash in crashes(self._trace) if crash.notes)


@pytest.mark.parametrize("written", [0.5, 1.0])
def test_a_commit_that_failed_does_not_come_back_after_a_power_loss(tmp_path: Path, written: float) -> None:
    """The write reported an error although its bytes arrived: once the failure was told, they must be gone for good."""
    recording = Recording(tmp_path / "store", "full")
    recording.commit(0, 100)
    recording.commit(1, 600)
    recording.faults.fail("write_durably", written=written)
    with pytest.raises(lowtide.StoreFailed):
        commit(recording.store, both(2, 600))
    recording.disk.note("told")
    recording.faults.heal()
    recording.store.close()
    seen = 0
    for crash in recording.crashes():
        if "told" in crash.notes:
            seen += 1
            check(recording, crash, tmp_path / "crashed")
    assert seen


def test_an_interrupted_commit_does_not_come_back_after_a_power_loss(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "store", "full")
    recording.commit(0, 100)
    recording.faults.fail("write_durably", error=KeyboardInterrupt(), written=1.0)
    with pytest.raises(KeyboardInterrupt):
        commit(recording.store, both(2, 600))
    recording.disk.note("told")
    recording.faults.heal()
    recording.commit(3, 10)
    recording.store.close()
    for crash in recording.crashes():
        if "told" in crash.notes:
            check(recording, crash, tmp_path / "crashed")
