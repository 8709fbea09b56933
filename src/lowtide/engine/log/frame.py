"""A commit as bytes: framed, checksummed, and chained to the previous frame.

``magic crc length previous ts durable payload``, little endian. The checksum covers all that follows it and is seeded
with the segment's salt, so a frame of a recycled segment or of another store never passes. ``previous`` is the checksum
of the previous frame, so frames cannot be dropped or reordered. ``durable`` is the last commit that was known to be on
disk when this frame was written. It distinguishes a tail torn by a power loss (unsynced, may be cut) from a damaged
middle (was on disk, must not be cut). A frame without payload is a marker: it only carries ``durable``.
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
    """A frame whose checksum is correct."""

    offset: int
    end: int
    crc: int
    previous: int
    ts: int
    durable: int
    payload: bytes


Before = list[bytes | None]
"""The values that a commit replaced, in the order of its writes; None for a key that did not exist."""


class Commit(msgspec.Struct, frozen=True, gc=False):
    """A commit as read from the log. ``existed`` has one byte for each write: 1 if the key had a value before, 2 if
    that value was a document that was replaced, not updated. ``before`` has those values, if the store logs them. A log
    of format 1 has neither. ``identity`` identifies the commit of a joined process, which looks for it in the log if
    the answer was lost."""

    ts: int
    time: float
    writes: Writes
    names: Names | None = None
    existed: bytes | None = None
    before: Before | None = None
    identity: bytes | None = None


class _Payload(msgspec.Struct, array_like=True, frozen=True, gc=False):
    time: float
    writes: Writes
    names: Names | None = None
    existed: bytes | None = None
    before: Before | None = None
    identity: bytes | None = None


class _Told(msgspec.Struct, array_like=True, gc=False):
    """A payload whose writes and names stay encoded."""

    time: float
    writes: msgspec.Raw
    names: msgspec.Raw
    existed: bytes
    before: Before | None = None
    identity: bytes | None = None


_LAST_PREFIX = b"\xff\xff\xff\xfd"


def is_prefix(prefix: bytes) -> bool:
    """Whether this can be the prefix of a keyspace. The largest numbers are excluded, so that a next one always
    fits."""
    return len(prefix) == len(_LAST_PREFIX) and prefix <= _LAST_PREFIX


_ABSENT, _PRESENT = b"\x00", b"\x01"
_PLAIN, _IDENTIFIED, _NIL = b"\x94", b"\x96", b"\xc0"
"""MessagePack: the first byte of a payload without ``before`` and without an identity, that of a payload with an
identity, and nil."""
REPLACED = 2
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Payload).decode
_decode_told = msgspec.msgpack.Decoder(_Told).decode
_decode_many = msgspec.msgpack.Decoder(list[_Payload]).decode


def encode_payload(
    time: float,
    writes: Writes,
    names: Names | None,
    before: Before,
    keep_before: bool,
    replaced: Collection[bytes] | None = None,
) -> bytes:
    """Encode a commit's time and content. Called before the commit lock is taken and the timestamp is known.
    ``replaced`` has the full keys of documents that were replaced."""
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


def encode_one(time: float, writes: Writes, existed: bool) -> bytes:
    """The same as ``encode_payload``, for one write to a keyspace that the log knows, without earlier values."""
    return _encode((time, writes, None, _PRESENT if existed else _ABSENT))


def identified(payload: bytes, identity: bytes) -> bytes:
    """The payload with the identity of its commit added."""
    before = _NIL if payload[:1] == _PLAIN else b""
    return b"".join([_IDENTIFIED, memoryview(payload)[1:], before, _encode(identity)])


def told_as_there(payload: bytes, places: list[int], values: Before) -> bytes:
    """The payload of a commit whose writes at ``places`` found keys that already had the values in ``values``."""
    told = _decode_told(payload)
    existed = bytearray(told.existed)
    for place in places:
        existed[place] = 1
        if told.before is not None:
            told.before[place] = values[place]
    rest = (told.time, told.writes, told.names, bytes(existed))
    again = _encode(rest if told.before is None else (*rest, told.before))
    return again if told.identity is None else identified(again, told.identity)


def commit_of(payload: bytes) -> Commit:
    """The commit that a joined process has encoded, which has no timestamp yet; raise one of UNDECODABLE if it cannot
    be decoded."""
    return _commit(0, _decode(payload))


def decode_payload(frame: Frame) -> Commit:
    """Decode the commit in ``frame``; raise one of UNDECODABLE if that fails."""
    return _commit(frame.ts, _decode(frame.payload))


def decode_payloads(payloads: list[bytes], first: int) -> list[Commit]:
    """Decode the commits of consecutive frames, from commit ``first``; raise one of UNDECODABLE if that fails."""
    decoded = _decode_many(b"".join([b"\xdd", len(payloads).to_bytes(4, "big"), *payloads]))
    commits: list[Commit] = []
    for ts, payload in enumerate(decoded, first):
        writes, existed = payload.writes, payload.existed
        # The common case, without a call: takeovers and followers wait for this.
        if payload.names is None and payload.before is None and existed is not None and len(existed) == len(writes):
            commits.append(Commit(ts, payload.time, writes, None, existed, identity=payload.identity))
        else:
            commits.append(_commit(ts, payload))
    return commits


def _commit(ts: int, payload: _Payload) -> Commit:
    writes, names, existed, before = payload.writes, payload.names, payload.existed, payload.before
    if existed is not None and len(existed) != len(writes):
        raise msgspec.ValidationError(f"{len(writes)} keys, but {len(existed)} flags of whether they existed")
    if before is not None and len(before) != len(writes):
        raise msgspec.ValidationError(f"{len(writes)} keys, but {len(before)} values from before")
    if names is not None and not all(map(is_prefix, names.values())):
        raise msgspec.ValidationError("the number of a keyspace is out of range")
    return Commit(
        ts=ts,
        time=payload.time,
        writes=writes,
        names=names,
        existed=existed,
        before=before,
        identity=payload.identity,
    )


def decode(path: Path, frame: Frame, offset: int | None = None) -> Commit:
    """Decode the commit in ``frame``, or raise a CorruptionError that names ``path``, and ``offset`` if it is given."""
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
    """Read the header at ``offset`` without checking it: the length of the whole frame, its checksum and its timestamp.
    None if there is no header of a frame."""
    if offset + FRAME_HEADER > len(data):
        return None
    magic, crc, length, _, ts, _ = _WHOLE.unpack_from(data, offset)
    return (FRAME_HEADER + length, crc, ts) if magic == MAGIC else None


def frames_after(data: mmap, offset: int, salt: int, previous: int, ts: int, upto: int) -> tuple[list[bytes], int, int]:
    """Read the frames from ``offset`` on. The first must follow commit ``ts``, whose frame has the checksum
    ``previous``. Stops at commit ``upto``, at a marker, or after about a megabyte. Returns the payloads, the offset
    after the last frame, and its checksum. Each frame is checked as in ``frame_at``."""
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
    """The frame that starts at ``offset``; None if there is no frame with a correct checksum."""
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


def chained(data: bytes, offset: int, salt: int, ts: int) -> Iterator[Frame]:
    """The frames from ``offset`` on, which follow commit ``ts``: the first chains to ``salt``, each of the others to
    the one before it. Each is checked as in ``frame_at``, which is not called: recovery waits for millions of these."""
    unpack, size, head = _WHOLE.unpack_from, len(data) - FRAME_HEADER, _HEAD.size
    view, previous = memoryview(data), salt
    while offset <= size:
        magic, crc, length, chains_to, stamp, durable = unpack(data, offset)
        body = offset + FRAME_HEADER
        end = body + length
        if magic != MAGIC or chains_to != previous or stamp != (ts + 1 if length else ts) or end > len(data):
            return
        if crc32(view[offset + head : end], salt) != crc:
            return
        yield Frame(offset, end, crc, chains_to, stamp, durable=durable, payload=data[body:end])
        offset, previous, ts = end, crc, stamp


def begins_frame(data: bytes, previous: int) -> bool:
    """Whether ``data``, which may be cut short, starts like a frame that follows the one with checksum ``previous``."""
    head = data[:FRAME_HEADER].rstrip(b"\x00")
    chained = head[_PREVIOUS : _PREVIOUS + 4].ljust(4, b"\x00")
    expected = previous.to_bytes(4, "little")[: max(0, len(head) - _PREVIOUS)].ljust(4, b"\x00")
    return head != b"" and MAGIC.startswith(head[: len(MAGIC)]) and chained == expected


def frames_from(data: bytes, offset: int, salt: int, after: int = 0) -> Iterator[Frame]:
    """Every frame at or after ``offset`` with a correct checksum, whatever lies between them.

    Only frames that could follow commit ``after`` are considered, and the bytes checksummed are at most a few times the
    size of ``data``: content crafted to look like frames does not make opening slow.
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
