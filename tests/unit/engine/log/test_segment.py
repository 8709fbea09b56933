"""Segments: which store they belong to, what they hold, and what is beyond their end (K5)."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine.log.frame import encode_frame
from lowtide.engine.log.segment import (
    FORMAT,
    HEADER_SIZE,
    Header,
    chained_frames,
    decode_header,
    encode_header,
    scan_segment,
    segment_path,
    segment_paths,
    sequence_of,
)
from tests.unit.engine.log.logs import STORE, payload_of, segment_bytes_of

PATH = Path("0000000001.log")
HEADER = Header(STORE, 1, 1, 0x5A17)

headers = st.builds(
    Header,
    store_id=st.binary(min_size=16, max_size=16),
    sequence=st.integers(0, 2**64 - 1),
    first_ts=st.integers(0, 2**64 - 1),
    salt=st.integers(0, 2**32 - 1),
    format=st.integers(0, 2**32 - 1),
)


@given(headers)
def test_a_header_is_read_back(header: Header) -> None:
    data = encode_header(header)
    assert len(data) == HEADER_SIZE
    assert decode_header(data) == header


def test_the_bytes_of_a_header_are_those_of_the_file_format() -> None:
    data = encode_header(Header(bytes(range(16)), sequence=5, first_ts=1000, salt=0xA1B2C3D4))
    assert data[:8] == b"LOWTIDE\x00"
    assert data[8:12] == FORMAT.to_bytes(4, "little")
    assert data[12:16] == bytes.fromhex("d4c3b2a1")
    assert data[16:32] == bytes(range(16))
    assert data[32:40] == (5).to_bytes(8, "little")
    assert data[40:48] == (1000).to_bytes(8, "little")
    assert data[52:64] == bytes(12)


def test_a_header_with_a_flipped_bit_is_none() -> None:
    data = encode_header(HEADER)
    for bit in range(52 * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode_header(bytes(flipped)) is None, bit


@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_no_header(data: bytes) -> None:
    assert decode_header(data) is None


def test_segments_are_listed_by_number_and_nothing_else_is(tmp_path: Path) -> None:
    for sequence in (10, 2, 100):
        segment_path(tmp_path, sequence).touch()
    for stranger in ("spare-1.tmp", "1.log", "0000000001.log.bak", "x0000000001.log"):
        (tmp_path / stranger).touch()
    assert [sequence_of(path) for path in segment_paths(tmp_path)] == [2, 10, 100]


def test_a_scan_finds_the_commits_and_their_end() -> None:
    data = segment_bytes_of([b"one", b"two"], durable=0)
    scan = scan_segment(PATH, data)
    assert [frame.ts for frame in scan.frames] == [1, 2]
    assert scan.last_ts == 2
    assert scan.end == len(data.rstrip(b"\x00"))
    assert not scan.torn
    assert not scan.dirty


def test_a_scan_of_a_header_alone_ends_before_its_first_commit() -> None:
    scan = scan_segment(PATH, segment_bytes_of([], first_ts=8))
    assert (scan.frames, scan.last_ts, scan.end, scan.torn) == ([], 7, HEADER_SIZE, False)


def test_a_scan_sees_a_single_byte_wherever_it_follows() -> None:
    data = bytearray(segment_bytes_of([b"one"]).ljust(200_000, b"\x00"))
    end = scan_segment(PATH, bytes(data)).end
    assert not scan_segment(PATH, bytes(data)).dirty
    for at in (end, end + 1, end + 65_535, end + 65_536, end + 65_537, end + 131_072, len(data) - 1):
        data[at] = 1
        assert scan_segment(PATH, bytes(data)).dirty, at
        data[at] = 0


def test_a_scan_of_nothing_has_no_header_and_is_not_torn() -> None:
    for data in (b"", bytes(10), bytes(4096)):
        scan = scan_segment(PATH, data)
        assert scan.header is None
        assert not scan.torn
    assert scan_segment(PATH, b"\x00" * 100 + b"x").torn


def frames(*content: tuple[int, bytes], salt: int = HEADER.salt, previous: int = HEADER.salt) -> list[bytes]:
    made, crc = [], previous
    for ts, payload in content:
        frame, crc = encode_frame(ts, 0, crc, salt, payload)
        made.append(frame)
    return made


def chained(*parts: bytes) -> list[tuple[int, bytes]]:
    data = encode_header(HEADER) + b"".join(parts) + bytes(64)
    return [(frame.ts, frame.payload) for frame in chained_frames(data, HEADER)]


def test_a_chain_ends_where_a_frame_was_left_out_repeated_or_moved() -> None:
    one, two, three = frames((1, b"one"), (2, b"two"), (3, b"three"))
    assert chained(one, two, three) == [(1, b"one"), (2, b"two"), (3, b"three")]
    assert chained(one, three) == [(1, b"one")]
    assert chained(one, one, two) == [(1, b"one")]
    assert chained(two, one) == []
    assert chained(one, b"\x00", two) == [(1, b"one")]


def test_a_chain_ends_where_a_timestamp_does_not_follow() -> None:
    assert chained(*frames((1, b"one"), (3, b"three"))) == [(1, b"one")]
    assert chained(*frames((1, b"one"), (1, b"again"))) == [(1, b"one")]
    assert chained(*frames((0, b"zero"))) == []


def test_a_marker_repeats_the_last_timestamp_and_is_no_commit() -> None:
    one, marker, two = frames((1, b"one"), (1, b""), (2, b"two"))
    assert chained(one, marker, two) == [(1, b"one"), (1, b""), (2, b"two")]
    data = encode_header(HEADER) + one + marker + two + bytes(64)
    assert [frame.ts for frame in scan_segment(PATH, data).frames] == [1, 2]
    assert chained(*frames((1, b"one"), (2, b""))) == [(1, b"one")]


def test_a_frame_that_replaced_another_breaks_the_chain_to_its_successor() -> None:
    """What a failed append left beyond its erased place never follows the frame that took the place."""
    _, failed_follower = frames((1, b"failed"), (2, b"its follower"))
    (taken,) = frames((1, b"differs"))
    assert chained(taken, failed_follower) == [(1, b"differs")]


def test_evidence_beyond_a_damaged_frame_is_found() -> None:
    crc, parts = HEADER.salt, []
    for ts, durable in ((1, 0), (2, 1), (3, 2)):
        frame, crc = encode_frame(ts, durable, crc, HEADER.salt, payload_of(b"value"))
        parts.append(frame)
    damaged = parts[1][:-1] + b"\xff"
    scan = scan_segment(PATH, encode_header(HEADER) + parts[0] + damaged + parts[2] + bytes(100))
    assert scan.last_ts == 1
    assert scan.torn
    assert scan.durable == 2


def test_a_torn_frame_is_told_from_what_a_recycled_segment_held_before() -> None:
    old = segment_bytes_of([b"old" * 20, b"older" * 30], salt=1)
    new = segment_bytes_of([b"new"], salt=2, size=0)
    recycled = scan_segment(PATH, new + old[len(new) :])
    assert recycled.dirty
    assert not recycled.torn
    torn_frame, _ = encode_frame(2, 0, recycled.crc, 2, payload_of(b"torn"))
    torn = scan_segment(PATH, new + torn_frame[:40] + old[len(new) + 40 :])
    assert torn.torn
    assert [frame.ts for frame in torn.frames] == [1]
