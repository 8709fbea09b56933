"""Inputs that are nearly right: valid bytes, damaged in the ways that find faults in decoders.

Damage alone never reaches a decoder behind a checksum. So ``repaired`` recomputes the checksums of a damaged segment,
as far as its lengths can still be followed.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from hypothesis import strategies as st

from lowtide.engine.log.frame import FRAME_HEADER, MAGIC
from lowtide.engine.log.segment import HEADER_SIZE

Edit = Callable[[bytes], bytes]

_HUGE = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
_HEADER_CRC = 48
"""Where the checksum of a segment's header stands: behind all that it covers."""

_position = st.integers(0, 1 << 16)
_few = st.integers(1, 64)


def _at(data: bytes, position: int) -> int:
    return position % (len(data) + 1)


def _flip(position: int, mask: int) -> Edit:
    def edit(data: bytes) -> bytes:
        if not data:
            return data
        at = position % len(data)
        return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]

    return edit


def _truncate(position: int) -> Edit:
    return lambda data: data[: _at(data, position)]


def _remove(position: int, length: int) -> Edit:
    return lambda data: data[: _at(data, position)] + data[_at(data, position) + length :]


def _overwrite(position: int, new: bytes) -> Edit:
    return lambda data: data[: _at(data, position)] + new + data[_at(data, position) + len(new) :]


def _insert(position: int, new: bytes) -> Edit:
    return lambda data: data[: _at(data, position)] + new + data[_at(data, position) :]


def _splice(source: int, length: int, target: int) -> Edit:
    return lambda data: _insert(target, data[_at(data, source) :][:length])(data)


def _repeat(position: int, length: int, times: int) -> Edit:
    def edit(data: bytes) -> bytes:
        at = _at(data, position)
        return data[:at] + data[at : at + length] * times + data[at + length :]

    return edit


_number = st.builds(
    lambda value, size, order: (value % (1 << 8 * size)).to_bytes(size, order),
    st.sampled_from(_HUGE),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(["little", "big"]),
)
_new = st.one_of(_number, st.binary(min_size=1, max_size=32), st.builds(bytes, _few))

edits: st.SearchStrategy[Edit] = st.one_of(
    st.builds(_flip, _position, st.integers(1, 255)),
    st.builds(_overwrite, _position, _new),
    st.builds(_insert, _position, _new),
    st.builds(_remove, _position, _few),
    st.builds(_truncate, _position),
    st.builds(_splice, _position, st.integers(1, 512), _position),
    st.builds(_repeat, _position, _few, st.integers(2, 5)),
)


def mutated(data: bytes, *, at_least: int = 1) -> st.SearchStrategy[bytes]:
    """``data`` after a few edits; sometimes something else altogether."""

    def apply(chosen: list[Edit]) -> bytes:
        result = data
        for edit in chosen:
            result = edit(result)
        return result

    return st.one_of(st.lists(edits, min_size=at_least, max_size=6).map(apply), st.binary(max_size=256))


def repaired(segment: bytes) -> bytes:
    """``segment`` with the checksums of its header and of its frames made right, each chained to the one before."""
    if len(segment) < HEADER_SIZE:
        return segment
    data = bytearray(segment)
    data[_HEADER_CRC : _HEADER_CRC + 4] = crc32(data[:_HEADER_CRC]).to_bytes(4, "little")
    salt = int.from_bytes(data[12:16], "little")
    offset, previous = HEADER_SIZE, salt
    while offset + FRAME_HEADER <= len(data) and any(data[offset : offset + FRAME_HEADER]):
        end = offset + FRAME_HEADER + int.from_bytes(data[offset + 8 : offset + 12], "little")
        if end > len(data):
            break
        data[offset : offset + 4] = MAGIC
        data[offset + 12 : offset + 16] = previous.to_bytes(4, "little")
        previous = crc32(data[offset + 8 : end], salt)
        data[offset + 4 : offset + 8] = previous.to_bytes(4, "little")
        offset = end
    return bytes(data)
