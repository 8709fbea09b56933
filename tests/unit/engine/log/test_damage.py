"""Damaged segments: nothing that was not committed is ever read from one (K5)."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide.engine.log.frame as frame_module
from lowtide.engine.log.frame import MAGIC, Frame, decode_payload
from lowtide.engine.log.segment import Header, encode_header, scan_segment
from tests.unit.engine.log.logs import OTHER_STORE, STORE, segment_bytes_of

PATH = Path("0000000001.log")
VALUES = [b"first", b"second value", b"3"]
SALT = 0x5A17
WHOLE = segment_bytes_of(VALUES, salt=SALT, durable=0)
COMMITS = [decode_payload(frame) for frame in scan_segment(PATH, WHOLE).frames]

mutations = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=8)),
        st.tuples(st.just("cut"), st.integers(0, len(WHOLE) - 1), st.binary(max_size=0)),
        st.tuples(st.just("insert"), st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=40)),
        st.tuples(st.just("repeat"), st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=1)),
    ),
    min_size=1,
    max_size=4,
)


def mutate(data: bytes, how: str, at: int, content: bytes) -> bytes:
    match how:
        case "set":
            return data[:at] + content + data[at + len(content) :]
        case "cut":
            return data[:at]
        case "insert":
            return data[:at] + content + data[at:]
    return data[:at] + data[at // 2 : at] + data[at:]


def assert_prefix(frames: list[Frame]) -> None:
    read = [decode_payload(frame) for frame in frames]
    assert read == COMMITS[: len(read)]


def test_no_flipped_bit_is_ever_read_as_a_different_commit() -> None:
    for bit in range(len(WHOLE.rstrip(b"\x00")) * 8):
        flipped = bytearray(WHOLE)
        flipped[bit // 8] ^= 1 << bit % 8
        scan = scan_segment(PATH, bytes(flipped))
        assert_prefix(scan.frames)
        in_padding = 52 <= bit // 8 < 64
        assert len(scan.frames) < 3 or in_padding, bit


@given(mutations)
def test_mutated_bytes_are_read_as_a_prefix_of_the_commits(changes: list[tuple[str, int, bytes]]) -> None:
    data = WHOLE
    for change in changes:
        data = mutate(data, *change)
    assert_prefix(scan_segment(PATH, data).frames)


@given(st.binary(max_size=600))
def test_random_bytes_behind_a_good_header_hold_no_commit(content: bytes) -> None:
    data = encode_header(Header(STORE, 1, 1, SALT)) + content
    assert scan_segment(PATH, data).frames == []


@given(st.lists(st.binary(max_size=120), max_size=8), st.lists(st.binary(max_size=120), max_size=8), st.data())
def test_stale_frames_of_a_recycled_segment_never_pass(old: list[bytes], new: list[bytes], data: st.DataObject) -> None:
    """Whatever the old commits were, even the same as the new ones at the same places."""
    old_salt, salt = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=2, unique=True))
    before = segment_bytes_of(old, salt=old_salt, size=2048)
    after = segment_bytes_of(new, salt=salt, size=0)
    scan = scan_segment(PATH, (after + before[len(after) :])[: max(2048, len(after))])
    assert [list(decode_payload(frame).writes.values()) for frame in scan.frames] == [[value] for value in new]
    assert scan.durable == 0


@given(st.integers(0, 3))
def test_frames_copied_from_another_store_never_pass(taken: int) -> None:
    foreign = segment_bytes_of(VALUES, store=OTHER_STORE, salt=SALT + 1)
    scan = scan_segment(PATH, WHOLE[:64] + foreign[64:])
    assert scan.frames == []
    ends = [64, *(frame.end for frame in scan_segment(PATH, WHOLE).frames)]
    mixed = scan_segment(PATH, WHOLE[: ends[taken]] + foreign[ends[taken] :])
    assert len(mixed.frames) == taken


@settings(max_examples=20)
@given(st.binary(min_size=1, max_size=12))
def test_repeated_content_ends_the_scan(unit: bytes) -> None:
    data = encode_header(Header(STORE, 1, 1, SALT)) + (MAGIC + unit) * 200
    assert scan_segment(PATH, data).frames == []


def test_crafted_content_beyond_the_end_does_not_make_opening_quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored value that looks like the heads of long frames: each must not cost a checksum of its claimed length."""
    checksummed = 0

    def counting(data: memoryview, value: int = 0) -> int:
        nonlocal checksummed
        checksummed += len(data)
        return zlib.crc32(data, value)

    monkeypatch.setattr(frame_module, "crc32", counting)
    size = 1 << 17
    head = MAGIC + struct.pack("<II", 0, size // 2)
    scan_segment(PATH, encode_header(Header(STORE, 1, 1, SALT)) + head * (size // len(head)))
    assert checksummed < 32 * size
