"""Frames and payloads of arbitrary bytes: a commit, nothing, or a CorruptionError."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine.log.frame import (
    FRAME_HEADER,
    Commit,
    Frame,
    begins_frame,
    decode,
    encode_frame,
    encode_payload,
    frame_at,
    frames_from,
    peek,
)
from lowtide.errors import CorruptionError
from tests.fuzz.guard import bounded, ours
from tests.fuzz.mutation import mutated
from tests.fuzz.profile import pure

SALT = 0x5A17
WRITES: dict[bytes, bytes | None] = {b"\0\0\0\1key": b"value", b"\0\0\0\1gone": None, b"\0\0\0\2k": b"\xff" * 40}
PAYLOAD = encode_payload(1.5, WRITES, {"fruit": b"\0\0\0\1", "nut": b"\0\0\0\2"}, [None, b"old", b"x"], True)
FRAME, CRC = encode_frame(7, 6, 5, SALT, PAYLOAD)
FRAMES = FRAME + encode_frame(8, 6, CRC, SALT, PAYLOAD)[0] + bytes(64)


@pure
@given(mutated(PAYLOAD))
def test_a_payload_of_any_bytes_is_a_commit_or_an_error_of_ours(payload: bytes) -> None:
    frame = Frame(0, FRAME_HEADER + len(payload), 0, 0, 7, 0, payload)
    found = ours(len(payload), lambda: decode(Path("segment"), frame))
    assert isinstance(found, Commit | CorruptionError)


@pure
@given(st.recursive(st.none() | st.integers(0, 9) | st.binary(max_size=4), st.lists, max_leaves=30))
def test_a_payload_of_any_shape_is_a_commit_or_an_error_of_ours(shape: object) -> None:
    payload = msgspec.msgpack.encode(shape)
    frame = Frame(0, FRAME_HEADER + len(payload), 0, 0, 7, 0, payload)
    assert isinstance(ours(len(payload), lambda: decode(Path("segment"), frame)), Commit | CorruptionError)


@pure
@given(st.integers(1, 100_000), st.sampled_from([b"\x91", b"\x81\xc4\x01k", b"\x94", b"\xdd\xff\xff\xff\xff"]))
def test_a_payload_that_nests_or_promises_without_end_is_an_error_of_ours(depth: int, opening: bytes) -> None:
    for payload in (opening * depth, b"\x92\xcb" + bytes(8) + opening * depth):
        frame = Frame(0, FRAME_HEADER + len(payload), 0, 0, 7, 0, payload)
        assert isinstance(ours(len(payload), partial(decode, Path("segment"), frame)), CorruptionError)


@pure
@given(mutated(FRAMES), st.integers(0, len(FRAMES)))
def test_damaged_frames_are_those_that_were_written_or_none(data: bytes, offset: int) -> None:
    def look() -> list[Frame]:
        peek(data, offset)
        begins_frame(data[offset:], SALT)
        first = frame_at(data, offset, SALT)
        return [*([first] if first is not None else []), *frames_from(data, offset, SALT)]

    for frame in bounded(len(data), look):
        assert frame.payload == PAYLOAD
        assert frame.ts in (7, 8)
        assert data[frame.offset : frame.end] in FRAMES
