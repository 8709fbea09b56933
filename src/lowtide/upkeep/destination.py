"""The directory that a backup is written to: its allowed content, and atomic writes of its files.

Every file is written under a temporary name, synced and renamed, and then the directory is synced. ``backup.json``
marks the directory as a backup and lists the segments that it holds completely. It is created first and updated last,
so it never lists what is not there. Opening the directory as a store removes it. From then on the directory may have
commits of its own and is refused as a destination.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lowtide.engine.base.direct import FILLED, filled
from lowtide.engine.base.sharing import READERS, sole_use
from lowtide.engine.base.tables import read_tables
from lowtide.engine.recovery.members import MEMBERS
from lowtide.engine.recovery.opening import BACKUP, FORMAT, LOCK, MANIFEST
from lowtide.engine.recovery.ownership import Ownership
from lowtide.errors import CorruptionError, UsageError
from lowtide.system.messages import UNDECODABLE

_BESIDE = {MANIFEST, BACKUP, LOCK, MEMBERS, "base", "log", "published"}
_IN_BASE = {"data.mdb", "lock.mdb", READERS}
_IN_LOG = re.compile(r"\d{10}\.log|spare-\d+")
_TEMPORARY = ".tmp"

Step = Callable[[str], None]
"""Called with a description of the completed step; if it raises, the backup ends there."""


class Whole(msgspec.Struct, frozen=True):
    """A segment that the backup holds completely: it was full when it was copied."""

    name: str
    salt: int
    size: int
    first_ts: int
    last_ts: int


class Record(msgspec.Struct, frozen=True):
    """The content of ``backup.json``: the store, the last commit, and the complete segments."""

    store: str
    reaches: int = 0
    whole: tuple[Whole, ...] = ()
    tail: Whole | None = None
    """The last segment, which was not full, as far as it was copied."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A directory that holds, or will hold, a backup. Owned by one backup at a time, by the store's own lock."""

    path: Path
    step: Step

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def data(self) -> Path:
        return self.path / "base" / "data.mdb"

    def record(self) -> Record | None:
        """Read ``backup.json``. None if there is none."""
        path = self.path / BACKUP
        try:
            return msgspec.json.decode(path.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except UNDECODABLE as error:
            raise CorruptionError(path, f"cannot be decoded: {error}; choose another directory") from error

    def write_record(self, record: Record) -> None:
        self.place(self.path / BACKUP, msgspec.json.encode(record))

    def write_manifest(self, store_id: bytes) -> None:
        """Write the manifest, so that the directory can be opened. Done once, when base and log are complete."""
        if not (self.path / MANIFEST).exists():
            self.place(self.path / MANIFEST, json.dumps({"format": FORMAT, "store": store_id.hex()}).encode())

    def base_boundary(self) -> int | None:
        """The boundary of the existing base; None if there is none."""
        if not self.data.exists():
            return None
        with read_tables(self.data) as tables:
            return tables.boundary

    def loads_filled(self) -> int:
        """How many completed bulk loads the existing base contains."""
        if not self.data.exists():
            return 0
        with read_tables(self.data) as tables:
            return filled(tables.meta_value(FILLED))

    def place(self, path: Path, data: bytes) -> None:
        """Write a file atomically."""

        def fill(descriptor: int) -> None:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]

        self.place_with(path, fill)

    def place_with(self, path: Path, fill: Callable[[int], None]) -> None:
        """As ``place``, with the content that ``fill`` writes to a descriptor."""
        temporary = path.with_name(path.name + _TEMPORARY)
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fill(descriptor)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        name = str(path.relative_to(self.path))
        self.step(f"wrote {name}")
        os.rename(temporary, path)
        sync_directory(path.parent)
        self.step(f"placed {name}")

    def place_base(self, fill: Callable[[int], None]) -> None:
        """As ``place_with``, for the base, which no process may have open."""
        with sole_use(self.data.parent):
            self.place_with(self.data, fill)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        sync_directory(path.parent)
        self.step(f"removed {path.relative_to(self.path)}")


@contextmanager
def destination_for(source: Path, path: Path, store_id: bytes, step: Step) -> Iterator[Destination]:
    """Lock the directory ``path`` as the destination of a backup of the store in ``source``, or raise UsageError."""
    _refuse_source(source, path)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file; a backup is a directory")
    existed = path.exists()
    _refuse_strangers(path)
    for directory in (path, path / "base", path / "log"):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not existed:
        sync_directory(path.parent)
    ownership = Ownership(path / LOCK)
    try:
        destination = Destination(path, step)
        record = destination.record()
        if record is None and (path / MANIFEST).exists():
            raise UsageError(f"{path} is a store, or a backup that was opened as one; back up to another directory")
        if record is not None and record.store != store_id.hex():
            raise UsageError(f"{path} is a backup of another store; choose another directory")
        if record is None:
            destination.write_record(Record(store_id.hex()))
        for stray in [*path.glob("*" + _TEMPORARY), *path.glob("*/*" + _TEMPORARY)]:
            stray.unlink()  # what an interrupted backup left; strangers were refused
        yield destination
    finally:
        ownership.release()


def _refuse_source(source: Path, path: Path) -> None:
    here, there = source.resolve(), path.resolve()
    if here == there or (there.exists() and os.path.samefile(here, there)):
        raise UsageError(f"{path} is the store itself; back up to another directory")
    if here in there.parents:
        raise UsageError(f"{path} is inside the store {source}; back up to a directory outside of it")


def _refuse_strangers(path: Path) -> None:
    for directory, ours in ((path, _BESIDE), (path / "base", _IN_BASE), (path / "log", set[str]())):
        for each in sorted(directory.iterdir()) if directory.is_dir() else ():
            name = each.name.removesuffix(_TEMPORARY)
            if name not in ours and not (directory.name == "log" and _IN_LOG.fullmatch(name)):
                raise UsageError(
                    f"{directory} holds {each.name!r}, which is not part of a backup; choose another directory"
                )


def sync_directory(path: Path) -> None:
    """Sync the directory ``path``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
