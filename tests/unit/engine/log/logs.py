"""Makes logs without a store, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lowtide.engine.log.frame import Commit, encode_frame, encode_payload
from lowtide.engine.log.reader import read_commits
from lowtide.engine.log.segment import Header, Scan, encode_header, scan_segment, segment_paths
from lowtide.engine.log.writer import LogWriter
from lowtide.engine.types import Writes
from lowtide.system.disk import Disk, RealDisk

STORE = b"one store's own!"
OTHER_STORE = b"another store's!"
SMALL = 4096


def payload_of(value: bytes, time: float = 1.0) -> bytes:
    """The payload of a commit that sets one key."""
    return encode_payload(time, {b"\x00\x00\x00\x01key": value}, None, [b"old"], False)


def start_log(directory: Path, disk: Disk | None = None, segment_bytes: int = SMALL) -> LogWriter:
    """A new log in ``directory``, which may exist."""
    directory.mkdir(exist_ok=True)
    log = LogWriter(disk or RealDisk(), directory, STORE, segment_bytes)
    log.start(0, 1)
    return log


def append(log: LogWriter, *values: bytes, durably: bool = False) -> None:
    """Append one commit per value, all in one group."""
    log.append_group(log.last_ts + 1, [payload_of(value) for value in values], durably)


def writes_of(value: bytes) -> Writes:
    return {b"\x00\x00\x00\x01key": value}


def values_of(commits: Sequence[Commit]) -> list[bytes | None]:
    return [value for commit in commits for value in commit.writes.values()]


def read_values(directory: Path, upto: int, after: int = 0) -> list[bytes | None]:
    """The values of the commits in ``after < ts <= upto``, as any process would read them from the files."""
    return values_of(list(read_commits(directory, STORE, after, upto)))


def scan_all(directory: Path) -> list[Scan]:
    return [scan_segment(path, path.read_bytes()) for path in segment_paths(directory)]


def segment_bytes_of(
    values: Sequence[bytes],
    *,
    store: bytes = STORE,
    sequence: int = 1,
    first_ts: int = 1,
    salt: int = 0x5A17,
    durable: int = 0,
    size: int = 1024,
) -> bytes:
    """A segment with one commit per value, filled up with zeros; every frame says that ``durable`` was on disk."""
    data = encode_header(Header(store, sequence, first_ts, salt))
    crc = salt
    for ts, value in enumerate(values, first_ts):
        frame, crc = encode_frame(ts, durable, crc, salt, payload_of(value))
        data += frame
    return data.ljust(size, b"\x00")
