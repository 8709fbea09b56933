"""Following the log from any process: commits in order, as they are appended.

The cursor maps the segment it is in, and moves on when the next commit is in the next segment. It takes no lock and
retains nothing: a segment may be released and recycled while it is mapped. A frame is copied before it is checked, and
the checksum is salted by the segment, so a copy that passes is a commit of this log, whatever has happened to the file
since. If the next commit is gone, the cursor raises an error; it never skips.

One thread at a time may use a cursor.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from lowtide.engine.log.frame import FRAME_HEADER, Commit, decode, decode_payloads, frame_at, frames_after, peek
from lowtide.engine.log.segment import HEADER_SIZE, Header, decode_header, segment_path, segment_paths, sequence_of
from lowtide.errors import CorruptionError, Error
from lowtide.system.messages import UNDECODABLE

_Result = TypeVar("_Result")


class Released(Error):
    """The next commit is no longer in the log; ``kept`` is the first commit that is."""

    def __init__(self, wanted: int, kept: int) -> None:
        self.wanted = wanted
        self.kept = kept
        super().__init__(f"commit {wanted} is no longer in the log, which begins with commit {kept}")


class LogPosition(NamedTuple):
    """The end of a commit: the number of its segment, the offset after its frame, and its checksum."""

    sequence: int
    offset: int
    crc: int


class LogCursor:
    """A position in the log, after commit ``position``, which ends at ``place`` if that is known."""

    def __init__(self, directory: Path, store_id: bytes, position: int, place: LogPosition | None = None) -> None:
        self._directory = directory
        self._store_id = store_id
        self.position = position
        self.bytes = 0
        """Bytes of frames read so far."""
        self._path = directory
        self._header: Header | None = None
        self._map: mmap.mmap | None = None
        self._offset = 0
        self._crc = 0
        self._ts = 0
        if place is not None:
            self._open_at(place)

    @property
    def place(self) -> LogPosition | None:
        """Where ``position`` ends, if that is known."""
        if self._header is None or self._ts != self.position:
            return None
        return LogPosition(self._header.sequence, self._offset, self._crc)

    def read(self, upto: int) -> Iterator[Commit]:
        """The commits after ``position`` up to ``upto``, which must have been published. Moves ``position``."""
        while self.position < upto:
            commit = self._next()
            if commit is None:
                self._open(self.position + 1)
            elif commit.ts > self.position:
                self.position = commit.ts
                yield commit

    def read_many(self, upto: int) -> Iterator[list[Commit]]:
        """The same as ``read``, in batches, which costs less for each commit. Moves ``position``."""
        while self.position < upto:
            commits = self._next_many(upto) if upto > self.position + 1 else []
            if commits:
                self.position = commits[-1].ts
                yield commits
                continue
            commit = self._next()
            if commit is None:
                self._open(self.position + 1)
            elif commit.ts > self.position:
                self.position = commit.ts
                yield [commit]

    def _next_many(self, upto: int) -> list[Commit]:
        """The next adjacent commits of this segment; empty if ``_next`` must be called."""
        if self._map is None or self._header is None or self._ts != self.position:
            return []
        payloads, offset, crc = frames_after(
            self._map, offset=self._offset, salt=self._header.salt, previous=self._crc, ts=self._ts, upto=upto
        )
        try:
            commits = decode_payloads(payloads, self._ts + 1)
        except UNDECODABLE:
            return []
        self.bytes += offset - self._offset
        self._offset, self._crc, self._ts = offset, crc, self._ts + len(commits)
        return commits

    def _next(self) -> Commit | None:
        """The next commit of this segment; None if there is none. Skips markers."""
        if self._map is None or self._header is None:
            return None
        while (seen := peek(self._map, self._offset)) is not None:
            length, crc, ts = seen
            if ts <= self.position and ts == self._ts + (length > FRAME_HEADER):
                # A frame before the position is not checked itself, but the next frame is, and it chains to this one.
                self._offset += length
                self._crc, self._ts = crc, ts
                continue
            frame = frame_at(self._map[self._offset : self._offset + length], 0, self._header.salt)
            if frame is None or frame.previous != self._crc or frame.ts != self._ts + 1 or not frame.payload:
                return None
            # Before anything moves: the next attempt must not skip a commit that cannot be decoded.
            commit = decode(self._path, frame, self._offset)
            self._offset += length
            self._crc, self._ts = frame.crc, frame.ts
            self.bytes += length
            return commit
        return None

    def _open_at(self, place: LogPosition) -> None:
        """Go to ``place``, if its segment is still there."""
        path = segment_path(self._directory, place.sequence)
        found = map_segment(path)
        if found is None:
            return
        header, mapped = found
        if header.store_id == self._store_id and header.sequence == place.sequence:
            self._path, self._header, self._map = path, header, mapped
            self._offset, self._crc, self._ts = place.offset, place.crc, self.position
        else:
            mapped.close()

    def _open(self, wanted: int) -> None:
        """Go to the segment that should have commit ``wanted``."""
        while True:
            first, stale = wanted, False
            for path in reversed(segment_paths(self._directory)):
                found = map_segment(path)
                if found is None:
                    stale = True
                    continue
                header, mapped = found
                if header.first_ts > wanted:
                    first = header.first_ts
                    mapped.close()
                    continue
                if header.store_id != self._store_id:
                    mapped.close()
                    raise CorruptionError(path, "is not a segment of this store's log")
                if header == self._header:
                    mapped.close()
                    if stale:
                        break
                    raise CorruptionError(path, f"commit {wanted} is missing from the log")
                self.close()
                self._path, self._header, self._map = path, header, mapped
                self._offset, self._crc, self._ts = HEADER_SIZE, header.salt, header.first_ts - 1
                return
            if not stale:  # otherwise the log has grown since it was listed
                raise Released(wanted, first)

    def pause(self) -> None:
        """Unmap the segment if it was deleted meanwhile; otherwise keep the position in it."""
        if self._map is not None and not self._path.exists():
            self.close()

    def close(self) -> None:
        """Unmap the segment. The cursor can be used again."""
        if self._map is not None:
            self._map.close()
        self._map = self._header = None


def first_kept(directory: Path) -> int:
    """The first commit that the log still has, or will have."""
    while True:
        paths = segment_paths(directory)
        for path in paths:
            header = _read(path, lambda descriptor, header: header)
            if header is not None:
                return header.first_ts
        if not paths:
            raise CorruptionError(directory, "the log has no segments")


def map_segment(path: Path) -> tuple[Header, mmap.mmap] | None:
    """Map a segment and read its header; None if it was released since it was listed."""
    return _read(path, lambda descriptor, header: (header, mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)))


def _read(path: Path, look: Callable[[int, Header], _Result]) -> _Result | None:
    """Call ``look`` with a segment's file and header, and return its result; None if the segment was released since it
    was listed.

    Between opening and reading, the file may have become another segment. Its header and its name then show that.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        header = decode_header(os.pread(descriptor, HEADER_SIZE, 0))  # point: cursor.header
        if header is not None and header.sequence == sequence_of(path):
            return look(descriptor, header)
        if _still_names(path, descriptor):
            raise CorruptionError(path, "its header is damaged or belongs to another segment")
        return None
    finally:
        os.close(descriptor)


def _still_names(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
