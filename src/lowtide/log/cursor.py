"""Following the log, from any process: commits in order, as they come.

The cursor maps the segment it stands in and goes on to the next when that has the next commit. It takes no lock and
holds nothing back: a segment may be released and recycled under it. A frame is copied before it is checked, and the
checksum is salted by the segment, so a copy that passes is a commit of this log, whatever the file has become since.
Where the next commit is no longer there, the cursor says so and never skips.

Used by one thread at a time.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lowtide.errors import CorruptionError, Error
from lowtide.log.frame import FRAME_HEADER, Commit, decode, frame_at, peek
from lowtide.log.segment import HEADER_SIZE, Header, decode_header, segment_path, segment_paths, sequence_of


class Released(Error):
    """The next commit is no longer in the log; ``kept`` is the first that is."""

    def __init__(self, wanted: int, kept: int) -> None:
        self.wanted = wanted
        self.kept = kept
        super().__init__(f"commit {wanted} is no longer in the log, which begins with commit {kept}")


class Place(NamedTuple):
    """Where a commit ends: the segment's number, the offset behind its frame, and its checksum."""

    sequence: int
    offset: int
    crc: int


class LogCursor:
    """Stands behind commit ``position``, which ends at ``place`` if that is known."""

    def __init__(self, directory: Path, store_id: bytes, position: int, place: Place | None = None) -> None:
        self._directory = directory
        self._store_id = store_id
        self.position = position
        self.bytes = 0
        """Bytes of frames that were read."""
        self._path = directory
        self._header: Header | None = None
        self._map: mmap.mmap | None = None
        self._offset = 0
        self._crc = 0
        self._ts = 0
        if place is not None:
            self._open_at(place)

    def read(self, upto: int) -> Iterator[Commit]:
        """The commits after ``position`` up to ``upto``, which must have been published. ``position`` follows."""
        while self.position < upto:
            commit = self._next()
            if commit is None:
                self._open(self.position + 1)
            elif commit.ts > self.position:
                self.position = commit.ts
                yield commit

    def _next(self) -> Commit | None:
        """The next commit of this segment; None if it has no further one. A marker is passed over."""
        if self._map is None or self._header is None:
            return None
        while (seen := peek(self._map, self._offset)) is not None:
            length, crc, ts = seen
            if ts <= self.position and ts == self._ts + (length > FRAME_HEADER):
                # On the way to where the cursor stands: not checked, but the frame after it is, and chains to it.
                self._offset += length
                self._crc, self._ts = crc, ts
                continue
            frame = frame_at(self._map[self._offset : self._offset + length], 0, self._header.salt)
            if frame is None or frame.previous != self._crc or frame.ts != self._ts + 1 or not frame.payload:
                return None
            self._offset += length
            self._crc, self._ts = frame.crc, frame.ts
            self.bytes += length
            return decode(self._path, frame, self._offset - length)
        return None

    def _open_at(self, place: Place) -> None:
        """Go to ``place``, if its segment is still there."""
        path = segment_path(self._directory, place.sequence)
        found = _map(path)
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
        first = wanted
        for path in reversed(segment_paths(self._directory)):
            found = _map(path)
            if found is None:
                continue  # it was recycled since it was listed
            header, mapped = found
            if header.store_id != self._store_id or header.sequence != sequence_of(path):
                mapped.close()
                raise CorruptionError(path, "is not a segment of this store's log")
            if header.first_ts > wanted:
                first = header.first_ts
                mapped.close()
                continue
            if self._header is not None and header == self._header:
                mapped.close()
                raise CorruptionError(path, f"commit {wanted} is missing from the log")
            self.close()
            self._path, self._header, self._map = path, header, mapped
            self._offset, self._crc, self._ts = HEADER_SIZE, header.salt, header.first_ts - 1
            return
        raise Released(wanted, first)

    def pause(self) -> None:
        """Let go of a segment that was deleted meanwhile; keep the place in one that is still there."""
        if self._map is not None and not self._path.exists():
            self.close()

    def close(self) -> None:
        """Let go of the segment; the cursor can be used again."""
        if self._map is not None:
            self._map.close()
        self._map = self._header = None


def first_kept(directory: Path) -> int:
    """The first commit that the log still has; one past the last if it has none."""
    for path in segment_paths(directory):
        found = _map(path)
        if found is not None:
            found[1].close()
            return found[0].first_ts
    return 0


def _map(path: Path) -> tuple[Header, mmap.mmap] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        header = decode_header(os.pread(descriptor, HEADER_SIZE, 0))
        if header is None or size < HEADER_SIZE:
            return None
        return header, mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)
