"""Segments that are no longer needed become spares, and spares become segments (K5)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lowtide.engine.log.segment import segment_paths
from lowtide.engine.log.writer import LogWriter
from tests.support.disks import DirectorySynced, FaultyDisk, RecordingDisk, Renamed
from tests.unit.engine.log.logs import SMALL, append, read_values, scan_all, start_log


def spares(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("spare-*.tmp"))


def fill(log: LogWriter, segments: int) -> None:
    """Append commits that each fill most of a segment."""
    for _ in range(segments):
        append(log, b"%d" % (log.last_ts + 1) * 3500)


def test_released_segments_become_at_most_two_spares(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    fill(log, 6)
    kept = log.bytes_kept
    log.release(boundary=4)
    assert [scan.last_ts for scan in scan_all(tmp_path)] == [5, 6]
    assert len(spares(tmp_path)) == 2
    assert log.bytes_kept < kept
    assert read_values(tmp_path, after=4, upto=6) == [b"5" * 3500, b"6" * 3500]


def test_the_segment_that_is_written_to_is_never_released(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    fill(log, 2)
    log.release(boundary=1000)
    assert [scan.last_ts for scan in scan_all(tmp_path)] == [2]
    append(log, b"small")
    assert read_values(tmp_path, after=1, upto=3) == [b"2" * 3500, b"small"]


def test_a_segment_of_unusual_size_is_removed_and_not_kept(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    append(log, b"L" * (3 * SMALL))
    fill(log, 1)
    log.release(boundary=1)
    assert len(spares(tmp_path)) == 1, "the first segment, which was never filled"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 2 * SMALL


def test_a_recycled_segment_is_used_again_and_its_old_commits_do_not_show(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    fill(log, 3)
    log.release(boundary=2)
    created = disk.counts["create"]
    append(log, b"4" * 3500)
    append(log, b"5" * 600)
    assert disk.counts["create"] == created
    newest = scan_all(tmp_path)[-1]
    assert [frame.ts for frame in newest.frames] in ([5], [4, 5])
    assert newest.dirty or len(newest.frames) == 2
    assert not newest.torn
    assert read_values(tmp_path, after=2, upto=5) == [b"3" * 3500, b"4" * 3500, b"5" * 600]


def test_a_spare_that_is_too_small_is_passed_over(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    fill(log, 3)
    log.release(boundary=2)
    append(log, b"L" * (2 * SMALL))
    assert scan_all(tmp_path)[-1].size > 2 * SMALL
    assert len(spares(tmp_path)) == 2


def test_the_names_of_spares_are_on_disk_before_a_spare_gets_a_new_header(tmp_path: Path) -> None:
    """Else a power loss could leave the old name on a file with the new header."""
    disk = RecordingDisk(tmp_path / "no base")
    log = start_log(tmp_path, disk)
    fill(log, 3)
    log.release(boundary=2)
    renamed = [index for index, event in enumerate(disk.trace) if isinstance(event, Renamed)][-1]
    assert DirectorySynced() in disk.trace[renamed:]


def test_a_spare_is_made_ready_once_the_segment_is_half_full(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    log.prepare_spare()
    assert spares(tmp_path) == []
    append(log, bytes(SMALL // 2))
    assert log.position > log.spare_mark
    log.prepare_spare()
    log.prepare_spare()
    assert len(spares(tmp_path)) == 1
    created = disk.counts["create"]
    append(log, bytes(3000))
    assert disk.counts["create"] == created, "the commit did not wait for a file to be made"
    assert spares(tmp_path) == []


def test_a_spare_that_cannot_be_made_is_no_failure(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    append(log, bytes(SMALL // 2))
    for error in (errno.ENOSPC, errno.EIO):
        log.spare_mark = 0
        disk.fail("create", error=error)
        log.prepare_spare()
    assert disk.fired == 2
    assert log.failure is None
    disk.heal()
    append(log, bytes(3000))
    assert len(segment_paths(tmp_path)) == 2


@pytest.mark.parametrize("operation", ["rename", "remove", "sync_directory"])
def test_a_release_that_fails_forgets_no_segment(tmp_path: Path, operation: str) -> None:
    """The files stay known, and the next release gets rid of them."""
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    fill(log, 6)
    disk.fail(operation, forever=True)
    log.release(boundary=5)
    assert disk.fired
    disk.heal()
    append(log, b"goes on")
    log.release(boundary=5)
    assert scan_all(tmp_path)[0].frames[0].ts == 6
    assert len(spares(tmp_path)) <= 2
    fill(log, 3)
    assert len(read_values(tmp_path, after=5, upto=10)) == 5


def test_numbers_of_spares_are_not_reused_while_a_log_is_open(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path / "no base")
    log = start_log(tmp_path, disk)
    for _ in range(4):
        fill(log, 3)
        log.release(boundary=log.last_ts)
    targets = [event.target for event in disk.trace if isinstance(event, Renamed) and event.target.startswith("spare")]
    assert len(targets) == len(set(targets))
