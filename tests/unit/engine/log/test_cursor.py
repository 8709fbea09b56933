"""A cursor shows every commit once, in order, whatever the owner does to the files, or raises an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.engine.log.cursor import LogCursor, Released, first_kept
from lowtide.engine.log.frame import Commit, encode_frame
from lowtide.engine.log.segment import HEADER_SIZE, Header, encode_header, scan_segment, segment_path, segment_paths
from lowtide.engine.log.writer import LogWriter
from lowtide.errors import CorruptionError
from tests.support.schedule import Schedule
from tests.unit.engine.log.logs import OTHER_STORE, STORE, append, payload_of, segment_bytes_of, start_log, values_of


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return start_log(tmp_path)


def cursor_at(directory: Path, position: int) -> LogCursor:
    return LogCursor(directory, STORE, position)


def fill(log: LogWriter, segments: int) -> None:
    """Append commits until the log has gone on to so many further segments. Each is as large as can be recycled."""
    for _ in range(segments):
        before = len(log.full_segments)
        while len(log.full_segments) == before:
            append(log, b"%d" % (log.last_ts + 1) * 40)


def recycle(log: LogWriter, segments: int = 3) -> None:
    """Release everything that is full, and go on in the files that are spare now."""
    log.release(log.full_segments[-1].last_ts)
    fill(log, segments)


@pytest.fixture
def small(tmp_path: Path) -> LogWriter:
    """A log whose segments are all of the size that is recycled."""
    return start_log(tmp_path, segment_bytes=256 * 1024)


def test_a_cursor_follows_a_log_that_grows(log: LogWriter, tmp_path: Path) -> None:
    cursor = cursor_at(tmp_path, 0)
    append(log, b"one")
    assert values_of(list(cursor.read(1))) == [b"one"]
    append(log, b"two", b"three")
    assert values_of(list(cursor.read(3))) == [b"two", b"three"]
    assert cursor.position == 3
    assert list(cursor.read(3)) == []


def test_nothing_beyond_what_was_asked_for_is_shown(log: LogWriter, tmp_path: Path) -> None:
    append(log, b"one", b"two", b"three")
    cursor = cursor_at(tmp_path, 0)
    assert values_of(list(cursor.read(2))) == [b"one", b"two"]
    assert cursor.position == 2
    assert values_of(list(cursor.read(3))) == [b"three"]


def test_the_position_is_the_commit_that_was_handed_out_last(log: LogWriter, tmp_path: Path) -> None:
    append(log, b"one", b"two", b"three")
    cursor = cursor_at(tmp_path, 0)
    reading = cursor.read(3)
    next(reading)
    next(reading)
    assert cursor.position == 2
    assert values_of(list(cursor.read(3))) == [b"three"]


@pytest.mark.parametrize("position", [0, 1, 57, 150, 299])
def test_a_cursor_begins_anywhere_and_goes_over_from_segment_to_segment(
    log: LogWriter, tmp_path: Path, position: int
) -> None:
    values = [b"%d" % number * 20 for number in range(1, 301)]
    for value in values:
        append(log, value)
    assert len(segment_paths(tmp_path)) > 3
    cursor = cursor_at(tmp_path, position)
    commits = list(cursor.read(300))
    assert [commit.ts for commit in commits] == list(range(position + 1, 301))
    assert values_of(commits) == values[position:]


def test_a_cursor_that_was_closed_goes_on_where_it_stood(log: LogWriter, tmp_path: Path) -> None:
    append(log, b"one", b"two")
    cursor = cursor_at(tmp_path, 0)
    assert values_of(list(cursor.read(1))) == [b"one"]
    cursor.close()
    cursor.close()
    assert values_of(list(cursor.read(2))) == [b"two"]


def test_markers_are_passed_over_wherever_they_stand(log: LogWriter, tmp_path: Path) -> None:
    log.mark()
    append(log, b"one")
    log.mark()
    log.mark()
    cursor = cursor_at(tmp_path, 0)
    assert values_of(list(cursor.read(1))) == [b"one"]
    log.mark()
    append(log, b"two")
    assert values_of(list(cursor.read(2))) == [b"two"]


def test_a_commit_larger_than_a_segment_is_one_commit(log: LogWriter, tmp_path: Path) -> None:
    append(log, b"small")
    append(log, b"x" * 100_000)
    append(log, b"small again")
    commits = list(cursor_at(tmp_path, 0).read(3))
    assert [len(value or b"") for value in values_of(commits)] == [5, 100_000, 11]


def test_a_first_commit_that_leaves_its_segment_empty_is_found(log: LogWriter, tmp_path: Path) -> None:
    append(log, b"x" * 100_000)
    headers = {path.name for path in segment_paths(tmp_path)}
    assert len(headers) == 2, "both segments say that they begin with commit 1"
    assert [commit.ts for commit in cursor_at(tmp_path, 0).read(1)] == [1]


def test_what_was_released_is_said_to_be_gone_with_the_first_commit_that_is_kept(
    log: LogWriter, tmp_path: Path
) -> None:
    fill(log, 3)
    kept = log.full_segments[1].last_ts + 1
    log.release(kept - 1)
    with pytest.raises(Released) as caught:
        list(cursor_at(tmp_path, 0).read(log.last_ts))
    assert (caught.value.wanted, caught.value.kept) == (1, kept)
    assert first_kept(tmp_path) == kept
    assert [commit.ts for commit in cursor_at(tmp_path, kept - 1).read(kept)] == [kept]


def test_a_segment_released_under_a_cursor_is_read_to_its_end(log: LogWriter, tmp_path: Path) -> None:
    """Its file is gone, but its content stays for a reader that has it mapped."""
    fill(log, 2)
    end = log.full_segments[0].last_ts
    cursor = cursor_at(tmp_path, 0)
    reading = cursor.read(log.last_ts)
    next(reading)
    log.release(log.full_segments[1].last_ts)
    with pytest.raises(Released):
        for _ in reading:
            pass
    assert cursor.position == end


def test_a_segment_recycled_under_a_cursor_never_shows_another_commit(small: LogWriter, tmp_path: Path) -> None:
    fill(small, 2)
    cursor = cursor_at(tmp_path, 0)
    reading = cursor.read(small.last_ts)
    commits = [next(reading) for _ in range(5)]
    recycle(small)
    with pytest.raises(Released) as caught:
        commits.extend(reading)
    assert values_of(commits) == [b"%d" % ts * 40 for ts in range(1, len(commits) + 1)]
    assert caught.value.wanted == len(commits) + 1
    assert caught.value.kept == first_kept(tmp_path)


def test_a_segment_recycled_between_its_header_and_its_frames_never_shows_another_commit(
    small: LogWriter, tmp_path: Path
) -> None:
    fill(small, 2)
    cursor = cursor_at(tmp_path, 0)
    cursor._open(1)
    recycle(small)
    with pytest.raises(Released) as caught:
        list(cursor.read(small.last_ts))
    assert (caught.value.wanted, cursor.position) == (1, 0)


@pytest.mark.parametrize("look", ["read", "first_kept"])
def test_a_segment_recycled_between_being_opened_and_read_is_not_taken_for_damage(
    small: LogWriter, tmp_path: Path, look: str
) -> None:
    """The file that was opened under an old name has a newer header by the time it is read."""
    fill(small, 3)
    oldest = small.full_segments[0].path
    inode = oldest.stat().st_ino

    def kept() -> int:
        if look == "first_kept":
            return first_kept(tmp_path)
        with pytest.raises(Released) as caught:
            list(cursor_at(tmp_path, 0).read(small.last_ts))
        return caught.value.kept

    with Schedule() as schedule:
        # The oldest one is the last that a cursor looks at, and the first that first_kept does.
        stops = ["cursor.header"] * (len(segment_paths(tmp_path)) if look == "read" else 1)
        looking = schedule.start(kept, *stops).arrive()
        for _ in stops[1:]:
            looking.resume()
            looking.arrive()
        small.release(small.full_segments[0].last_ts)
        fill(small, 2)
        assert inode in {path.stat().st_ino for path in segment_paths(tmp_path)}, "it was recycled"
        assert looking.finish() == first_kept(tmp_path) == small.full_segments[0].last_ts - _commits(small) + 1


def _commits(log: LogWriter) -> int:
    """How many commits the oldest full segment has."""
    first = log.full_segments[0].path
    return len(scan_segment(first, first.read_bytes()).frames)


def test_a_segment_that_vanished_after_it_was_listed_is_looked_for_again(small: LogWriter, tmp_path: Path) -> None:
    """All that was listed may be gone by the time it is opened; the commit is in a segment that is newer."""
    fill(small, 1)
    with Schedule() as schedule:
        looking = schedule.start(lambda: first_kept(tmp_path), "cursor.header").arrive()
        fill(small, 2)
        recycle(small, 1)
        recycle(small, 1)
        assert looking.finish() == first_kept(tmp_path) > 1


def test_a_published_commit_that_is_not_in_the_log_is_damage_and_not_passed_over(
    log: LogWriter, tmp_path: Path
) -> None:
    append(log, b"one", b"two")
    cursor = cursor_at(tmp_path, 0)
    for _ in range(2):
        with pytest.raises(CorruptionError, match="commit 3 is missing"):
            list(cursor.read(3))
    assert cursor.position == 2


def test_a_commit_with_a_wrong_checksum_ends_the_reading(tmp_path: Path) -> None:
    data = bytearray(segment_bytes_of([b"one", b"two", b"three"]))
    at = data.index(b"two")
    data[at] ^= 1
    segment_path(tmp_path, 1).write_bytes(data)
    cursor = cursor_at(tmp_path, 0)
    shown: list[Commit] = []
    with pytest.raises(CorruptionError):
        shown.extend(cursor.read(3))
    assert values_of(shown) == [b"one"]


def test_a_commit_that_cannot_be_decoded_is_not_passed_over_by_the_next_attempt(tmp_path: Path) -> None:
    salt = 77
    data = encode_header(Header(STORE, 1, 1, salt))
    crc = salt
    for ts, payload in enumerate([payload_of(b"one"), b"\xc1 is no MessagePack", payload_of(b"three")], 1):
        frame, crc = encode_frame(ts, 0, crc, salt, payload)
        data += frame
    segment_path(tmp_path, 1).write_bytes(data.ljust(1024, b"\x00"))
    cursor = cursor_at(tmp_path, 0)
    assert [commit.ts for commit in cursor.read(1)] == [1]
    for _ in range(3):
        with pytest.raises(CorruptionError, match="cannot be decoded"):
            list(cursor.read(3))
        assert cursor.position == 1


def test_a_log_of_another_store_is_refused(tmp_path: Path) -> None:
    segment_path(tmp_path, 1).write_bytes(segment_bytes_of([b"one"], store=OTHER_STORE))
    with pytest.raises(CorruptionError, match="not a segment of this store"):
        list(cursor_at(tmp_path, 0).read(1))


@pytest.mark.parametrize("header", [bytes(HEADER_SIZE), encode_header(Header(STORE, 9, 1, 5))], ids=["none", "other"])
def test_a_damaged_header_is_damage_and_not_a_segment_that_was_released(tmp_path: Path, header: bytes) -> None:
    data = segment_bytes_of([b"one"])
    segment_path(tmp_path, 1).write_bytes(header + data[HEADER_SIZE:])
    with pytest.raises(CorruptionError, match="header"):
        list(cursor_at(tmp_path, 0).read(1))
    with pytest.raises(CorruptionError, match="header"):
        first_kept(tmp_path)


def test_a_fresh_log_keeps_everything_from_its_first_commit_on(log: LogWriter, tmp_path: Path) -> None:
    assert first_kept(tmp_path) == 1
    append(log, b"one")
    assert first_kept(tmp_path) == 1


def test_a_log_without_segments_is_damage(tmp_path: Path) -> None:
    with pytest.raises(CorruptionError, match="no segments"):
        first_kept(tmp_path)


def test_many_at_a_time_are_the_same_as_one_by_one(log: LogWriter, tmp_path: Path) -> None:
    fill(log, 1)
    log.mark()
    fill(log, 2)
    last = log.last_ts
    for since in (0, 1, 37, last):
        for until in (since, 38, last - 1, last):
            single, many = cursor_at(tmp_path, since), cursor_at(tmp_path, since)
            assert [each for group in many.read_many(until) for each in group] == list(single.read(until))
            assert (many.position, many.bytes) == (single.position, single.bytes)


def test_many_at_a_time_end_before_a_commit_that_cannot_be_decoded(log: LogWriter, tmp_path: Path) -> None:
    append(log, b"1")
    append(log, b"2")
    path = segment_paths(tmp_path)[0]
    scan = scan_segment(path, path.read_bytes())
    assert scan.header is not None
    frame, _ = encode_frame(3, 0, scan.crc, scan.header.salt, b"\xc1 no commit")
    path.write_bytes(path.read_bytes()[: scan.end] + frame + bytes(100))
    found = cursor_at(tmp_path, 0).read_many(3)
    assert [each.ts for group in (next(found), next(found)) for each in group] == [1, 2]
    with pytest.raises(CorruptionError, match="cannot be decoded"):
        next(found)
