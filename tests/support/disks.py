"""Disks that fail, and disks that record: test implementations of ``lowtide.system.disk``.

:class:`FaultyDisk` refuses operations. :class:`RecordingDisk` writes real files and records the operations, from which
tests.crash.power computes the states that a power loss could leave behind.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lowtide.system.disk import Disk, LogFile, RealDisk
from tests.support.patience import PATIENCE

WRITES = ("write", "write_durably")
FILE_OPERATIONS = (*WRITES, "sync")
DIRECTORY_OPERATIONS = ("create", "open", "rename", "remove", "sync_directory")
OPERATIONS = (*FILE_OPERATIONS, *DIRECTORY_OPERATIONS)


@dataclass(frozen=True, slots=True)
class Fault:
    """The ``nth`` of the named operations fails, or with ``forever`` that one and all after it.

    ``written`` is the share of a failing write's bytes that reach the file anyway. ``error`` is an errno, or an
    exception to raise in the place of an OSError.
    """

    operations: tuple[str, ...]
    nth: int = 1
    error: int | BaseException = errno.EIO
    forever: bool = False
    written: float = 0.0


class FaultyDisk:
    """The inner disk, the real one by default, with ``fail`` and ``heal``."""

    def __init__(self, inner: Disk | None = None) -> None:
        self._inner = inner or RealDisk()
        self._lock = threading.Condition()
        self._fault: Fault | None = None
        self._seen = 0
        self.fired = 0
        """How many operations failed so far."""
        self.counts: Counter[str] = Counter()
        """How often each operation was asked for."""

    def fail(
        self,
        *operations: str,
        nth: int = 1,
        error: int | BaseException = errno.EIO,
        forever: bool = False,
        written: float = 0.0,
    ) -> None:
        assert set(operations) <= set(OPERATIONS), operations
        with self._lock:
            self._fault, self._seen = Fault(operations, nth, error, forever, written), 0

    def heal(self) -> None:
        with self._lock:
            self._fault = None

    def wait_for(self, operation: str, count: int) -> None:
        """Wait until ``operation`` was asked for ``count`` times in all."""
        with self._lock:
            assert self._lock.wait_for(lambda: self.counts[operation] >= count, PATIENCE), self.counts

    def check(self, operation: str) -> Fault | None:
        """The fault that ``operation`` meets now; the caller raises it."""
        with self._lock:
            self.counts[operation] += 1
            self._lock.notify_all()
            fault = self._fault
            if fault is None or operation not in fault.operations:
                return None
            self._seen += 1
            if self._seen != fault.nth and not (fault.forever and self._seen > fault.nth):
                return None
            self.fired += 1
            return fault

    def _pass(self, operation: str) -> None:
        if (fault := self.check(operation)) is not None:
            raise_fault(fault, operation)

    def create(self, path: Path, size: int) -> LogFile:
        self._pass("create")
        return FaultyFile(self, self._inner.create(path, size))

    def open(self, path: Path) -> LogFile:
        self._pass("open")
        return FaultyFile(self, self._inner.open(path))

    def rename(self, source: Path, target: Path) -> None:
        self._pass("rename")
        self._inner.rename(source, target)

    def remove(self, path: Path) -> None:
        self._pass("remove")
        self._inner.remove(path)

    def sync_directory(self, path: Path) -> None:
        self._pass("sync_directory")
        self._inner.sync_directory(path)


def raise_fault(fault: Fault, operation: str) -> None:
    if isinstance(fault.error, BaseException):
        raise fault.error
    raise OSError(fault.error, f"{os.strerror(fault.error)} (injected into {operation})")


class FaultyFile:
    """A log file of a :class:`FaultyDisk`."""

    def __init__(self, disk: FaultyDisk, inner: LogFile) -> None:
        self._disk = disk
        self._inner = inner
        self.size = inner.size

    def read(self, offset: int, length: int) -> bytes:
        return self._inner.read(offset, length)

    def write(self, offset: int, data: bytes) -> None:
        if (fault := self._disk.check("write")) is not None:
            self._inner.write(offset, data[: int(len(data) * fault.written)])
            raise_fault(fault, "write")
        self._inner.write(offset, data)

    def write_durably(self, offset: int, data: bytes) -> None:
        if (fault := self._disk.check("write_durably")) is not None:
            self._inner.write(offset, data[: int(len(data) * fault.written)])
            raise_fault(fault, "write_durably")
        self._inner.write_durably(offset, data)

    def sync(self) -> None:
        if (fault := self._disk.check("sync")) is not None:
            raise_fault(fault, "sync")
        self._inner.sync()

    def close(self) -> None:
        self._inner.close()


# What a recording disk was asked to do. A file is known by its number, since its name may change.


@dataclass(frozen=True, slots=True)
class Created:
    file: int
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Wrote:
    file: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Synced:
    """All of the file, or with a range only the sectors that the range touches."""

    file: int
    offset: int = 0
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Renamed:
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Removed:
    name: str


@dataclass(frozen=True, slots=True)
class DirectorySynced:
    pass


@dataclass(frozen=True, slots=True)
class BaseChanged:
    """The base holds ``content`` now: by a commit of LMDB's, or because another file was put in its place."""

    content: bytes
    exchanged: bool = False


@dataclass(frozen=True, slots=True)
class Noted:
    """Something that the test wants to find in the trace, such as an acknowledged commit."""

    what: object


NameChange = Created | Renamed | Removed
Event = NameChange | Wrote | Synced | DirectorySynced | BaseChanged | Noted


class RecordingDisk:
    """The real disk, with the trace of what was done to it. For one log directory.

    The base is looked at before each operation of the thread that made this disk: that thread alone may write it.
    """

    def __init__(self, base_file: Path) -> None:
        self._real = RealDisk()
        self._base_file = base_file
        self._base = b""
        self._inode = 0
        self._lock = threading.RLock()
        self._owner = threading.get_ident()
        self._numbers: dict[str, int] = {}
        self._trace: list[Event] = []

    @property
    def trace(self) -> tuple[Event, ...]:
        """What was done so far. The store's threads may go on and add to it."""
        with self._lock:
            return tuple(self._trace)

    def note(self, what: object) -> None:
        """Put a mark into the trace."""
        self.record(Noted(what))

    def record(self, *events: Event) -> None:
        with self._lock:
            if threading.get_ident() == self._owner and self._base_file.exists():
                content = self._base_file.read_bytes()
                if content != self._base:
                    inode = self._base_file.stat().st_ino
                    self._trace.append(BaseChanged(content, exchanged=self._inode not in (0, inode)))
                    self._base, self._inode = content, inode
            self._trace.extend(events)

    def create(self, path: Path, size: int) -> LogFile:
        with self._lock:
            number = len(self._trace)
            self._numbers[path.name] = number
            self.record(Created(number, path.name, size), Synced(number))
            return RecordingFile(self, number, self._real.create(path, size))

    def open(self, path: Path) -> LogFile:
        with self._lock:
            if path.name not in self._numbers:  # it is older than this trace
                self._numbers[path.name] = number = len(self._trace)
                content = path.read_bytes()
                self.record(
                    Created(number, path.name, len(content)),
                    Wrote(number, 0, content),
                    Synced(number),
                    DirectorySynced(),
                )
            return RecordingFile(self, self._numbers[path.name], self._real.open(path))

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            self.record(Renamed(source.name, target.name))
            self._real.rename(source, target)
            self._numbers[target.name] = self._numbers.pop(source.name)

    def remove(self, path: Path) -> None:
        with self._lock:
            self.record(Removed(path.name))
            self._real.remove(path)
            self._numbers.pop(path.name, None)

    def sync_directory(self, path: Path) -> None:
        self.record(DirectorySynced())
        self._real.sync_directory(path)


class RecordingFile:
    """A log file of a :class:`RecordingDisk`."""

    def __init__(self, disk: RecordingDisk, number: int, inner: LogFile) -> None:
        self._disk = disk
        self._number = number
        self._inner = inner
        self.size = inner.size

    def read(self, offset: int, length: int) -> bytes:
        return self._inner.read(offset, length)

    def write(self, offset: int, data: bytes) -> None:
        self._disk.record(Wrote(self._number, offset, data))
        self._inner.write(offset, data)

    def write_durably(self, offset: int, data: bytes) -> None:
        # Two events: a power loss between them finds any part of the write.
        self._disk.record(Wrote(self._number, offset, data), Synced(self._number, offset, len(data)))
        self._inner.write_durably(offset, data)

    def sync(self) -> None:
        self._disk.record(Synced(self._number))
        self._inner.sync()

    def close(self) -> None:
        self._inner.close()
