"""Segments of arbitrary bytes, alone and in a directory: a prefix of the commits, or an error of Lowtide.

Damage alone must never show a commit that was not written. With recomputed checksums any content may be shown, but
reading may fail only with an error of Lowtide.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine.log.cursor import LogCursor, LogPosition, first_kept
from lowtide.engine.log.frame import Commit, decode
from lowtide.engine.log.reader import read_commits
from lowtide.engine.log.segment import Scan, decode_header, scan_segment, segment_path
from lowtide.engine.recovery.cases import Verdict, judge
from lowtide.errors import Error
from lowtide.upkeep.inspect import inspect_segment
from tests.fuzz.guard import bounded, ours
from tests.fuzz.mutation import mutated, repaired
from tests.fuzz.profile import pure, with_files
from tests.unit.engine.base.bases import temporary_directory
from tests.unit.engine.log.logs import STORE, segment_bytes_of, values_of

FIRST = segment_bytes_of([b"one", b"two", b"three"], durable=1)
SECOND = segment_bytes_of([b"four", b"five"], sequence=2, first_ts=4, salt=0x1A5, durable=3)
VALUES = [b"one", b"two", b"three", b"four", b"five"]
_damaged = st.one_of(mutated(FIRST), mutated(FIRST).map(repaired))


@pure
@given(mutated(FIRST))
def test_a_damaged_segment_shows_a_prefix_of_its_commits(data: bytes) -> None:
    scan = bounded(len(data), lambda: scan_segment(Path("0000000001.log"), data))
    found = values_of([decode(scan.path, frame) for frame in scan.frames])
    assert found == VALUES[: len(found)]
    assert len(found) <= 3


@pure
@given(
    st.tuples(mutated(FIRST), mutated(SECOND, at_least=0)).flatmap(
        lambda pair: st.sampled_from([pair, (repaired(pair[0]), repaired(pair[1]))])
    ),
    st.integers(0, 6),
)
def test_segments_of_any_bytes_are_judged_or_refused(segments: tuple[bytes, bytes], boundary: int) -> None:
    def look() -> Verdict:
        scans = [scan_segment(segment_path(Path("log"), i), data) for i, data in enumerate(segments, 1)]
        verdict = judge(Path("log"), scans, STORE, boundary)
        for scan in verdict.needed:
            for frame in scan.frames:
                decode(scan.path, frame)
        return verdict

    ours(sum(map(len, segments)), look)


@with_files
@given(mutated(FIRST), mutated(SECOND, at_least=0), st.booleans(), st.integers(0, 6), st.integers(0, 8))
def test_a_cursor_over_damaged_files_reads_what_was_written_or_fails_in_our_words(
    first: bytes, second: bytes, mended: bool, after: int, upto: int
) -> None:
    files = [repaired(first), repaired(second)] if mended else [first, second]
    with temporary_directory() as directory:
        for number, data in enumerate(files, 1):
            segment_path(directory, number).write_bytes(data)

        def read(place: LogPosition | None) -> list[Commit]:
            first_kept(directory)
            return list(read_commits(directory, STORE, after, upto, place))

        size = sum(map(len, files))
        for place in (None, LogPosition(1, 64, 0x5A17), LogPosition(2, after * 40, upto), LogPosition(9, 1 << 40, 0)):
            found = ours(size, partial(read, place))
            if not mended and not isinstance(found, Error):
                assert values_of(found) == VALUES[after:upto]


@with_files
@given(_damaged)
def test_a_segment_of_any_bytes_can_be_inspected(data: bytes) -> None:
    with temporary_directory() as directory:
        path = segment_path(directory, 1)
        path.write_bytes(data)
        ours(len(data), lambda: str(inspect_segment(path)))


@pure
@given(st.binary(max_size=128))
def test_a_header_of_any_bytes_is_one_or_none(data: bytes) -> None:
    assert decode_header(data) is None


@with_files
@given(mutated(FIRST).map(repaired), st.integers(0, 4), st.integers(0, 8))
def test_a_cursor_says_the_same_when_it_is_asked_again(data: bytes, after: int, upto: int) -> None:
    with temporary_directory() as directory:
        segment_path(directory, 1).write_bytes(data)
        cursor = LogCursor(directory, STORE, after)
        try:
            found = ours(len(data), lambda: list(cursor.read(upto)))
            cursor.pause()
            again = ours(len(data), lambda: list(cursor.read(upto)))
        finally:
            cursor.close()
        assert again == [] if isinstance(found, list) else type(again) is type(found)


def test_the_repair_reaches_the_decoder_behind_the_checksums() -> None:
    assert repaired(FIRST) == FIRST
    at = FIRST.index(b"two")
    damaged = FIRST[:at] + b"TWO" + FIRST[at + 3 :]

    def values(data: bytes) -> list[bytes | None]:
        scan: Scan = scan_segment(Path("0000000001.log"), data)
        return values_of([decode(scan.path, frame) for frame in scan.frames])

    assert values(damaged) == [b"one"]
    assert values(repaired(damaged)) == [b"one", b"TWO", b"three"]
