"""Appending to the log: groups, durability, rotation, and what a failure leaves behind (P1, P2)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.log.frame import FRAME_HEADER
from lowtide.engine.log.segment import HEADER_SIZE, scan_segment, segment_path, segment_paths
from lowtide.engine.log.writer import LogWriter
from tests.support.disks import DirectorySynced, FaultyDisk, RecordingDisk, Renamed, Synced, Wrote
from tests.unit.engine.log.logs import SMALL, STORE, append, payload_of, read_values, scan_all, start_log


def test_what_is_appended_is_read_back_in_order(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    append(log, b"a")
    append(log, b"b", b"c", b"d", durably=True)
    append(log, b"e")
    assert log.last_ts == 5
    assert read_values(tmp_path, upto=5) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_group_costs_one_durable_write(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    before = disk.counts.copy()
    append(log, *(b"%d" % number for number in range(20)), durably=True)
    assert disk.counts - before == {"write_durably": 1}


def test_a_sync_that_fails_is_told_and_poisons_the_log(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    append(log, b"x")
    disk.fail("sync")
    with pytest.raises(lowtide.StoreFailed, match="Input/output error"):
        log.sync()
    assert log.durable_ts == 0
    with pytest.raises(lowtide.StoreFailed):
        append(log, b"refused")


def test_a_relaxed_append_is_durable_when_it_was_synced(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    append(log, b"a", b"b")
    assert (log.last_ts, log.durable_ts, disk.counts["sync"]) == (2, 0, 0)
    log.sync()
    assert (log.durable_ts, disk.counts["sync"]) == (2, 1)


def test_a_durable_append_after_relaxed_ones_makes_all_of_them_durable(tmp_path: Path) -> None:
    """A write that syncs only itself would leave a hole before it."""
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    append(log, b"a")
    before = disk.counts.copy()
    append(log, b"b", durably=True)
    assert disk.counts - before == {"write": 1, "sync": 1}
    assert log.durable_ts == 2


def test_a_frame_says_what_was_durable_when_it_was_written(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    append(log, b"a", b"b", durably=True)
    append(log, b"c")
    append(log, b"d")
    log.sync()
    append(log, b"e")
    (scan,) = scan_all(tmp_path)
    assert [frame.durable for frame in scan.frames] == [0, 0, 2, 2, 4]


def test_a_marker_says_that_everything_is_durable(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    append(log, b"a")
    log.mark()
    log.mark()
    (scan,) = scan_all(tmp_path)
    assert (scan.durable, scan.last_ts, len(scan.frames)) == (1, 1, 1)
    append(log, b"b")
    assert read_values(tmp_path, upto=2) == [b"a", b"b"]


def test_a_marker_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    append(log, b"")
    overhead = log.position - HEADER_SIZE
    append(log, bytes(SMALL - log.position - overhead - 10))
    position = log.position
    assert SMALL - position < FRAME_HEADER
    log.mark()
    assert log.position == position
    assert len(segment_paths(tmp_path)) == 1


def test_a_full_segment_is_followed_by_the_next(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    values = [b"%d" % number * 300 for number in range(40)]
    for value in values:
        append(log, value)
    scans = scan_all(tmp_path)
    assert len(scans) > 3
    headers = [scan.header for scan in scans if scan.header is not None]
    assert [header.sequence for header in headers] == list(range(1, len(scans) + 1))
    assert [header.first_ts for header in headers[1:]] == [scan.last_ts + 1 for scan in scans[:-1]]
    assert len({header.salt for header in headers}) == len(scans)
    assert read_values(tmp_path, upto=40) == values


def test_a_group_is_never_split_between_segments(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    append(log, bytes(3000))
    append(log, bytes(500), bytes(500), bytes(500))
    assert [len(scan.frames) for scan in scan_all(tmp_path)] == [1, 3]


def test_a_record_larger_than_a_segment_gets_a_segment_that_holds_it(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    append(log, b"small")
    append(log, b"L" * (5 * SMALL))
    append(log, b"small again")
    assert read_values(tmp_path, upto=3) == [b"small", b"L" * (5 * SMALL), b"small again"]
    sizes = [scan.size for scan in scan_all(tmp_path)]
    assert sizes[0] == sizes[2] == SMALL
    assert 5 * SMALL < sizes[1] < 6 * SMALL


def test_a_record_that_fills_a_segment_to_its_last_byte_stays_in_it(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    append(log, b"x" * 300)
    overhead = log.position - HEADER_SIZE - 300
    append(log, bytes(SMALL - log.position - overhead))
    assert log.position == SMALL
    assert len(segment_paths(tmp_path)) == 1
    append(log, b"next")
    assert len(segment_paths(tmp_path)) == 2
    assert len(read_values(tmp_path, upto=3)) == 3


def test_segments_grow_from_small_to_the_configured_size(tmp_path: Path) -> None:
    log = start_log(tmp_path, segment_bytes=4 << 20)
    for _ in range(5):
        file_size = segment_paths(tmp_path)[-1].stat().st_size
        append(log, bytes(file_size - 200))
    append(log, b"last")
    assert [path.stat().st_size for path in segment_paths(tmp_path)][:5] == [
        256 << 10,
        1 << 20,
        4 << 20,
        4 << 20,
        4 << 20,
    ]


def test_a_new_segment_is_ready_on_disk_before_a_commit_relies_on_it(tmp_path: Path) -> None:
    """The old segment is synced before the new one has its name, the header before the name, the name before the first
    frame: the three facts that the judgement of a damaged log rests on."""
    disk = RecordingDisk(tmp_path / "no base")
    log = start_log(tmp_path, disk)
    append(log, bytes(3000))
    begun = len(disk.trace)
    append(log, bytes(3000), durably=True)
    named = disk.trace.index(Renamed("spare-2.tmp", "0000000002.log"))
    old, new = disk.trace[begun - 1], disk.trace[-2]
    assert isinstance(old, Wrote)
    assert isinstance(new, Wrote)
    header = next(event for event in disk.trace if event == Synced(new.file, 0, HEADER_SIZE))
    assert begun <= disk.trace.index(Synced(old.file), begun) < named
    assert disk.trace.index(header) < named
    assert disk.trace[named + 1] == DirectorySynced()
    assert disk.trace.index(new) > named + 1


def test_a_log_goes_on_behind_its_last_frame_after_reopening(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    append(log, b"a", b"b")
    log.close()
    (scan,) = scan_all(tmp_path)
    disk = FaultyDisk()
    again = LogWriter(disk, tmp_path, STORE, SMALL)
    again.resume(scan, [])
    assert disk.counts["sync"] == 1, "the next frame will say that what was found is on disk"
    append(again, b"c")
    assert read_values(tmp_path, upto=3) == [b"a", b"b", b"c"]
    (scan,) = scan_all(tmp_path)
    assert scan.frames[-1].durable == 2


# Failures


@pytest.mark.parametrize("operation", ["write", "write_durably", "sync"])
@pytest.mark.parametrize("written", [0.0, 0.5, 1.0])
def test_a_failed_append_leaves_no_trace_and_poisons_the_log(tmp_path: Path, operation: str, written: float) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    append(log, b"before", durably=operation == "write_durably")
    content = segment_path(tmp_path, 1).read_bytes()
    disk.fail(operation, written=written)
    with pytest.raises(lowtide.StoreFailed, match="Input/output error"):
        append(log, b"failed", b"failed too", durably=operation != "write")
    assert disk.fired == 1
    assert (log.last_ts, log.failure is not None) == (1, True)
    assert segment_path(tmp_path, 1).read_bytes() == content
    disk.heal()
    with pytest.raises(lowtide.StoreFailed, match="Input/output error"):
        append(log, b"refused")
    with pytest.raises(lowtide.StoreFailed):
        log.sync()


def test_an_interrupted_append_leaves_no_trace_and_the_log_goes_on(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    append(log, b"before")
    disk.fail("write", error=KeyboardInterrupt(), written=1.0)
    with pytest.raises(KeyboardInterrupt):
        append(log, b"interrupted", b"and longer than what follows")
    disk.heal()
    append(log, b"after")
    assert read_values(tmp_path, upto=2) == [b"before", b"after"]
    (scan,) = scan_all(tmp_path)
    assert not scan.dirty


def test_a_timestamp_that_does_not_follow_is_refused(tmp_path: Path) -> None:
    """It would be cut off with all that follows it when the log is read: better to accept nothing."""
    log = start_log(tmp_path)
    append(log, b"one")
    for ts in (1, 3):
        with pytest.raises(lowtide.StoreFailed):
            log.append(ts, payload_of(b"x"), False)
    assert read_values(tmp_path, upto=1) == [b"one"]


def test_a_full_disk_at_rotation_changes_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    append(log, bytes(3000))
    for operation in ("create", "write_durably", "rename", "sync_directory"):
        disk.fail(operation, error=errno.ENOSPC, forever=True)
        for _ in range(3):
            with pytest.raises(lowtide.DiskFull):
                append(log, bytes(3000))
        disk.heal()
        append(log, b"fits into the old segment")
    append(log, bytes(3000))
    assert log.failure is None
    assert log.last_ts == 6
    assert len(read_values(tmp_path, upto=6)) == 6
    scans = scan_all(tmp_path)
    assert sum(len(scan.frames) for scan in scans) == 6
    assert len(list(tmp_path.iterdir())) <= 3, "failed attempts leave at most one spare behind"


@pytest.mark.parametrize("operation", ["create", "write_durably", "rename", "sync_directory"])
def test_a_broken_disk_at_rotation_poisons_the_log(tmp_path: Path, operation: str) -> None:
    disk = FaultyDisk()
    log = start_log(tmp_path, disk)
    append(log, bytes(3000))
    disk.fail(operation)
    with pytest.raises(lowtide.StoreFailed):
        append(log, bytes(3000))
    disk.heal()
    with pytest.raises(lowtide.StoreFailed):
        append(log, b"small")
    for scan in scan_all(tmp_path):
        assert scan == scan_segment(scan.path, scan.path.read_bytes())
    assert read_values(tmp_path, upto=1) == [bytes(3000)]
