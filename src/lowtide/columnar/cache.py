"""The columnar cache: keeps record batches that were read once in the store's directory, for the next reader.

    cache/BOOT/NAME-COMMIT.arrow        a block: an uncompressed Arrow IPC file, to be memory-mapped
    cache/BOOT/NAME-COMMIT.WHO.tmp      a block that is being written, and by which process
    cache/BOOT/NAME.cuts                where a keyspace was cut, see ``blocks.py``

A block holds the rows of one key range at one commit, as columns of one schema. ``NAME`` is a hash of all that except
the commit. The data of a commit never changes, so blocks are never invalidated. The reader decides whether a snapshot
still sees the same rows, see ``blocks.py``.

Nothing here is synced. ``BOOT`` identifies the boot of the machine: after a power loss no earlier file is trusted, and
the directories of other boots are removed.

Any process may write at any time, without a lock. A block is written under a temporary name and renamed when it is
complete. If two processes write the same block, they write the same content, and the last rename wins. Any process may
remove any file: readers that have it mapped continue, other readers miss it and read the store. A failure of the cache
is never reported as an error.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from lowtide.engine import CACHE
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.system.identity import Identity, boot_id, identify

LIMIT: Final = 2 << 30
"""Default maximum size of the cache of a store on disk, in bytes."""

_BLOCK = ".arrow"
_TEMPORARY = ".tmp"
_NAME = re.compile(r"([0-9a-f]{40})-(\d+)\.arrow")
_WRITER = re.compile(r"[0-9a-f]{40}-\d+\.(\d+)-(\d+)-(.+)-[0-9a-f]+\.tmp")
_ABANDONED = 86_400.0
"""Seconds after which a temporary file is removed if its process cannot be checked from here."""

_UNREADABLE = (OSError, pa.ArrowException, ValueError)


@dataclass(frozen=True)
class Block:
    """The rows of a key range at a commit, as columns. ``name`` identifies the range and the columns."""

    name: str
    commit: int

    @property
    def file(self) -> str:
        return f"{self.name}-{self.commit}{_BLOCK}"


class Cache:
    """The cache of the store in ``store``. It takes at most ``limit`` bytes, plus what is being written."""

    def __init__(self, store: Path, limit: int = LIMIT) -> None:
        self._root = store / CACHE
        self.directory = self._root / boot_id()
        self._limit = limit

    # Reading

    def read(self, block: Block) -> list[pa.RecordBatch] | None:
        """Return the batches of a block, memory-mapped; None if it does not exist. An unreadable block is removed."""
        path = self.directory / block.file
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
            for batch in batches:
                batch.validate()
            os.utime(path)
            return batches
        except FileNotFoundError:
            return None
        except _UNREADABLE:
            with contextlib.suppress(OSError):
                path.unlink()
            return None

    def commits(self, names: set[str]) -> dict[str, list[int]]:
        """Return the commits of the existing blocks with these names, ascending."""
        found: dict[str, list[int]] = defaultdict(list)
        with contextlib.suppress(OSError):
            for each in os.listdir(self.directory):
                if (match := _NAME.fullmatch(each)) is not None and match[1] in names:
                    found[match[1]].append(int(match[2]))
        return {name: sorted(commits) for name, commits in found.items()}

    def renew(self, block: Block, commit: int) -> Block | None:
        """Link the block under another commit at which its rows are the same. Returns None if the block is gone."""
        renewed = Block(block.name, commit)
        try:
            os.link(self.directory / block.file, self.directory / renewed.file)
        except FileExistsError:
            pass
        except OSError:
            return None
        return renewed

    # Writing

    def read_or_fill(
        self, block: Block | None, make: Callable[[], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the block. If it does not exist, yield those of ``make`` and store them as the block. If
        ``block`` is None, nothing is stored."""
        if block is None:
            return make()
        found = self.read(block)
        return iter(found) if found is not None else self.fill(block, make())

    def fill(self, block: Block, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield ``batches`` and store them as the block. Nothing is stored if they are not read to the end, if there is
        an error, or if they are too large."""
        writing: _Writing | None = None
        with contextlib.suppress(*_UNREADABLE):
            self.make()
            writing = _Writing(self._room(), self.directory, block)
        try:
            for batch in batches:
                if writing is not None:
                    writing = writing.write(batch)
                yield batch
            if writing is not None:
                writing.publish()
        finally:
            if writing is not None:
                writing.discard()
                self.tidy()

    def make(self) -> None:
        """Create the directory if it is missing."""
        if not self.directory.is_dir():
            self._root.mkdir(mode=0o700, exist_ok=True)
            self.directory.mkdir(mode=0o700, exist_ok=True)
            self.tidy()

    def _room(self) -> int:
        """Return the maximum size of a block in bytes: at most half of the free disk space."""
        status = os.statvfs(self.directory)
        return min(self._limit, status.f_bavail * status.f_frsize // 2)

    # Keeping within bounds

    def tidy(self) -> None:
        """Evict the least recently used files beyond the limit. Also removes leftovers of killed processes and all
        files of earlier boots of the machine."""
        with contextlib.suppress(OSError):
            for other in self._root.iterdir():
                if other.name != self.directory.name:
                    shutil.rmtree(other, ignore_errors=True)
        sizes: dict[int, int] = {}
        used: dict[int, float] = {}
        files: dict[int, list[Path]] = defaultdict(list)
        for path, status in self._files():
            if path.name.endswith(_TEMPORARY) and _is_left_over(path.name, status.st_mtime):
                with contextlib.suppress(OSError):
                    path.unlink()
                continue
            sizes[status.st_ino] = status.st_size  # a block with several names counts once
            if not path.name.endswith(_TEMPORARY):
                used[status.st_ino] = status.st_mtime
                files[status.st_ino].append(path)
        total = sum(sizes.values())
        for number in sorted(used, key=used.__getitem__):
            if total <= self._limit:
                break
            total -= sizes[number]
            for path in files[number]:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.directory):
                with contextlib.suppress(OSError):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)

    def drop(self) -> None:
        """Remove the whole cache. A reader that has a block mapped continues."""
        shutil.rmtree(self._root, ignore_errors=True)


class _Writing:
    """A block that is being written. Used by one thread."""

    def __init__(self, room: int, directory: Path, block: Block) -> None:
        self._room = room
        self._path = directory / block.file
        here = identify(os.getpid())
        assert here is not None
        who = f"{here.pid}-{here.began}-{here.namespace}-{secrets.token_hex(4)}"
        self._temporary = directory / f"{block.name}-{block.commit}.{who}{_TEMPORARY}"
        os.close(os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self._sink = pa.OSFile(str(self._temporary), "wb")
        self._file: pa.RecordBatchFileWriter | None = None

    def write(self, batch: pa.RecordBatch) -> _Writing | None:
        """Append a batch. Returns None if that fails; the block is then not stored."""
        try:
            if self._file is None:
                self._file = pa.ipc.new_file(self._sink, batch.schema)
            self._file.write_batch(batch)
            if self._sink.tell() <= self._room:
                return self
        except _UNREADABLE:
            pass
        self.discard()
        return None

    def publish(self) -> None:
        """Rename the complete block to its name."""
        try:
            if self._file is None:
                self._file = pa.ipc.new_file(self._sink, pa.schema([]))
            self._file.close()
            self._sink.close()
            os.rename(self._temporary, self._path)
        except _UNREADABLE:
            self.discard()

    def discard(self) -> None:
        """Remove the temporary file. A published block stays. May be called repeatedly."""
        with contextlib.suppress(*_UNREADABLE):
            self._sink.close()
        with contextlib.suppress(OSError):
            self._temporary.unlink()


def _is_left_over(name: str, written: float) -> bool:
    """Return whether the process that was writing a temporary file is gone."""
    match = _WRITER.fullmatch(name)
    if match is None:
        return SYSTEM_CLOCK.time() - written > _ABANDONED
    writer = Identity(boot_id(), match[3], int(match[1]), int(match[2]))
    return writer.is_gone or SYSTEM_CLOCK.time() - written > _ABANDONED
