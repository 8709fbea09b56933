"""Relaxed durability: the log is synced soon after the first unsynced commit, and not otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import lowtide
from lowtide.engine.log.syncer import Syncer
from lowtide.observe.monitor import Monitor
from tests.support.disks import FaultyDisk
from tests.support.patience import PATIENCE
from tests.unit.engine.log.logs import append, start_log


def test_a_commit_is_synced_without_anyone_asking(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    syncer = Syncer(log, interval=0.001)
    syncer.start()
    try:
        for round_ in range(1, 4):
            append(log, b"x")
            syncer.tell()
            disk.wait_for("sync", round_)
    finally:
        syncer.close()
    assert log.durable_ts == 3


def test_an_idle_log_is_not_synced(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    syncer = Syncer(log, interval=0.001)
    syncer.start()
    append(log, b"x")
    syncer.tell()
    disk.wait_for("sync", 1)
    syncer.close()
    assert disk.counts["sync"] == 1


def test_several_commits_within_an_interval_share_a_sync(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    for _ in range(50):
        append(log, b"x")
    syncer = Syncer(log, interval=0.001)
    syncer.start()
    syncer.tell()
    disk.wait_for("sync", 1)
    syncer.close()
    assert (disk.counts["sync"], log.durable_ts) == (1, 50)


def test_closing_ends_the_thread_even_in_the_middle_of_a_long_interval(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    syncer = Syncer(log, interval=3600)
    syncer.start()
    append(log, b"x")
    syncer.tell()
    syncer.close()
    assert not syncer._thread.is_alive()


def test_a_sync_that_fails_poisons_the_log_and_is_not_tried_again(tmp_path: Path) -> None:
    """After a failed sync the system may have dropped the unwritten pages: a second one would prove nothing."""
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    syncer = Syncer(log, interval=0.001)
    syncer.start()
    append(log, b"x")
    disk.fail("sync")
    syncer.tell()
    syncer._thread.join(PATIENCE)
    assert not syncer._thread.is_alive()
    assert (log.durable_ts, disk.counts["sync"]) == (0, 1)
    with pytest.raises(lowtide.StoreFailed, match="Input/output error"):
        append(log, b"refused")
    with pytest.raises(lowtide.StoreFailed):
        log.sync()
    assert disk.counts["sync"] == 1
    syncer.close()


def functions_called(work: Callable[[], object]) -> list[str]:
    """The functions written in Python that a call runs, itself included."""
    called: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return called


def test_an_interrupt_cannot_come_in_the_middle_of_telling_it(tmp_path: Path) -> None:
    """An interrupt is raised where a function begins, after a call and where a loop jumps back. So it comes before all
    of ``tell`` or after it, if that calls nothing in Python: inside an Event it would leave the lock taken."""
    log = start_log(tmp_path)
    syncer = Syncer(log, interval=3600)
    assert functions_called(syncer.tell) == ["Syncer.tell"]
    log.close()


def test_no_interrupt_of_a_close_leaves_a_lock_taken(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    syncer, monitor = Syncer(log, interval=3600), Monitor(3600, lambda: 0.0, ())
    for each in (syncer, monitor):
        each.start()
        assert "Event.set" not in functions_called(each.close)
        each.close()
    log.close()
