"""The writing end of the log.

Who writes: ``append`` and ``mark`` are called only under the commit lock, so position, checksum and ``last_ts`` have
one writer. ``sync`` runs in the sync thread at the same time; ``_sync_lock`` keeps a segment from being closed during a
sync. Any thread may read ``last_ts``, ``durable_ts`` and ``failure``; they only move forward.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from lowtide.engine.log.cursor import LogPosition
from lowtide.engine.log.files import ClosedSegment, SegmentFiles
from lowtide.engine.log.frame import FRAME_HEADER, encode_frame
from lowtide.engine.log.segment import HEADER_SIZE, Header, Scan, encode_header, segment_path
from lowtide.errors import DiskFull, StoreFailed
from lowtide.system.clock import SystemClock
from lowtide.system.disk import Disk, LogFile, is_full

_FIRST_SEGMENT = 256 * 1024
_GROWTH = 4
_NEVER = 1 << 62


class LogWriter:
    """Appends groups of commits to preallocated segments."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        store_id: bytes,
        segment_bytes: int,
        time: Callable[[], float] | None = None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._store_id = store_id
        self._segment_bytes = segment_bytes
        self._time = time or SystemClock().time
        self._files = SegmentFiles(disk, directory, segment_bytes)
        self._sync_lock = threading.Lock()
        self._file: LogFile | None = None
        self._path = directory
        self._sequence = 0
        self._salt = 0
        self._crc = 0
        self._size = 0
        self.position = 0
        self.spare_mark = 0
        """The position past which a spare segment should be prepared."""
        self.last_ts = 0
        self.durable_ts = 0
        self.appended = 0
        """Bytes appended since the store was opened."""
        self.failure: BaseException | None = None
        self._outgoing: LogFile | None = None
        self._retiring: ClosedSegment | None = None
        """The file of the segment before the last switch, and its record, until ``_retire`` has kept it. Written under
        the commit lock."""

    def start(self, last_ts: int, sequence: int) -> None:
        """Begin a new segment after ``last_ts``, with the first free ``sequence``."""
        self.last_ts = self.durable_ts = last_ts
        self._sequence = sequence - 1
        self._rotate(0)

    def resume(self, tail: Scan, closed: list[ClosedSegment]) -> None:
        """Continue after the last frame of ``tail``; the rest of it is zeros. What a killed owner left unsynced is
        synced first, because later frames will record that it is on disk."""
        assert tail.header is not None
        for segment in closed:
            self._files.retire(segment)
        file = self._disk.open(tail.path)
        file.sync()
        self._switch(
            file=file, size=file.size, path=tail.path, header=tail.header, crc=tail.crc, position=tail.end, closed=None
        )
        self.last_ts = self.durable_ts = tail.last_ts

    @property
    def place(self) -> LogPosition:
        """Where the last commit ends. Called under the commit lock."""
        return LogPosition(self._sequence, self.position, self._crc)

    @property
    def bytes_kept(self) -> int:
        """The bytes of log that are still kept, without spare files."""
        return self._files.bytes_used + self.position

    def append(self, ts: int, payload: bytes, durably: bool) -> None:
        """Write one commit with timestamp ``ts``: all of it or, on any error, nothing."""
        if self.failure is not None or ts != self.last_ts + 1:
            raise self._refusal(ts)
        length = FRAME_HEADER + len(payload)
        if self.position + length > self._size:
            self._rotate(length)
        data, crc = encode_frame(ts, self.durable_ts, self._crc, self._salt, payload)
        if durably:
            self._write(data, crc, ts, True)
            return
        # The same as ``_write``, without a call.
        file, position = self._file, self.position
        assert file is not None
        try:
            file.write(position, data)
            # No call between these: an interrupt comes before all of them or after.
            self._crc, self.position, self.appended, self.last_ts = crc, position + length, self.appended + length, ts
        except BaseException as error:
            self._undo(file, position, length, ts, error)
            raise

    def append_group(self, first_ts: int, payloads: list[bytes], durably: bool) -> None:
        """Write one commit per payload, the first with timestamp ``first_ts``, with one system call: all or none."""
        if self.failure is not None or first_ts != self.last_ts + 1:
            raise self._refusal(first_ts)
        length = sum(map(len, payloads)) + FRAME_HEADER * len(payloads)
        if self.position + length > self._size:
            self._rotate(length)
        frames, crc, ts = [], self._crc, self.last_ts
        for payload in payloads:
            ts += 1
            frame, crc = encode_frame(ts, self.durable_ts, crc, self._salt, payload)
            frames.append(frame)
        self._write(b"".join(frames), crc, ts, durably)

    def _write(self, data: bytes, crc: int, ts: int, durably: bool) -> None:
        """Write the frames ``data``, which end with commit ``ts`` and checksum ``crc``."""
        file, position, last_ts = self._file, self.position, self.last_ts
        assert file is not None
        end, appended = position + len(data), self.appended + len(data)
        try:
            if not durably:
                file.write(position, data)
            elif self.durable_ts == last_ts:
                file.write_durably(position, data)
                self.durable_ts = ts
            else:
                file.write(position, data)
                file.sync()
                self.durable_ts = ts
            # No call between these: an interrupt comes before all of them or after.
            self._crc, self.position, self.appended, self.last_ts = crc, end, appended, ts
        except BaseException as error:
            self._undo(file, position, len(data), ts, error)
            raise

    def _undo(self, file: LogFile, position: int, length: int, ts: int, error: BaseException) -> None:
        """After an error, erase the frames that were to end with commit ``ts``, unless the log has them. An error of
        the disk is raised as one of the store."""
        if self.last_ts != ts:
            self.durable_ts = min(self.durable_ts, self.last_ts)
            self._erase(file, position, length, error)
        if isinstance(error, OSError):
            self.failure = error
            raise failed(error) from error

    def _refusal(self, first_ts: int) -> StoreFailed:
        """The error for a log that cannot be appended to. A gap in the timestamps poisons it: the log has a commit that
        could not be published."""
        if self.failure is None:
            self.failure = RuntimeError(f"commit {first_ts} does not follow commit {self.last_ts} of the log")
        return failed(self.failure)

    def _erase(self, file: LogFile, position: int, length: int, cause: BaseException) -> None:
        """Erase what a failed append may have written, so that it cannot reappear after a restart."""
        try:
            file.write(position, bytes(length))
            file.sync()
        except OSError:
            self.failure = cause

    def sync(self) -> None:
        """Sync everything appended so far to disk. After a failure the store accepts no more commits."""
        with self._sync_lock:
            if self.failure is not None:
                raise failed(self.failure) from self.failure
            target, file = self.last_ts, self._file
            if file is None or target <= self.durable_ts:
                return
            try:
                file.sync()
            except OSError as error:
                self.failure = error
                raise failed(error) from error
            self.durable_ts = max(self.durable_ts, target)

    def mark(self) -> None:
        """Record in the log that all of it is on disk, so that later damage to its end is recognized as damage."""
        self.sync()
        file = self._file
        if file is None or self.position + FRAME_HEADER > self._size:
            return
        frame, crc = encode_frame(self.last_ts, self.durable_ts, self._crc, self._salt, b"")
        file.write_durably(self.position, frame)
        self._crc = crc
        self.position += len(frame)

    def _rotate(self, length: int) -> None:
        """Switch to a new segment that has room for ``length`` bytes of frames; on any error stay in the old one.

        The header is on disk before the file gets its name. If the switch is interrupted after that, the name is
        removed again: a commit into the old segment would contradict it.
        """
        self._retire()  # an interrupt may have left it undone
        self.sync()
        header = Header(self._store_id, self._sequence + 1, self.last_ts + 1, int.from_bytes(os.urandom(4)))
        path = segment_path(self._directory, header.sequence)
        closed = ClosedSegment(self._path, self.last_ts, self.position, self._size, self._time())
        taken: list[Path] = []
        file: LogFile | None = None
        try:
            spare, file = self._files.take(length + HEADER_SIZE, self._next_size())
            taken += [spare, path]
            file.write_durably(0, encode_header(header))
            self._disk.rename(spare, path)
            self._disk.sync_directory(self._directory)
            with self._sync_lock:
                self._switch(
                    file=file,
                    size=file.size,
                    path=path,
                    header=header,
                    crc=header.salt,
                    position=HEADER_SIZE,
                    closed=closed,
                )
        except BaseException as error:
            if file is not None and self._file is file:
                self._retire()
                raise
            if file is not None:
                file.close()
            self._take_back(taken, error)
            if not isinstance(error, OSError):
                raise
            if is_full(error):
                raise DiskFull(
                    f"no room for a log segment in {self._directory}: {error}; nothing was committed: free some space"
                ) from error
            self.failure = error
            raise failed(error) from error
        self._retire()

    def _retire(self) -> None:
        """Keep the segment that was written before the last switch, and close its file, but not during a sync. After an
        interrupt the next call does the rest. Called under the commit lock."""
        if self._outgoing is not None:
            if self._retiring is not None:
                self._files.retire(self._retiring)
                self._retiring = None
            with self._sync_lock:
                file, self._outgoing = self._outgoing, None
                file.close()

    def _take_back(self, paths: list[Path], cause: BaseException) -> None:
        try:
            for path in paths:
                self._disk.remove(path)
        except OSError:
            self.failure = cause

    def _switch(
        self,
        file: LogFile,
        size: int,
        path: Path,
        header: Header,
        crc: int,
        position: int,
        closed: ClosedSegment | None,
    ) -> None:
        # No call between these: an interrupt comes before all of them or after.
        self._path, self._size = path, size
        self._sequence, self._salt = header.sequence, header.salt
        self._crc, self.position = crc, position
        self.spare_mark = size // 2
        self._outgoing, self._retiring = self._file, closed
        self._file = file

    def _next_size(self) -> int:
        """Segments start small, so that a small store is small, and grow to the configured size."""
        return min(self._segment_bytes, max(self._size * _GROWTH, _FIRST_SEGMENT))

    def prepare_spare(self) -> None:
        """Prepare a segment before it is needed. Called in the background."""
        if self.position >= self.spare_mark and self.failure is None:
            self.spare_mark = _NEVER
            self._files.prepare(self._next_size())

    def release(self, boundary: int) -> None:
        """Release every full segment whose commits are all at or below ``boundary``."""
        self._files.release(boundary)

    @property
    def full_segments(self) -> list[ClosedSegment]:
        """The full segments that are kept, oldest first."""
        return self._files.closed

    def segments(self) -> list[ClosedSegment]:
        """The segments that are kept, oldest first, including the one being written. Called under the commit lock."""
        self._retire()
        return [*self._files.closed, ClosedSegment(self._path, self.last_ts, self.position, self._size, self._time())]

    def kept(self) -> AbstractContextManager[None]:
        """Keep all segments until the block ends, so that their files can be read. Commits continue."""
        return self._files.kept()

    def drop_spares(self) -> int:
        """Remove the spare files; return their bytes."""
        return self._files.drop_spares()

    def close(self) -> None:
        """Close the file, which the caller must have synced. Waits for readers of the files, because the next owner may
        change them."""
        with self._files.kept(), self._sync_lock:  # point: close.log
            files = (self._file, self._outgoing)
            self._file = self._outgoing = None
            self._size = 0
            for file in files:
                if file is not None:
                    with contextlib.suppress(OSError):
                        file.close()


def failed(cause: BaseException) -> StoreFailed:
    """The error for a log that can take no more commits."""
    return StoreFailed(
        f"the log could not be written or synced ({cause}); the store accepts no more commits, since what the disk "
        "holds is unknown: fix the disk, close the store and open it again"
    )
