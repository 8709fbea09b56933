"""Frames: a commit as bytes, checked and chained (K5)."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine.log.frame import (
    FRAME_HEADER,
    MAGIC,
    Frame,
    begins_frame,
    decode_payload,
    encode_frame,
    encode_payload,
    frame_at,
    frames_from,
    is_prefix,
)

u32 = st.integers(0, 2**32 - 1)
timestamps = st.integers(0, 2**63 - 1)
writes = st.dictionaries(st.binary(min_size=4, max_size=40), st.none() | st.binary(max_size=60), max_size=8)
prefixes = st.binary(min_size=4, max_size=4).filter(is_prefix)
names = st.none() | st.dictionaries(st.text(min_size=1, max_size=20), prefixes, max_size=3)


@given(st.floats(allow_nan=False), writes, names, timestamps, timestamps, u32, u32)
def test_what_is_framed_is_read_back(
    time: float,
    changes: dict[bytes, bytes | None],
    keyspaces: dict[str, bytes] | None,
    ts: int,
    durable: int,
    previous: int,
    salt: int,
) -> None:
    data, crc = encode_frame(
        ts, durable, previous, salt, encode_payload(time, changes, keyspaces, [None] * len(changes), False)
    )
    frame = frame_at(b"before" + data + b"after", 6, salt)
    assert frame is not None
    assert (frame.offset, frame.end, frame.crc) == (6, 6 + len(data), crc)
    assert (frame.ts, frame.durable, frame.previous) == (ts, durable, previous)
    commit = decode_payload(frame)
    assert (commit.ts, commit.writes, commit.names) == (ts, changes, keyspaces)
    assert math.isclose(commit.time, time, rel_tol=0, abs_tol=0) or commit.time == time


def test_the_bytes_of_a_frame_are_those_of_the_file_format() -> None:
    writes = {b"\x00\x00\x00\x01k": b"v", b"\x00\x00\x00\x01d": None}
    payload = encode_payload(1.5, writes, {"fruit": b"\x00\x00\x00\x01"}, [None, b"old"], keep_before=True)
    assert payload.hex(" ", 1) == (
        "95"  # an array of five
        " cb 3f f8 00 00 00 00 00 00"  # the time, a float of eight bytes
        " 82 c4 05 00 00 00 01 6b c4 01 76 c4 05 00 00 00 01 64 c0"  # two keys, one of them deleted
        " 81 a5 66 72 75 69 74 c4 04 00 00 00 01"  # the keyspace that this commit is the first to write to
        " c4 02 00 01"  # the first key had no value before, the second had one
        " 92 c0 c4 03 6f 6c 64"  # and this was it
    )
    data, crc = encode_frame(ts=7, durable=6, previous=0x0A0B0C0D, salt=99, payload=payload)
    assert len(data) == FRAME_HEADER + len(payload) == 32 + len(payload)
    assert data[:4] == MAGIC == b"LtC1"
    assert data[4:8] == crc.to_bytes(4, "little")
    assert data[8:12] == len(payload).to_bytes(4, "little")
    assert data[12:16] == bytes.fromhex("0d0c0b0a")
    assert data[16:24] == (7).to_bytes(8, "little")
    assert data[24:32] == (6).to_bytes(8, "little")
    assert data[32:] == payload


def test_no_flip_of_a_single_bit_passes() -> None:
    data, _ = encode_frame(3, 2, 1, 77, encode_payload(0.0, {b"\x00\x00\x00\x01key": b"value"}, None, [None], False))
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert frame_at(bytes(flipped) + bytes(512), 0, 77) is None, bit


@given(u32, u32)
def test_a_frame_passes_under_its_own_salt_only(salt: int, other: int) -> None:
    data, _ = encode_frame(1, 0, salt, salt, b"payload")
    assert (frame_at(data, 0, other) is None) == (salt != other)


@given(st.binary(max_size=300), st.integers(0, 320), u32)
def test_arbitrary_bytes_are_no_frame_and_no_error(data: bytes, offset: int, salt: int) -> None:
    assert frame_at(data, offset, salt) is None


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_frames_are_found_whatever_lies_between_them(before: bytes, between: bytes) -> None:
    first, crc = encode_frame(1, 0, 5, 5, b"one")
    second, _ = encode_frame(2, 1, crc, 5, b"two")
    found = list(frames_from(before + first + between + second, 0, 5))
    assert [frame.payload for frame in found] == [b"one", b"two"]


def test_a_magic_that_begins_inside_another_does_not_hide_a_frame() -> None:
    frame, _ = encode_frame(1, 0, 5, 5, b"one")
    for cut in range(1, len(MAGIC)):
        assert [each.ts for each in frames_from(MAGIC[:cut] + frame, 0, 5)] == [1]


@given(st.binary(min_size=1, max_size=64))
def test_a_payload_that_is_no_commit_is_a_msgspec_error(payload: bytes) -> None:
    frame = Frame(0, 0, 0, 0, 1, 0, payload)
    try:
        decode_payload(frame)
    except msgspec.MsgspecError:
        return
    pytest.fail("random bytes were taken for a commit")


def test_a_frame_of_which_only_the_beginning_arrived_is_seen_as_begun() -> None:
    data, _ = encode_frame(0x01020304, 0x01020303, 0x99AABBCC, 5, b"x" * 40)
    for kept in range(1, len(data)):
        assert begins_frame(data[:kept].ljust(512, b"\x00"), 0x99AABBCC), kept


def test_zeros_and_frames_of_another_chain_are_not_seen_as_begun() -> None:
    stale, _ = encode_frame(9, 8, 0x11111111, 5, b"x" * 40)
    assert not begins_frame(bytes(512), 0x99AABBCC)
    assert not begins_frame(b"", 0x99AABBCC)
    assert not begins_frame(stale, 0x99AABBCC)
    assert not begins_frame(stale[13:].ljust(512, b"\x00"), 0x99AABBCC)
