"""The reading end of the log: commits in order, from the files, in any process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from lowtide.errors import CorruptionError
from lowtide.log.frame import Commit, Frame, decode_payload
from lowtide.log.segment import HEADER_SIZE, chained_frames, decode_header, segment_paths, sequence_of


def read_commits(directory: Path, store_id: bytes, after: int, upto: int) -> Iterator[Commit]:
    """The commits with ``after < ts <= upto``; all of them, or a CorruptionError.

    Other threads and processes may append and recycle meanwhile, as long as what was asked for is retained.
    """
    expected = after + 1
    for path in _segments_holding(directory, expected):
        if expected > upto:
            return
        data = path.read_bytes()
        header = decode_header(data)
        if header is None or header.store_id != store_id or header.sequence != sequence_of(path):
            raise CorruptionError(path, "is not a segment of this store's log")
        for frame in chained_frames(data, header):
            if frame.payload and frame.ts == expected <= upto:
                yield decode(path, frame)
                expected += 1
    if expected <= upto:
        raise CorruptionError(directory, f"commit {expected} is missing from the log, which should reach {upto}")


def decode(path: Path, frame: Frame) -> Commit:
    """The commit in ``frame``, which was read from ``path``."""
    try:
        return decode_payload(frame)
    except msgspec.MsgspecError as error:
        raise CorruptionError(path, f"the commit at offset {frame.offset} cannot be decoded: {error}") from error


def _segments_holding(directory: Path, ts: int) -> list[Path]:
    """The segments from the one that may hold ``ts`` on, oldest first."""
    paths = segment_paths(directory)
    for index in range(len(paths) - 1, -1, -1):
        with paths[index].open("rb") as file:
            header = decode_header(file.read(HEADER_SIZE))
        if header is not None and header.first_ts <= ts:
            return paths[index:]
    return paths
