"""Relaxed durability: the log is synced soon after the first unsynced commit, and not otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.engine.log.syncer import Syncer
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
