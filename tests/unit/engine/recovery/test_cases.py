"""The classification of the log's files at start-up, case by case, without a disk (K5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide
from lowtide.engine.log.frame import encode_frame
from lowtide.engine.log.segment import FORMAT, Header, Scan, encode_header, scan_segment, segment_path
from lowtide.engine.recovery.cases import Verdict, judge
from tests.unit.engine.log.logs import OTHER_STORE, STORE, payload_of

LOG = Path("log")


def segment(
    sequence: int,
    commits: list[tuple[int, int]],
    *,
    first_ts: int | None = None,
    damaged: int | None = None,
    rest: bytes = b"",
    store: bytes = STORE,
    version: int = FORMAT,
    named: int | None = None,
) -> Scan:
    """A scanned segment. ``commits`` are pairs of a timestamp and the ``durable`` that its frame tells; ``damaged`` is
    the timestamp of a commit with a flipped bit, ``rest`` what follows the last one."""
    salt = 1000 + sequence
    if first_ts is None:
        first_ts = commits[0][0]
    data, crc = encode_header(Header(store, sequence, first_ts, salt, version)), salt
    for ts, durable in commits:
        frame, crc = encode_frame(ts, durable, crc, salt, payload_of(b"value of %d" % ts))
        data += frame if ts != damaged else frame[:-1] + bytes([frame[-1] ^ 1])
    path = segment_path(LOG, sequence if named is None else named)
    return scan_segment(path, (data + rest).ljust(4096, b"\x00"))


def run(first: int, last: int, lag: int = 1) -> list[tuple[int, int]]:
    """Commits, each of them on disk when the one ``lag`` later was written. 1 is full durability."""
    return [(ts, max(0, ts - lag)) for ts in range(first, last + 1)]


def verdict_on(scans: list[Scan], boundary: int = 0) -> Verdict:
    return judge(LOG, scans, STORE, boundary)


def refusal(scans: list[Scan], boundary: int = 0) -> str:
    with pytest.raises(lowtide.CorruptionError) as caught:
        verdict_on(scans, boundary)
    return str(caught.value)


def test_a_whole_log_is_clean() -> None:
    scans = [segment(1, run(1, 3)), segment(2, run(4, 6))]
    verdict = verdict_on(scans)
    assert (verdict.case, verdict.needed, verdict.obsolete, verdict.cut) == ("clean", scans, [], False)
    assert verdict.last_ts == 6


def test_segments_below_the_boundary_are_for_the_change_feed_only() -> None:
    scans = [segment(1, run(1, 3)), segment(2, run(4, 6)), segment(3, run(7, 8))]
    for boundary, needed in ((0, [1, 2, 3]), (2, [1, 2, 3]), (3, [2, 3]), (5, [2, 3]), (6, [3]), (8, [3])):
        verdict = verdict_on(scans, boundary)
        assert [scan.header.sequence for scan in verdict.needed if scan.header] == needed
        assert [scan.path for scan in verdict.older] == [scan.path for scan in scans[: 3 - len(needed)]]
        assert verdict.obsolete == []


def test_a_gap_below_the_boundary_does_not_matter() -> None:
    assert verdict_on([segment(1, run(1, 3)), segment(5, run(9, 9))], boundary=8).last_ts == 9


def test_a_torn_tail_is_cut() -> None:
    verdict = verdict_on([segment(1, run(1, 3), damaged=3)])
    assert (verdict.case, verdict.cut, verdict.last_ts) == ("torn tail", True, 2)


def test_an_unsynced_tail_is_cut_at_its_first_hole() -> None:
    """Commits 3 to 5 were never synced, and 4 and 5 happened to reach the disk."""
    verdict = verdict_on([segment(1, [(1, 0), (2, 1), (3, 2), (4, 2), (5, 2)], damaged=3)])
    assert (verdict.case, verdict.cut, verdict.last_ts) == ("torn tail", True, 2)


def test_a_damaged_middle_is_refused_and_named() -> None:
    told = refusal([segment(1, run(1, 3), damaged=1)])
    assert "0000000001.log: commit 1 at offset 64 is damaged, though commits up to 2 were on disk" in told


def test_a_marker_makes_damage_to_the_last_commit_visible() -> None:
    salt, data, crc = 7, encode_header(Header(STORE, 1, 1, 7)), 7
    for ts, durable, payload in ((1, 0, payload_of(b"one")), (2, 1, payload_of(b"two")), (2, 2, b"")):
        frame, crc = encode_frame(ts, durable, crc, salt, payload)
        data += frame
    whole = scan_segment(segment_path(LOG, 1), data.ljust(1024, b"\x00"))
    assert verdict_on([whole]).case == "clean"
    damaged = scan_segment(segment_path(LOG, 1), data.replace(b"two", b"tw0").ljust(1024, b"\x00"))
    assert "commit 2" in refusal([damaged])


def test_the_end_of_a_full_segment_is_never_a_tail() -> None:
    """The next segment's header says where this one ended, and it was synced before."""
    assert "commit 3" in refusal([segment(1, run(1, 3), damaged=3), segment(2, run(4, 5))])
    assert "commit 4" in refusal([segment(1, run(1, 3)), segment(2, run(5, 6))])


def test_a_missing_segment_in_between_is_named() -> None:
    assert "segment 2 is missing" in refusal([segment(1, run(1, 3)), segment(3, run(7, 8))])


def test_missing_first_segments_are_named() -> None:
    told = refusal([segment(2, run(4, 6))], boundary=1)
    assert "commits 2 to 3 are missing" in told
    assert "0000000002.log" in told


def test_no_segment_at_all_is_refused() -> None:
    assert "no segment" in refusal([])


def test_a_boundary_ahead_of_the_log_is_accepted() -> None:
    """A killed owner's unsynced commits were replayed into the base, and the power went before the log was synced."""
    for scans in ([segment(1, run(1, 3))], [segment(1, run(1, 3), damaged=3)], [segment(1, [], first_ts=1)]):
        verdict = verdict_on(scans, boundary=5)
        assert verdict.case == "boundary ahead of log"
        assert verdict.last_ts < 5


def test_damage_below_the_boundary_with_commits_above_it_is_refused() -> None:
    """The log was synced up to the boundary before the base took it over: what is broken below is no torn tail."""
    assert "commit 3" in refusal([segment(1, run(1, 8), damaged=3)], boundary=7)
    assert "commit 3" in refusal([segment(1, run(1, 9), damaged=3)], boundary=7)


def test_empty_segments_at_the_end_are_left_out() -> None:
    blank = [scan_segment(segment_path(LOG, sequence), data) for sequence, data in ((2, b""), (3, bytes(4096)))]
    verdict = verdict_on([segment(1, run(1, 3)), *blank])
    assert (verdict.case, verdict.last_ts) == ("clean", 3)
    assert sorted(verdict.obsolete) == [segment_path(LOG, 2), segment_path(LOG, 3)]
    assert verdict_on(blank, boundary=4).case == "blank log"


def test_an_empty_segment_in_the_middle_is_refused() -> None:
    blank = scan_segment(segment_path(LOG, 2), b"")
    assert "0000000002.log: the header" in refusal([segment(1, run(1, 3)), blank, segment(3, run(4, 5))])


def test_a_header_without_commits_is_clean() -> None:
    assert verdict_on([segment(1, [], first_ts=1)]).last_ts == 0
    verdict = verdict_on([segment(1, run(1, 3)), segment(2, [], first_ts=4)])
    assert (verdict.case, verdict.last_ts) == ("clean", 3)


def test_a_damaged_header_is_refused_and_named() -> None:
    whole = segment(1, run(1, 3))
    damaged = Scan(whole.path, whole.size, None, torn=True, dirty=True)
    assert "0000000001.log: the header of this log segment is damaged" in refusal([damaged])


def test_a_segment_of_another_store_or_format_or_name_is_refused_and_named() -> None:
    assert "0000000001.log: this log segment belongs to another store" in refusal(
        [segment(1, run(1, 3), store=OTHER_STORE)]
    )
    assert "log format 2" in refusal([segment(1, run(1, 3), version=2)])
    assert "log format 0" in refusal([segment(1, run(1, 3), version=0)])
    assert "0000000009.log: this file is segment 1" in refusal([segment(1, run(1, 3), named=9)])


def test_a_foreign_segment_is_refused_even_where_it_would_not_be_needed() -> None:
    scans = [segment(1, run(1, 3), store=OTHER_STORE), segment(2, run(4, 6))]
    assert "another store" in refusal(scans, boundary=6)


@given(st.data())
def test_whatever_one_damage_does_no_commit_that_was_known_to_be_on_disk_is_given_up(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8), "commits")
    lag = data.draw(st.integers(1, 4), "commits in flight")
    boundary = data.draw(st.integers(0, count), "boundary")
    split = data.draw(st.integers(1, count + 1), "first commit of the second segment")
    damaged = data.draw(st.integers(1, count), "damaged")
    commits = run(1, count, lag)
    parts = [commits[: split - 1], commits[split - 1 :]]
    scans = [segment(1, parts[0], first_ts=1, damaged=damaged)]
    if split <= count:
        scans.append(segment(2, parts[1], damaged=damaged))
    in_first = damaged < split <= count
    proven = max([boundary, split - 1 if split <= count else 0, *(d for ts, d in commits if ts != damaged)])
    try:
        verdict = verdict_on(scans, boundary)
    except lowtide.CorruptionError:
        assert damaged <= max(proven, boundary), "a tail that nothing proves was refused"
        return
    kept = max(verdict.last_ts, boundary)
    assert kept >= proven
    assert not (in_first and boundary < split - 1), "a full segment's damage was accepted"
