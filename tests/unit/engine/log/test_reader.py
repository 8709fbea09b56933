"""Reading commits from the files, in this process or another, while the log grows (K3, K5)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.log.frame import encode_frame
from lowtide.engine.log.reader import read_commits
from lowtide.engine.log.segment import Header, encode_header, segment_path, segment_paths
from tests.unit.engine.log.logs import OTHER_STORE, STORE, append, read_values, segment_bytes_of, start_log, values_of


@pytest.fixture
def log_of_three_segments(tmp_path: Path) -> Path:
    """Commits 1 to 9, three to a segment."""
    log = start_log(tmp_path)
    for number in range(1, 10):
        append(log, b"%d" % number * 1200)
    log.close()
    assert len(segment_paths(tmp_path)) == 3
    return tmp_path


def test_exactly_the_commits_that_were_asked_for_are_read(log_of_three_segments: Path) -> None:
    for after in range(10):
        for upto in range(after, 10):
            commits = list(read_commits(log_of_three_segments, STORE, after, upto))
            assert [commit.ts for commit in commits] == list(range(after + 1, upto + 1))


def test_a_commit_beyond_the_end_is_missing(log_of_three_segments: Path) -> None:
    with pytest.raises(lowtide.CorruptionError, match="commit 10 is missing"):
        read_values(log_of_three_segments, upto=10)


def test_a_commit_whose_segment_is_gone_is_missing(log_of_three_segments: Path) -> None:
    segment_path(log_of_three_segments, 2).unlink()
    assert len(read_values(log_of_three_segments, upto=3)) == 3
    with pytest.raises(lowtide.CorruptionError, match="commit 4 is missing"):
        read_values(log_of_three_segments, upto=9)
    assert len(read_values(log_of_three_segments, after=6, upto=9)) == 3


def test_nothing_is_read_past_a_damaged_commit(log_of_three_segments: Path) -> None:
    path = segment_path(log_of_three_segments, 2)
    data = bytearray(path.read_bytes())
    data[data.index(b"5555")] ^= 1
    path.write_bytes(data)
    commits = read_commits(log_of_three_segments, STORE, 0, 9)
    assert [next(commits).ts for _ in range(4)] == [1, 2, 3, 4]
    with pytest.raises(lowtide.CorruptionError, match="commit 5 is missing"):
        next(commits)


def test_a_segment_of_another_store_is_refused(tmp_path: Path) -> None:
    segment_path(tmp_path, 1).write_bytes(segment_bytes_of([b"foreign"], store=OTHER_STORE))
    with pytest.raises(lowtide.CorruptionError, match="not a segment of this store"):
        read_values(tmp_path, upto=1)


def test_a_segment_under_another_name_is_refused(tmp_path: Path) -> None:
    segment_path(tmp_path, 2).write_bytes(segment_bytes_of([b"first"], sequence=1))
    with pytest.raises(lowtide.CorruptionError, match=r"0000000002\.log"):
        read_values(tmp_path, upto=1)


def test_a_commit_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    """The checksum is right, so this was written so: by a bug, or by someone else."""
    frame, _ = encode_frame(1, 0, 7, 7, b"this is no commit")
    segment_path(tmp_path, 1).write_bytes(encode_header(Header(STORE, 1, 1, 7)) + frame)
    with pytest.raises(lowtide.CorruptionError, match="offset 64 cannot be decoded"):
        read_values(tmp_path, upto=1)


def test_markers_are_passed_over(tmp_path: Path) -> None:
    log = start_log(tmp_path)
    for number in range(3):
        append(log, b"%d" % number)
        log.mark()
    assert read_values(tmp_path, upto=3) == [b"0", b"1", b"2"]


def test_a_reader_beside_a_writer_sees_whole_commits_in_order(tmp_path: Path) -> None:
    """The helper process reads the log while commits go on and segments come and go behind its boundary."""
    log = start_log(tmp_path)
    append(log, b"0" * 500)
    stop = threading.Event()
    errors: list[BaseException] = []

    def write() -> None:
        try:
            while not stop.is_set() and log.last_ts < 1200:
                append(log, b"x" * (log.last_ts * 37 % 900))
        except BaseException as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    boundary = 0
    try:
        for _ in range(25):
            upto = log.last_ts
            commits = list(read_commits(tmp_path, STORE, boundary, upto))
            assert [commit.ts for commit in commits] == list(range(boundary + 1, upto + 1))
            assert all(value == b"x" * len(value) for value in values_of(commits)[1:] if value)
            log.release(upto)
            boundary = upto
    finally:
        stop.set()
        writer.join()
    assert not errors
