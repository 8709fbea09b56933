"""The n-th operation of a life that uses every feature fails, either once or from then on: every n in the full attack.

The operations are those on the log's files (a mapping that the system refuses counts as ``create`` or ``open``), and
LMDB's commits. Every step, be it commit, checkpoint, collection, pin, consumer, backup, compaction, close or opening,
fails with an error of Lowtide or not at all. What was acknowledged stays, and what failed leaves nothing.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import lmdb
import pytest

import lowtide
from tests.crash.interrupts import raising_at
from tests.crash.lives import Life, NotingDisk, certain_from
from tests.crash.pages import PAGE
from tests.crash.stores import Durability, files_limited_to, killed
from tests.support.attack import FULL, SAMPLE
from tests.support.disks import FaultyDisk

STRIDE = 1 if FULL else 6
"""Every n in the full attack; otherwise one in so many, other ones in the next run."""


def after(nth: int, *, forever: bool) -> int:
    """The operation to fail after the ``nth`` one. Both kinds of faults begin with the first one; from there on they
    differ."""
    return 2 + (SAMPLE + forever * STRIDE // 2) % STRIDE if nth == 1 else nth + STRIDE


class Troubled:
    """A life in which something fails."""

    def __init__(self, path: Path, durability: Durability, **options: Any) -> None:
        self.life = Life(path, durability, NotingDisk(), lossy=False, **options)
        self.errors: list[lowtide.Error] = []
        self.opened = True

    def live(self) -> None:
        """To its end, or until the store accepts nothing more, or cannot be opened."""
        for step in self.life.steps():
            try:
                step()
            except lowtide.Error as error:
                self.errors.append(error)
                self.opened = step != self.life.restart
            if not self.opened:
                return
            if step != self.life.close and self.life.store.stats().failure is not None:
                return

    def check(self, tmp_path: Path, how: str) -> None:
        """As a kill would leave it now, and after a close."""
        how = f"{how}: {self.errors}"
        known = certain_from(tuple(self.life.disk.notes))
        copy = killed(self.life.path, tmp_path / "killed")
        self.life.check(copy, known, f"{how}, killed")
        if self.opened:
            self.life.let_go()
            self.life.store.close()
        self.life.check(self.life.path, known, how)
        for path in (copy, self.life.path, self.life.path.with_name("store backup")):
            shutil.rmtree(path, ignore_errors=True)


LOG = [
    ("write_durably", "full", errno.EIO),
    ("write", "full", errno.EIO),
    ("write", "relaxed", errno.EIO),
    ("sync", "full", errno.EIO),
    ("sync", "relaxed", errno.EIO),
    ("create", "full", errno.ENOSPC),
    ("create", "relaxed", errno.ENOMEM),
    ("open", "relaxed", errno.ENOMEM),
    ("rename", "relaxed", errno.EIO),
    ("remove", "relaxed", errno.EIO),
    ("sync_directory", "relaxed", errno.EIO),
]


@pytest.mark.parametrize("forever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize(("operation", "durability", "error"), LOG)
def test_an_operation_on_the_log_that_fails_takes_nothing_with_it(
    operation: str, durability: Durability, error: int, forever: bool, tmp_path: Path
) -> None:
    nth, fired = 1, True
    while fired:
        troubled = Troubled(tmp_path / "store", durability)
        troubled.life.faults.fail(operation, nth=nth, error=error, forever=forever)
        troubled.live()
        fired = troubled.life.faults.fired > 0
        troubled.life.faults.heal()
        troubled.check(tmp_path, f"{operation} {nth}")
        nth = after(nth, forever=forever)


LMDB = [
    (lmdb.DiskError("No space left on device"), False),
    (lmdb.DiskError("No space left on device"), True),
    (lmdb.Error("Input/output error"), False),
    (lmdb.Error("Input/output error"), True),
    (lmdb.MapFullError("MDB_MAP_FULL"), False),  # for ever it cannot be: the map grows
]


@pytest.mark.parametrize(("error", "forever"), LMDB)
def test_a_commit_of_lmdb_that_fails_takes_nothing_with_it(error: lmdb.Error, forever: bool, tmp_path: Path) -> None:
    nth, failed = 1, True
    while failed:
        troubled = Troubled(tmp_path / "store", "relaxed")
        with raising_at("base.commit", error, after=nth - 1, times=1 << 30 if forever else 1) as raised:
            troubled.live()
        failed = len(raised) > 0
        troubled.check(tmp_path, f"LMDB commit {nth}")
        nth = after(nth, forever=forever)


def test_a_base_that_finds_no_room_takes_nothing_with_it_however_large_it_is_by_then(tmp_path: Path) -> None:
    """The system refuses to let any file grow beyond a limit, for every limit up to where all of it has room."""
    limit, failed = 0, True
    while failed:
        troubled = Troubled(tmp_path / "store", "relaxed")
        size = (troubled.life.path / "base" / "data.mdb").stat().st_size + limit
        with files_limited_to(size):
            troubled.live()
        failed = bool(troubled.errors)
        troubled.check(tmp_path, f"files of {size} bytes")
        limit += STRIDE * PAGE


@pytest.mark.parametrize("operation", ["write", "write_durably", "sync", "open", "rename", "create", "remove"])
def test_a_recovery_that_meets_an_error_says_so_and_the_next_one_finds_everything(
    operation: str, tmp_path: Path
) -> None:
    """With a torn tail to be erased, a segment to be released, a place to be set right."""
    life = Life(tmp_path / "store", "relaxed", NotingDisk(), lossy=False)
    for step in list(life.steps())[:-3]:
        step()
    found = killed(life.path, tmp_path / "found")
    tail = sorted((found / "log").glob("*.log"))[-1]
    content = tail.read_bytes().rstrip(b"\0")
    tail.write_bytes((content + b"\x01torn").ljust(tail.stat().st_size, b"\0"))
    shutil.copy(tail, found / "log" / "spare-9.tmp")
    known = certain_from(tuple(life.disk.notes))
    life.let_go()
    life.close()
    nth, fired = 1, True
    while fired:
        copy = killed(found, tmp_path / "copy")
        disk = FaultyDisk()
        disk.fail(operation, nth=nth)
        try:
            lowtide.open(copy, **life.options, disk=disk).close()
        except lowtide.Error:
            assert disk.fired
        fired = disk.fired > 0
        life.check(copy, known, f"{operation} {nth}")
        shutil.rmtree(copy)
        nth += 1
