"""The interface between the log and the disk.

All file operations of the log go through :class:`Disk` and :class:`LogFile`, so that tests can lose, tear and refuse
writes. A real disk is assumed to keep every synced write. Of an unsynced write any part may survive.
"""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from typing import Protocol

_ZEROS = bytes(1 << 20)
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM})


def is_full(error: OSError) -> bool:
    """Whether the error means that there is no space, on the disk or to map a file, rather than a failing disk."""
    return error.errno in _NO_ROOM


class LogFile(Protocol):
    """One preallocated file of the log."""

    size: int

    def read(self, offset: int, length: int) -> bytes: ...

    def write(self, offset: int, data: bytes) -> None:
        """Write ``data`` to the operating system: it survives this process, but not yet a power loss."""
        ...

    def write_durably(self, offset: int, data: bytes) -> None:
        """Write ``data`` and return when it, and only it, is on disk."""
        ...

    def sync(self) -> None:
        """Return when everything written so far is on disk."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """The files of a log directory."""

    def create(self, path: Path, size: int) -> LogFile:
        """Create a file of ``size`` zero bytes, allocated on disk, so that later writes change no metadata."""
        ...

    def open(self, path: Path) -> LogFile: ...

    def rename(self, source: Path, target: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def sync_directory(self, path: Path) -> None:
        """Return when the names in ``path`` are on disk."""
        ...


class RealDisk:
    """The operating system's files."""

    def create(self, path: Path, size: int) -> LogFile:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            remaining = size
            while remaining:
                remaining -= os.write(descriptor, _ZEROS[:remaining])
            os.fsync(descriptor)
            return RealLogFile(descriptor, size)
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise

    def open(self, path: Path) -> LogFile:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return RealLogFile(descriptor, os.fstat(descriptor).st_size)
        except BaseException:
            os.close(descriptor)
            raise

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class RealLogFile:
    """A mapped log file. An unsynced write is a copy in memory that keeps the GIL, so committing threads do not queue
    behind each other's system calls."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = size
        # An empty file cannot be mapped; nothing can be written to it either.
        self._map = mmap.mmap(descriptor, size) if size else mmap.mmap(-1, 1)

    def read(self, offset: int, length: int) -> bytes:
        return self._map[offset : min(offset + length, self.size)]

    def write(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        if end > self.size:
            raise OSError(errno.EFBIG, "write beyond the preallocated end of a log file")
        self._map[offset:end] = data

    def write_durably(self, offset: int, data: bytes) -> None:
        written = os.pwritev(self._descriptor, [data], offset, os.RWF_DSYNC)
        while written < len(data):  # one call writes at most 2 GiB
            more = os.pwritev(self._descriptor, [memoryview(data)[written:]], offset + written, os.RWF_DSYNC)
            if more == 0:
                raise OSError(errno.EIO, f"wrote {written} of {len(data)} bytes")
            written += more

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        self._map.close()
        os.close(self._descriptor)
