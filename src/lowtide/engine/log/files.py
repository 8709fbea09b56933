"""The log's files other than the one being written: full segments that are still needed, and spares.

A segment that is no longer needed is renamed to a spare. When the log continues in a spare, the spare gets a new header
and a new name. Its blocks are allocated already, so a commit into it changes no metadata.

Who writes: the writer calls ``take`` and ``retire`` under the commit lock, the background calls ``release`` and
``prepare``. ``_lock`` guards the lists and is never held during a file operation. ``_releasing`` is held by a release,
and by a reader that needs the files to stay. If it is taken, the release is left to the next checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lowtide.system.disk import Disk, LogFile

logger = logging.getLogger("lowtide")

_SPARES = 2


@dataclass(frozen=True, slots=True)
class ClosedSegment:
    """A full segment: ``last_ts`` is its last commit, ``used`` the bytes in use, ``size`` the size of its file,
    ``closed`` the time at which it became full."""

    path: Path
    last_ts: int
    used: int
    size: int
    closed: float


class SegmentFiles:
    """Full segments and spares of one log directory."""

    def __init__(self, disk: Disk, directory: Path, segment_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._releasing = threading.Lock()
        self._closed: list[ClosedSegment] = []
        self._spares: list[tuple[Path, int]] = []
        self._unsynced: list[tuple[Path, int]] = []
        """Spares whose new name may not be on disk yet."""
        self._spare_number = 0

    @property
    def bytes_used(self) -> int:
        """The bytes of the full segments that are still kept."""
        with self._lock:
            return sum(segment.used for segment in self._closed)

    @property
    def closed(self) -> list[ClosedSegment]:
        """The full segments that are kept, oldest first."""
        with self._lock:
            return list(self._closed)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep all segments until the block ends."""
        with self._releasing:
            yield

    def drop_spares(self) -> int:
        """Remove the spare files; return their bytes. A file that cannot be removed stays until the store is opened
        again."""
        with self._lock:
            spares, self._spares = self._spares, []
        removed = 0
        for path, size in spares:
            try:
                self._disk.remove(path)
                removed += size
            except OSError as error:
                logger.warning("a spare file of the log could not be removed: %s", error)
        return removed

    def retire(self, segment: ClosedSegment) -> None:
        """Keep a full segment until it is released. A second call does nothing."""
        with self._lock:
            if segment not in self._closed[-1:]:
                self._closed.append(segment)

    def take(self, length: int, size: int) -> tuple[Path, LogFile]:
        """Return a spare of at least ``length`` bytes, or create one of ``size`` bytes, or more if that is too
        small."""
        with self._lock:
            fitting = [spare for spare in self._spares if spare[1] >= length]
            if fitting:
                self._spares.remove(fitting[0])
        if fitting:
            return fitting[0][0], self._disk.open(fitting[0][0])
        path = self._spare_path()
        return path, self._disk.create(path, max(length, size))

    def prepare(self, size: int) -> None:
        """Create a spare before it is needed, so that no commit waits for it. A failure here is not an error yet."""
        with self._lock:
            if self._spares:
                return
        path = self._spare_path()
        try:
            self._disk.create(path, size).close()
        except OSError as error:
            logger.info("no spare log segment could be prepared: %s", error)
            return
        with self._lock:
            self._spares.append((path, size))

    def release(self, boundary: int) -> None:
        """Recycle or remove every full segment whose commits are all at or below ``boundary``. What fails is left for
        the next call."""
        if self._releasing.locked():
            return
        with self._releasing:
            self._release(boundary)

    def _release(self, boundary: int) -> None:
        with self._lock:
            done = [segment for segment in self._closed if segment.last_ts <= boundary]
            room = _SPARES - len(self._spares)
        unsynced = self._unsynced
        try:
            for segment in done:
                if len(unsynced) < room and segment.size == self._segment_bytes:
                    spare = self._spare_path()
                    with contextlib.suppress(FileNotFoundError):  # an interrupted release did this already
                        self._disk.rename(segment.path, spare)
                        unsynced.append((spare, segment.size))
                else:
                    self._disk.remove(segment.path)
                with self._lock:
                    self._closed.remove(segment)
            if done or unsynced:
                # Before a spare gets a new header: a power loss could otherwise show that header under the old name.
                self._disk.sync_directory(self._directory)
        except OSError as error:
            logger.warning("log segments could not be released, the next checkpoint will retry: %s", error)
            return
        with self._lock:
            self._spares += unsynced
            self._unsynced = []

    def _spare_path(self) -> Path:
        with self._lock:
            self._spare_number += 1
            return self._directory / f"spare-{self._spare_number}.tmp"
