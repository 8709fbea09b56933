"""The writing end of the log.

Who writes: ``append`` and ``mark`` are called under the commit lock only, so position, checksum and ``last_ts`` have
one writer. ``sync`` runs in the sync thread and ``release`` and ``prepare_spare`` in the maintenance thread, beside
it; ``_sync_lock`` keeps a segment from being closed under a sync, ``_files_lock`` guards the lists of files.
``last_ts``, ``durable_ts`` and ``failure`` may be read by anyone, and only ever move forward.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass
from pathlib import Path

from lowtide.errors import DiskFull, StoreFailed
from lowtide.log.disk import Disk, LogFile, is_full
from lowtide.log.frame import FRAME_HEADER, encode_frame
from lowtide.log.segment import HEADER_SIZE, Header, Scan, encode_header, segment_path

_FIRST_SEGMENT = 256 * 1024
_GROWTH = 4
_SPARES = 2


@dataclass(frozen=True, slots=True)
class ClosedSegment:
    """A segment that is full: ``last_ts`` is its last commit, ``used`` its bytes, ``size`` its file's."""

    path: Path
    last_ts: int
    used: int
    size: int


class LogWriter:
    """Appends groups of commits to preallocated segments, and recycles the segments nobody needs."""

    def __init__(self, disk: Disk, directory: Path, store_id: bytes, segment_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._store_id = store_id
        self._segment_bytes = segment_bytes
        self._sync_lock = threading.Lock()
        self._files_lock = threading.Lock()
        self._closed: list[ClosedSegment] = []
        self._spares: list[tuple[Path, int]] = []
        self._spare_number = 0
        self._file: LogFile | None = None
        self._sequence = 0
        self._salt = 0
        self._crc = 0
        self.position = 0
        self.spare_mark = 0
        """The position past which a spare segment should be made ready."""
        self.last_ts = 0
        self.durable_ts = 0
        self.appended = 0
        """Bytes appended since the store was opened."""
        self.failure: BaseException | None = None

    def start(self, last_ts: int, sequence: int) -> None:
        """Begin a new segment after ``last_ts``, with the first free ``sequence``."""
        self.last_ts = self.durable_ts = last_ts
        self._sequence = sequence - 1
        self._rotate(0)

    def resume(self, tail: Scan, closed: list[ClosedSegment]) -> None:
        """Go on behind the last frame of ``tail``, whose rest is zeros. What a killed owner left unsynced is synced
        first: later frames will say that it was."""
        assert tail.header is not None
        self._closed = closed
        self._sequence, self._salt = tail.header.sequence, tail.header.salt
        self._crc, self.position = tail.crc, tail.end
        self.last_ts = self.durable_ts = tail.last_ts
        self._file = self._disk.open(tail.path)
        self._file.sync()
        self.spare_mark = self._file.size // 2

    @property
    def bytes_kept(self) -> int:
        """The bytes of log that are still kept, spare files aside."""
        with self._files_lock:
            return sum(segment.used for segment in self._closed) + self.position

    def append(self, first_ts: int, payloads: list[bytes], *, durably: bool) -> None:
        """Write one commit per payload, the first with timestamp ``first_ts``; all of them or, on any error, none."""
        if self.failure is not None:
            raise failed(self.failure) from self.failure
        length = FRAME_HEADER * len(payloads)
        for payload in payloads:
            length += len(payload)
        file = self._file
        if file is None or self.position + length > file.size:
            file = self._rotate(length)
        frames, ts, crc = [], first_ts - 1, self._crc
        for payload in payloads:
            ts += 1
            frame, crc = encode_frame(ts, self.durable_ts, crc, self._salt, payload)
            frames.append(frame)
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        synced = self.durable_ts == self.last_ts
        try:
            if durably and synced:
                file.write_durably(self.position, data)
            else:
                file.write(self.position, data)
                if durably:
                    file.sync()
            self._crc = crc
            self.position += length
            self.appended += length
            self.last_ts = ts
            if durably:
                self.durable_ts = ts
        except BaseException as error:
            if self.last_ts != ts:
                self._erase(file, length, error)
            if isinstance(error, OSError):
                self.failure = error
                raise failed(error) from error
            raise

    def _erase(self, file: LogFile, length: int, cause: BaseException) -> None:
        """Take back what a failed append may have written, so that it cannot come back after a restart."""
        try:
            file.write(self.position, bytes(length))
        except OSError:
            self.failure = cause

    def sync(self) -> None:
        """Bring all that was appended so far to disk. A failure poisons the store."""
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
        """Note in the log itself that all of it is on disk, so that later damage to its end is seen as damage."""
        self.sync()
        file = self._file
        if file is None or self.position + FRAME_HEADER > file.size:
            return
        frame, crc = encode_frame(self.last_ts, self.durable_ts, self._crc, self._salt, b"")
        file.write_durably(self.position, frame)
        self._crc = crc
        self.position += len(frame)

    def _rotate(self, length: int) -> LogFile:
        """Switch to a fresh segment that has room for ``length`` bytes of frames."""
        self.sync()
        header = Header(self._store_id, self._sequence + 1, self.last_ts + 1, secrets.randbits(32))
        path = segment_path(self._directory, header.sequence)
        try:
            spare, file = self._take_spare(length + HEADER_SIZE)
            file.write_durably(0, encode_header(header))
            self._disk.rename(spare, path)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            if is_full(error):
                raise DiskFull(f"no room for a log segment in {self._directory}; the commit changed nothing") from error
            self.failure = error
            raise failed(error) from error
        with self._sync_lock:
            if self._file is not None:
                old = segment_path(self._directory, self._sequence)
                with self._files_lock:
                    self._closed.append(ClosedSegment(old, self.last_ts, self.position, self._file.size))
                self._file.close()
            self._file = file
            self._sequence, self._salt = header.sequence, header.salt
            self._crc, self.position = header.salt, HEADER_SIZE
            self.spare_mark = file.size // 2
        return file

    def _take_spare(self, length: int) -> tuple[Path, LogFile]:
        with self._files_lock:
            for index, (path, size) in enumerate(self._spares):
                if size >= length:
                    del self._spares[index]
                    return path, self._disk.open(path)
        return self._create_spare(max(length, self._next_size()))

    def _create_spare(self, size: int) -> tuple[Path, LogFile]:
        path = self._spare_path()
        return path, self._disk.create(path, size)

    def _spare_path(self) -> Path:
        with self._files_lock:
            self._spare_number += 1
            return self._directory / f"spare-{self._spare_number}.tmp"

    def _next_size(self) -> int:
        """Segments start small, so that a small store is small, and grow to the configured size."""
        current = self._file.size * _GROWTH if self._file is not None else _FIRST_SEGMENT
        return min(self._segment_bytes, max(current, _FIRST_SEGMENT))

    def prepare_spare(self) -> None:
        """Make a segment ready before it is needed, so that no commit waits for it. Failure is not an error yet."""
        if self.position < self.spare_mark or self.failure is not None:
            return
        self.spare_mark = 1 << 62
        with self._files_lock:
            if self._spares:
                return
        try:
            size = self._next_size()
            path, file = self._create_spare(size)
        except OSError:
            return
        file.close()
        with self._files_lock:
            self._spares.append((path, size))

    def release(self, boundary: int) -> None:
        """Recycle every full segment whose commits all lie at or below ``boundary``."""
        with self._files_lock:
            done = [segment for segment in self._closed if segment.last_ts <= boundary]
            self._closed = [segment for segment in self._closed if segment.last_ts > boundary]
        if not done:
            return
        spares: list[tuple[Path, int]] = []
        for segment in done:
            if len(self._spares) + len(spares) < _SPARES and segment.size == self._segment_bytes:
                spares.append((self._spare_path(), segment.size))
                self._disk.rename(segment.path, spares[-1][0])
            else:
                self._disk.remove(segment.path)
        # Before a spare gets a new header: else a power loss could bring that header back under the old name.
        self._disk.sync_directory(self._directory)
        with self._files_lock:
            self._spares += spares

    def close(self) -> None:
        """Give the file back; what should be on disk must have been synced before."""
        with self._sync_lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def failed(cause: BaseException) -> StoreFailed:
    """The error for a log that can no longer be trusted with commits."""
    return StoreFailed(
        f"the log could not be written or synced ({cause}); nothing more is accepted, since what the disk holds "
        "is unknown: mend the disk, close the store and open it again"
    )
