"""The directory of an open base, and the mark that another base has replaced it.

A compaction writes a new base beside the old one and exchanges the two directories (see ``exchange``). LMDB's lock file
is in the directory, so each base keeps its own. A process that has the old base open may continue to read it: it holds
everything up to the exchange, and no process writes to it any more. It learns of the exchange in two ways:

* Before it writes, under LMDB's writer lock, it compares the file that it has open with the one that has the name. The
  exchange is made under that lock, so a write either was made before the copy or goes to the new base.
* Before it reads, it looks at the first byte of ``readers.lock``, which it has mapped. The byte is set before the first
  write to the new base, so no read misses a write that ended before it began.

If the process that compacts is killed between the exchange and the mark, the next owner sets the mark. Until then reads
of the old base show the state of the exchange, in which nothing is missing but pins written since.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from lowtide.engine.base.sharing import READERS
from lowtide.errors import CorruptionError

DATA: Final = "data.mdb"
NEVER: Final = b"\0"
"""The mark of a base that no process can write to."""
_UNKNOWN: Final = b"\1"
"""Used in place of a mark that cannot be mapped: names are compared before each read."""
_MARK_BYTES: Final = 8

_Opened = TypeVar("_Opened")


class BasePlace:
    """The file of an open base, and its mark: ``moved[0]`` is not 0 once another base has replaced this one."""

    __slots__ = ("file", "moved")

    def __init__(self, file: os.stat_result, moved: mmap.mmap | bytes) -> None:
        self.file = file
        self.moved = moved

    def is_named(self, data: Path) -> bool:
        """Whether ``data`` is the file of this base. A file that is gone does not count as replaced."""
        try:
            return os.path.samestat(self.file, data.stat())
        except OSError:
            return True


class HeldDirectory:
    """A directory that is held open while a base is opened in it, so that its files can be distinguished from those of
    a directory that takes its name meanwhile."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise CorruptionError(
                directory, "the base is missing; what was committed before the last checkpoint is lost"
            ) from error

    def has_its_name(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._directory))
        except OSError:
            return True  # the directory was removed, which is not an exchange

    def place(self, *, fixed: bool) -> BasePlace:
        """The place of the base in this directory."""
        file = os.stat(DATA, dir_fd=self._descriptor)
        return BasePlace(file, NEVER if fixed else _map_mark(self._descriptor))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


def opened_in(directory: Path, opened: Callable[[HeldDirectory], _Opened], undo: Callable[[], None]) -> _Opened:
    """Call ``opened`` and return its result, if all files that it opened by name in ``directory`` are of one directory.
    LMDB opens two files by name, and an exchange may come between them; then the call is undone and repeated."""
    while True:
        with HeldDirectory(directory) as held:
            try:
                result = opened(held)
                if held.has_its_name():
                    return result
            except Exception:  # from LMDB or the file system: the old directory's files were removed
                if held.has_its_name():
                    undo()
                    raise
            undo()


def _map_mark(directory: int) -> mmap.mmap | bytes:
    try:
        descriptor = os.open(READERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=directory)
    except OSError:
        return _UNKNOWN
    try:
        allocate_mark(descriptor)
        return mmap.mmap(descriptor, 1, prot=mmap.PROT_READ)
    except OSError:
        return _UNKNOWN  # no space, or no address space
    finally:
        os.close(descriptor)


def allocate_mark(descriptor: int) -> None:
    """Allocate the mark in ``readers.lock``, without changing an existing one. A byte beyond the end of the file cannot
    be read through a map."""
    if os.fstat(descriptor).st_size < _MARK_BYTES:
        os.posix_fallocate(descriptor, 0, _MARK_BYTES)


def prepare_mark(directory: Path) -> None:
    """Make sure that the mark of the base in ``directory`` can be set later, even on a full disk."""
    descriptor = os.open(directory / READERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        allocate_mark(descriptor)
    finally:
        os.close(descriptor)


def set_mark(directory: Path, moved: bool) -> None:
    """Set or clear the mark that shows every process with the base in ``directory`` open whether another base has
    replaced it."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(directory / READERS, os.O_RDWR | os.O_CLOEXEC)
        try:
            if moved or os.pread(descriptor, 1, 0) == b"\1":
                os.pwrite(descriptor, b"\1" if moved else b"\0", 0)
        finally:
            os.close(descriptor)
