"""Disks that fail, and disks that remember: the other sides of the seam in ``lowtide.log.disk``.

:class:`FaultyDisk` refuses operations. :class:`RecordingDisk` writes real files and keeps the trace of what it was asked
to do; :func:`crashes` turns a trace into the states that a power loss could leave behind. What is modelled: a
disk keeps sectors of 512 bytes; a sector that was written and not synced may hold any content it had since it last was;
names that were created, changed or removed since the directory was synced may be there or not. The base (LMDB) is
taken as atomic and durable: it changes whole, from one commit to the next.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lowtide.log.disk import LogFile, RealDisk

SECTOR = 512

WRITES = ("write", "write_durably")
FILE_OPERATIONS = (*WRITES, "sync")
DIRECTORY_OPERATIONS = ("create", "rename", "remove", "sync_directory")
OPERATIONS = (*FILE_OPERATIONS, *DIRECTORY_OPERATIONS)


@dataclass(frozen=True, slots=True)
class Fault:
    """The ``nth`` of the named operations fails, or with ``forever`` that one and all after it.

    ``written`` is the share of a failing write's bytes that reach the file all the same. ``error`` is an errno, or
    an exception to raise in the place of an OSError.
    """

    operations: tuple[str, ...]
    nth: int = 1
    error: int | BaseException = errno.EIO
    forever: bool = False
    written: float = 0.0


class FaultyDisk:
    """The real disk, until it is told to ``fail``; then, until it is told to ``heal``, one with that fault."""

    def __init__(self) -> None:
        self._real = RealDisk()
        self._lock = threading.Lock()
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

    def check(self, operation: str) -> Fault | None:
        """The fault that ``operation`` meets now; the caller raises it."""
        with self._lock:
            self.counts[operation] += 1
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
        return FaultyFile(self, self._real.create(path, size))

    def open(self, path: Path) -> LogFile:
        return FaultyFile(self, self._real.open(path))

    def rename(self, source: Path, target: Path) -> None:
        self._pass("rename")
        self._real.rename(source, target)

    def remove(self, path: Path) -> None:
        self._pass("remove")
        self._real.remove(path)

    def sync_directory(self, path: Path) -> None:
        self._pass("sync_directory")
        self._real.sync_directory(path)


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
    """The base holds ``content`` now."""

    content: bytes


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
        self._lock = threading.RLock()
        self._owner = threading.get_ident()
        self._numbers: dict[str, int] = {}
        self.trace: list[Event] = []

    def note(self, what: object) -> None:
        """Put a mark into the trace."""
        self.record(Noted(what))

    def record(self, *events: Event) -> None:
        with self._lock:
            if threading.get_ident() == self._owner and self._base_file.exists():
                content = self._base_file.read_bytes()
                if content != self._base:
                    self._base = content
                    self.trace.append(BaseChanged(content))
            self.trace.extend(events)

    def create(self, path: Path, size: int) -> LogFile:
        with self._lock:
            number = len(self.trace)
            self._numbers[path.name] = number
            self.record(Created(number, path.name, size), Synced(number))
            return RecordingFile(self, number, self._real.create(path, size))

    def open(self, path: Path) -> LogFile:
        with self._lock:
            if path.name not in self._numbers:  # it is older than this trace
                self._numbers[path.name] = number = len(self.trace)
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


@dataclass(slots=True)
class _Sectors:
    """One file: what is on disk, what the system holds, and for each unsynced sector the contents since it was synced,
    each with the number of the write that made it."""

    durable: bytearray
    current: bytearray
    unsynced: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)

    def write(self, number: int, offset: int, data: bytes) -> None:
        self.current[offset : offset + len(data)] = data
        for sector in _touched(offset, len(data)):
            self.unsynced.setdefault(sector, []).append((number, bytes(self.current[_span(sector)])))

    def sync(self, offset: int, length: int | None) -> None:
        for sector in _touched(offset, len(self.current) if length is None else length):
            self.durable[_span(sector)] = self.current[_span(sector)]
            self.unsynced.pop(sector, None)

    def crashed(self, kept: Collection[int], torn: int, lost: Collection[int], zeroed: Collection[int]) -> bytes:
        """The content if of the unsynced writes those in ``kept`` arrived; but of the write ``torn`` the sectors ``lost``
        did not, and the sectors ``zeroed`` arrived as zeros."""
        content = bytearray(self.durable)
        for sector, versions in self.unsynced.items():
            arrived = [(number, data) for number, data in versions if number in kept]
            if not arrived:
                continue
            number, data = arrived[-1]
            if number == torn and sector in zeroed:
                data = bytes(len(data))
            elif number == torn and sector in lost:
                data = arrived[-2][1] if len(arrived) > 1 else bytes(self.durable[_span(sector)])
            content[_span(sector)] = data
        return bytes(content)


def _span(sector: int) -> slice:
    return slice(sector * SECTOR, (sector + 1) * SECTOR)


def _touched(offset: int, length: int) -> range:
    return range(offset // SECTOR, (offset + length + SECTOR - 1) // SECTOR) if length else range(0)


@dataclass(frozen=True)
class Crash:
    """The files of a store after a power loss. ``notes`` were made before it."""

    log: dict[str, bytes]
    base: bytes
    notes: tuple[object, ...]
    how: str

    def materialise(self, store: Path, manifest: bytes) -> None:
        """Make these files in the directory ``store``, which must not exist."""
        (store / "log").mkdir(parents=True)
        (store / "base").mkdir()
        (store / "store.json").write_bytes(manifest)
        (store / "base" / "data.mdb").write_bytes(self.base)
        for name, content in self.log.items():
            (store / "log" / name).write_bytes(content)


class _Medium:
    """The disk as a trace left it."""

    def __init__(self) -> None:
        self.files: dict[int, _Sectors] = {}
        self.names: dict[str, int] = {}
        self.unsynced_names: list[NameChange] = []
        self.base = b""
        self.notes: list[object] = []

    def play(self, number: int, event: Event) -> None:
        match event:
            case Created(file, _, size):
                self.files[file] = _Sectors(bytearray(size), bytearray(size))
                self.unsynced_names.append(event)
            case Renamed() | Removed():
                self.unsynced_names.append(event)
            case Wrote(file, offset, data):
                self.files[file].write(number, offset, data)
            case Synced(file, offset, length):
                self.files[file].sync(offset, length)
            case DirectorySynced():
                self.names = self._named(self.unsynced_names)
                self.unsynced_names = []
            case BaseChanged(content):
                self.base = content
            case Noted(what):
                self.notes.append(what)

    def _named(self, changes: list[NameChange]) -> dict[str, int]:
        """The names if only these of the unsynced changes arrived."""
        names = dict(self.names)
        for change in changes:
            match change:
                case Created(file, name, _):
                    names[name] = file
                case Renamed(source, target) if source in names:
                    names[target] = names.pop(source)
                case Removed(name):
                    names.pop(name, None)
                case _:  # a rename of a name that never arrived
                    pass
        return names

    def crashes(self) -> Iterator[Crash]:
        for how, contents in self._contents():
            yield self._crash(self._named(self.unsynced_names), contents, f"{how}, all names")
        everything = {file: bytes(sectors.current) for file, sectors in self.files.items()}
        synced_only = {file: bytes(sectors.durable) for file, sectors in self.files.items()}
        for how, names in self._namings():
            yield self._crash(names, everything, f"{how}, all writes")
            yield self._crash(names, synced_only, f"{how}, synced writes only")

    def _crash(self, names: dict[str, int], contents: dict[int, bytes], how: str) -> Crash:
        return Crash({name: contents[file] for name, file in names.items()}, self.base, tuple(self.notes), how)

    def _contents(self) -> Iterator[tuple[str, dict[int, bytes]]]:
        unsynced = [(sector, versions) for each in self.files.values() for sector, versions in each.unsynced.items()]
        writes = sorted({number for _, versions in unsynced for number, _ in versions})
        last = writes[-1] if writes else -1

        def arrived(
            kept: Collection[int], lost: Collection[int] = (), zeroed: Collection[int] = ()
        ) -> dict[int, bytes]:
            return {file: each.crashed(kept, last, lost, zeroed) for file, each in self.files.items()}

        for count in range(len(writes) + 1):
            yield f"{count} of {len(writes)} unsynced writes", arrived(writes[:count])
        for number in writes:
            yield f"all unsynced writes but {number}", arrived(set(writes) - {number})
            yield f"of the unsynced writes only {number}", arrived({number})
        sectors = sorted(sector for sector, versions in unsynced if versions[-1][0] == last)
        for cut in range(1, len(sectors)):
            head, tail = sectors[:cut], sectors[cut:]
            yield f"the last write torn after sector {cut}", arrived(writes, lost=tail)
            yield f"the last write torn before sector {cut}", arrived(writes, lost=head)
            yield f"the last write zeroed after sector {cut}", arrived(writes, zeroed=tail)

    def _namings(self) -> Iterator[tuple[str, dict[str, int]]]:
        changes = self.unsynced_names
        for count in range(len(changes) + 1):
            yield f"{count} of {len(changes)} unsynced names", self._named(changes[:count])
        for index in range(len(changes)):
            yield f"all unsynced names but {index}", self._named(changes[:index] + changes[index + 1 :])


def crashes(trace: list[Event]) -> Iterator[Crash]:
    """Every modelled state after a power loss between two events of ``trace``, each only once."""
    medium = _Medium()
    seen: set[int] = set()
    for number, event in enumerate(trace):
        medium.play(number, event)
        for crash in medium.crashes():
            key = hash((tuple(sorted(crash.log.items())), crash.base, crash.notes))
            if key not in seen:
                seen.add(key)
                yield crash
