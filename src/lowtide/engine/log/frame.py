"""A commit as bytes: framed, checksummed, chained to the frame before it.

``magic crc length previous ts durable payload``, little endian. The checksum covers all that follows it and is seeded
with the segment's salt, so a frame of a recycled segment or of another store never passes. ``previous`` is the checksum
of the frame before, so frames cannot be dropped or reordered. ``durable`` is the last commit that was known to be on
disk when this frame was written: it tells a tail that a power loss tore (unsynced, may be cut) from a damaged middle
(was on disk, must not be cut). A frame without payload is a marker: it only carries ``durable``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from mmap import mmap
from pathlib import Path
from struct import Struct
from typing import TypeAlias
from zlib import crc32

import msgspec

from lowtide.engine.types import Names, Writes
from lowtide.errors import CorruptionError
from lowtide.system.messages import UNDECODABLE

MAGIC = b"LtC1"
_HEAD = Struct("<4sI")
_BODY = Struct("<IIQQ")
_WHOLE = Struct("<4sIIIQQ")
FRAME_HEADER = _HEAD.size + _BODY.size
_PREVIOUS = _HEAD.size + 4
_STRETCH = 1 << 20

Buffer: TypeAlias = "bytes | mmap"


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A frame whose own checksum is right."""

    offset: int
    end: int
    crc: int
    previous: int
    ts: int
    durable: int
    payload: bytes


Before = list[bytes | None]
"""The values that the keys of a commit had before it, in the order of its writes; None where there was none."""


class Commit(msgspec.Struct, frozen=True, gc=False):
    """A commit as the log tells it. ``existed`` has a byte for each of the writes: 1 if the key had a value before, 2
    if that was a document which was replaced, not updated; ``before`` those values, if the store keeps them. A log
    of format 1 has neither."""

    ts: int
    time: float
    writes: Writes
    names: Names | None = None
    existed: bytes | None = None
    before: Before | None = None


class _Payload(msgspec.Struct, array_like=True, frozen=True, gc=False):
    time: float
    writes: Writes
    names: Names | None = None
    existed: bytes | None = None
    before: Before | None = None


_LAST_PREFIX = b"\xff\xff\xff\xfd"


def is_prefix(prefix: bytes) -> bool:
    """Whether this can be the prefix of a keyspace, and leaves room for another one's."""
    return len(prefix) == len(_LAST_PREFIX) and prefix <= _LAST_PREFIX


_ABSENT, _PRESENT = b"\x00", b"\x01"
REPLACED = 2
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Payload).decode
_decode_many = msgspec.msgpack.Decoder(list[_Payload]).decode


def encode_payload(
    time: float,
    writes: Writes,
    names: Names | None,
    before: Before,
    keep_before: bool,
    replaced: Collection[bytes] | None = None,
) -> bytes:
    """A commit's time and content as bytes, made before the commit lock is taken and before its timestamp is known.
    ``replaced`` are the full keys of documents that were replaced."""
    if replaced:
        pairs = zip(writes, before, strict=True)
        existed = bytes(
            [REPLACED if key in replaced and value is not None else value is not None for key, value in pairs]
        )
    elif len(before) == 1:
        existed = _ABSENT if before[0] is None else _PRESENT
    else:
        existed = bytes([value is not None for value in before])
    return _encode((time, writes, names, existed, before) if keep_before else (time, writes, names, existed))


def decode_payload(frame: Frame) -> Commit:
    """The commit in ``frame``; an error of UNDECODABLE if it is none."""
    return _commit(frame.ts, _decode(frame.payload))


def decode_payloads(payloads: list[bytes], first: int) -> list[Commit]:
    """The commits of consecutive frames, of which ``first`` is the first; an error of UNDECODABLE if one is none."""
    decoded = _decode_many(b"".join([b"\xdd", len(payloads).to_bytes(4, "big"), *payloads]))
    return [_commit(ts, payload) for ts, payload in enumerate(decoded, first)]


def _commit(ts: int, payload: _Payload) -> Commit:
    writes, names, existed, before = payload.writes, payload.names, payload.existed, payload.before
    if existed is not None and len(existed) != len(writes):
        raise msgspec.ValidationError(f"{len(writes)} keys, but whether {len(existed)} existed")
    if before is not None and len(before) != len(writes):
        raise msgspec.ValidationError(f"{len(writes)} keys, but what {len(before)} were before")
    if names is not None and not all(map(is_prefix, names.values())):
        raise msgspec.ValidationError("a keyspace has an impossible number")
    return Commit(ts=ts, time=payload.time, writes=writes, names=names, existed=existed, before=before)


def decode(path: Path, frame: Frame, offset: int | None = None) -> Commit:
    """The commit in ``frame``, which was read from ``path``, at ``offset`` if the frame does not know."""
    try:
        return decode_payload(frame)
    except UNDECODABLE as error:
        where = frame.offset if offset is None else offset
        raise CorruptionError(path, f"the commit at offset {where} cannot be decoded: {error}") from error


def encode_frame(ts: int, durable: int, previous: int, salt: int, payload: bytes) -> tuple[bytes, int]:
    """The frame's bytes and its checksum, which the next frame chains from."""
    body = _BODY.pack(len(payload), previous, ts, durable) + payload
    crc = crc32(body, salt)
    return _HEAD.pack(MAGIC, crc) + body, crc


def peek(data: Buffer, offset: int) -> tuple[int, int, int] | None:
    """What the header at ``offset`` says, unchecked: the bytes of the whole frame, its checksum and its timestamp; None
    if it is no frame's."""
    if offset + FRAME_HEADER > len(data):
        return None
    magic, crc, length, _, ts, _ = _WHOLE.unpack_from(data, offset)
    return (FRAME_HEADER + length, crc, ts) if magic == MAGIC else None


def frames_after(data: mmap, offset: int, salt: int, previous: int, ts: int, upto: int) -> tuple[list[bytes], int, int]:
    """The payloads of the commits from ``offset`` on that follow commit ``ts``, whose checksum is ``previous``, up to
    commit ``upto`` and for about a megabyte; the offset behind them, and the checksum of the last. As ``frame_at`` for
    each of them, at once. They end before a marker."""
    unpack, size, head = _WHOLE.unpack_from, len(data) - FRAME_HEADER, _HEAD.size
    payloads: list[bytes] = []
    limit = offset + _STRETCH
    while ts < upto and offset <= size and offset < limit:
        magic, crc, length, chained, stamp, _ = unpack(data, offset)
        end = offset + FRAME_HEADER + length
        if magic != MAGIC or chained != previous or stamp != ts + 1 or not length:
            break
        body = data[offset + head : end]
        if crc32(body, salt) != crc:
            break
        payloads.append(body[_BODY.size :])
        offset, previous, ts = end, crc, stamp
    return payloads, offset, previous


def frame_at(data: bytes, offset: int, salt: int) -> Frame | None:
    """The frame that starts at ``offset``, or None if there is none whose checksum is right."""
    body = offset + FRAME_HEADER
    if body > len(data):
        return None
    magic, crc, length, previous, ts, durable = _WHOLE.unpack_from(data, offset)
    end = body + length
    if magic != MAGIC or end > len(data):
        return None
    payload = data[body:end]
    if crc32(payload, crc32(data[offset + _HEAD.size : body], salt)) != crc:
        return None
    return Frame(offset=offset, end=end, crc=crc, previous=previous, ts=ts, durable=durable, payload=payload)


def begins_frame(data: bytes, previous: int) -> bool:
    """Whether ``data`` starts like a frame that follows the one with checksum ``previous``, however little is there."""
    head = data[:FRAME_HEADER].rstrip(b"\x00")
    chained = head[_PREVIOUS : _PREVIOUS + 4].ljust(4, b"\x00")
    expected = previous.to_bytes(4, "little")[: max(0, len(head) - _PREVIOUS)].ljust(4, b"\x00")
    return head != b"" and MAGIC.startswith(head[: len(MAGIC)]) and chained == expected


def frames_from(data: bytes, offset: int, salt: int, after: int = 0) -> Iterator[Frame]:
    """Every frame at or after ``offset`` whose own checksum is right, whatever lies between them.

    Only such as could follow commit ``after`` are looked at, and no more bytes are checksummed than a few times those
    there are: content that was crafted to look like frames does not make opening slow.
    """
    budget = 8 * len(data)
    while (offset := data.find(MAGIC, offset)) >= 0 and budget > 0:
        if offset + FRAME_HEADER <= len(data):
            length, _, ts, durable = _BODY.unpack_from(data, offset + _HEAD.size)
            if durable <= ts and ts >= after and offset + length <= len(data):
                budget -= length
                frame = frame_at(data, offset, salt)
                if frame is not None:
                    yield frame
        offset += len(MAGIC)
