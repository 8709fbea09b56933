"""A backup or compaction that is cut short at any step, by an error or by kill -9, leaves a store that opens whole.

Commit n writes n to three keys, so the restored keys show which commit it is, and whether it is a commit at all.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lowtide
from lowtide.upkeep.compact import compact
from lowtide.upkeep.verify import verify_files
from tests.crash.stores import SMALL, content_of, killed


class Stopped(Exception):
    """The end of a backup, at a step that the test chose."""


class StopAt:
    """Lets the given number of steps pass, and stops at the next."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self, step: str) -> None:
        if self.left == 0:
            raise Stopped(step)
        self.left -= 1


def put(store: lowtide.Store, commits: int) -> int:
    """Make the given number of further commits. Returns the last."""
    for _ in range(commits):
        number = store.stats().last_commit + 1
        with store.transaction() as tx:
            for key in (b"left", b"middle", b"right"):
                tx.keyspace("numbers").put(key, b"%d" % number * 50)
            tx.keyspace("numbers").put(b"filler %d" % (number % 7), b"x" * 300)
    return store.stats().last_commit


def commit_in(backup: Path, scratch: Path) -> int:
    """The commit whose state a copy of the backup holds; it must be whole."""
    report = verify_files(backup)
    assert report.ok, str(report)
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(backup, scratch)
    with lowtide.open(scratch, **SMALL) as store:
        last = store.stats().last_commit
        content = content_of(store)["numbers"]
        assert {content[key] for key in (b"left", b"middle", b"right")} == {b"%d" % last * 50}
        assert store.verify().ok
    return last


SCHEDULES = {
    "more log": [(0, 12)],
    "a new base": [(20, 0), (30, 5)],
    "a new base that the log of the backup reaches": [(0, 8), (4, 4)],
}
"""Commits before and after a checkpoint, for each backup that follows the first."""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_backup_that_stops_at_any_step_can_be_opened_and_taken_up_again(tmp_path: Path, schedule: str) -> None:
    stopped, steps = True, 0
    while stopped:
        root = tmp_path / str(steps)
        with lowtide.open(root / "store", **SMALL) as store:
            put(store, 60)
            store.checkpoint()
            reached = put(store, 6)
            store.backup(root / "backup")
            stopped = False
            for before, after in SCHEDULES[schedule]:
                put(store, before)
                if before:
                    store.checkpoint()
                last = put(store, after)
                try:
                    store.backup(root / "backup", progress=StopAt(steps))
                except Stopped:
                    stopped = True
                    assert reached <= commit_in(root / "backup", root / "scratch") <= last
                    report = store.backup(root / "backup")
                    assert report.reaches == last
                reached = last
                assert commit_in(root / "backup", root / "scratch") == last
        shutil.rmtree(root)
        steps += 1
    assert steps > 5


def test_a_first_backup_that_stops_says_that_it_was_never_finished_and_can_be_taken_up(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        last = put(store, 30)
        finished, steps = False, 0
        while not finished:
            backup = tmp_path / f"backup {steps}"
            try:
                store.backup(backup, progress=StopAt(steps))
                finished = True
            except Stopped:
                if (backup / "store.json").exists():
                    assert commit_in(backup, tmp_path / "scratch") == last
                elif (backup / "backup.json").exists():
                    shutil.copytree(backup, tmp_path / "copy")
                    with pytest.raises(lowtide.UsageError, match="never finished"):
                        lowtide.open(tmp_path / "copy", **SMALL)
                    shutil.rmtree(tmp_path / "copy")
                else:
                    assert steps == 0
                store.backup(backup)
            assert commit_in(backup, tmp_path / "scratch") == last
            steps += 1
        assert steps > 5


KILLED = """
import os, signal, sys
import lowtide
from lowtide.upkeep.compact import compact
from tests.crash.stores import SMALL
from tests.crash.test_interrupted_backup import put

def step(name):
    if name == sys.argv[4]:
        os.kill(os.getpid(), signal.SIGKILL)

store = lowtide.open(sys.argv[2], **SMALL)
put(store, 40)
if sys.argv[1] == "backup":
    store.backup(sys.argv[3], progress=step)
else:
    compact(store._backend.running, step)
print("never killed")
"""


def kill_at(kind: str, step: str, store: Path, backup: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    program = f"import sys; sys.path[:0] = {[root, *sys.path]!r}\n{KILLED}"
    ended = subprocess.run(
        [sys.executable, "-c", program, kind, str(store), str(backup), step],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == -9, ended.stdout + ended.stderr


@pytest.mark.parametrize("step", ["wrote base/data.mdb", "placed base/data.mdb", "placed store.json"])
def test_a_backup_that_is_killed_is_taken_up_by_the_next(tmp_path: Path, step: str) -> None:
    kill_at("backup", step, tmp_path / "store", tmp_path / "backup")
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        assert store.backup(tmp_path / "backup").reaches == 40
    assert commit_in(tmp_path / "backup", tmp_path / "scratch") == 40


@pytest.mark.parametrize("step", ["copied", "renamed", "reopened"])
def test_a_compaction_that_is_killed_leaves_either_file_whole(tmp_path: Path, step: str) -> None:
    kill_at("compact", step, tmp_path / "store", tmp_path / "unused")
    assert verify_files(tmp_path / "store").ok
    assert commit_in(tmp_path / "store", tmp_path / "scratch") == 40
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        assert not (tmp_path / "store" / "base.tmp").exists()
        put(store, 1)
        assert store.verify().ok


@pytest.mark.parametrize("step", [0, 1])
def test_a_compaction_that_fails_leaves_a_store_that_goes_on(tmp_path: Path, step: int) -> None:
    """After the rename, too: the environment must not stay with a file that has lost its name."""
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        last = put(store, 40)
        with pytest.raises(Stopped):
            compact(store._backend.running, StopAt(step))
        assert commit_in(killed(tmp_path / "store", tmp_path / "left"), tmp_path / "scratch") == last
        last = put(store, 40)  # so many that the log does not keep them beside the base
        store.checkpoint()
        assert store.verify().ok
    assert commit_in(tmp_path / "store", tmp_path / "scratch") == last
