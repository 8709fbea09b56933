"""A segment of the log: a header that names the store, then frames, then zeros.

A header is on disk before the file gets its name, so a named segment with a damaged header was damaged later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from zlib import crc32

from lowtide.engine.log.frame import FRAME_HEADER, Frame, begins_frame, chained, frames_from

FORMAT = 1
_MAGIC = b"LOWTIDE\x00"
_HEADER = Struct("<8sII16sQQ")
_CRC = Struct("<I")
HEADER_SIZE = 64
_NAME = re.compile(r"(\d{10})\.log")
_ZEROS = bytes(1 << 16)


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a segment. ``first_ts`` is the timestamp of the first commit that it may contain."""

    store_id: bytes
    sequence: int
    first_ts: int
    salt: int
    format: int = FORMAT


@dataclass(slots=True)
class Scan:
    """The contents of one segment: the commits in order, where they end, and what follows.

    ``dirty`` means that bytes other than zero follow: old contents of a recycled segment, or a commit that was cut
    short; ``torn`` means that it is such a commit. ``durable`` is the last commit that any frame of this segment,
    before or after the end, records as being on disk. ``beyond`` is the last commit found after the end.
    """

    path: Path
    size: int
    header: Header | None
    frames: list[Frame] = field(default_factory=list)
    end: int = HEADER_SIZE
    crc: int = 0
    last_ts: int = 0
    dirty: bool = False
    torn: bool = False
    durable: int = 0
    beyond: int = 0


def segment_path(directory: Path, sequence: int) -> Path:
    return directory / f"{sequence:010d}.log"


def segment_paths(directory: Path) -> list[Path]:
    """The segments of a log directory, oldest first."""
    return sorted(path for path in directory.iterdir() if _NAME.fullmatch(path.name))


def sequence_of(path: Path) -> int:
    return int(path.stem)


def encode_header(header: Header) -> bytes:
    fields = (header.format, header.salt, header.store_id, header.sequence, header.first_ts)
    packed = _HEADER.pack(_MAGIC, *fields)
    return (packed + _CRC.pack(crc32(packed))).ljust(HEADER_SIZE, b"\x00")


def decode_header(data: bytes) -> Header | None:
    """The header, or None if these bytes are not one."""
    if len(data) < _HEADER.size + _CRC.size:
        return None
    magic, version, salt, store_id, sequence, first_ts = _HEADER.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _HEADER.size)
    if magic != _MAGIC or crc != crc32(data[: _HEADER.size]):
        return None
    return Header(store_id, sequence, first_ts, salt, version)


def chained_frames(data: bytes, header: Header) -> Iterator[Frame]:
    """The frames from the start, up to the first that does not chain to the one before it."""
    return chained(data, HEADER_SIZE, header.salt, header.first_ts - 1)


def scan_segment(path: Path, data: bytes) -> Scan:
    """Read one segment up to the end of its chain, and look for frames after that."""
    header = decode_header(data)
    scan = Scan(path, len(data), header)
    if header is None:
        scan.dirty = scan.torn = not _only_zeros(data, 0)
        return scan
    scan.crc, scan.last_ts = header.salt, header.first_ts - 1
    frame, durable = None, scan.durable
    for frame in chained_frames(data, header):
        if frame.durable > durable:
            durable = frame.durable
        if frame.payload:
            scan.frames.append(frame)
    scan.durable = durable
    if frame is not None:
        scan.end, scan.crc, scan.last_ts = frame.end, frame.crc, frame.ts
    scan.dirty = not _only_zeros(data, scan.end)
    scan.torn = begins_frame(data[scan.end : scan.end + FRAME_HEADER], scan.crc)
    if scan.dirty:
        for frame in frames_from(data, scan.end, header.salt, scan.last_ts):
            scan.durable = max(scan.durable, frame.durable)
            scan.beyond = max(scan.beyond, frame.ts)
    return scan


def _only_zeros(data: bytes, start: int) -> bool:
    """Whether nothing but zeros follows. Blocks are compared as a whole: most of a segment is often empty."""
    blocks = (data[at : at + len(_ZEROS)] for at in range(start, len(data), len(_ZEROS)))
    return all(block == _ZEROS[: len(block)] for block in blocks)
