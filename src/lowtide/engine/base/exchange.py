"""Copies the base and puts the copy in its place, while this and other processes continue to read.

The copy is written to a directory beside that of the base, and the two directories exchange their names in one step of
the file system. So the data file and the lock file always belong together, and whichever directory has the name after a
crash holds everything. See ``place`` for what this means for other processes.

On a file system that cannot do that, only the data file is replaced, and only while no other process has the base open:
see ``sharing``. A process that had the old file open would share LMDB's own lock file with users of the new one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import lmdb

from lowtide.engine.base.environment import Base
from lowtide.engine.base.forks import note_opened
from lowtide.engine.base.mapping import open_largest
from lowtide.engine.base.place import DATA, prepare_mark, set_mark
from lowtide.engine.base.sharing import sole_use
from lowtide.errors import DiskFull, Error
from lowtide.system.disk import is_full

COMPACTED = "data.mdb.tmp"
"""An unfinished copy, as made by an earlier release."""

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_ATTEMPTS: Final = 100
_CANNOT: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV, errno.EBUSY})


def copy_base(base: Base, descriptor: int) -> None:
    """Write the base as of the last LMDB commit, without free pages, to a file. Reads and writes continue. The map must
    not move meanwhile: LMDB reads it without py-lmdb's knowledge."""
    with base.steady:
        try:
            base.env.copyfd(descriptor, compact=True)
        except lmdb.DiskError as error:
            raise DiskFull(f"no room for a copy of {base.directory}: {error}; nothing was changed") from error
        except lmdb.Error as error:
            raise Error(f"LMDB could not copy {base.directory}: {error}") from error


def copy_of(directory: Path) -> Path:
    """The directory beside that of a base. It has the copy and, after the exchange, the old base. It is on the same
    file system, even if the base's name is a link."""
    real = Path(os.path.realpath(directory))
    return real.with_name(real.name + ".tmp")


def write_copy(base: Base) -> None:
    """Write a base without free pages beside ``base``, durably."""
    remove_copy(base.directory)
    copy, there = copy_of(base.directory), base.directory.stat()
    try:
        copy.mkdir(mode=0o700)
        descriptor = os.open(copy / DATA, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            copy_base(base, descriptor)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        prepare_mark(copy)
        prepare_mark(base.directory)
        with _writer_lock_of(base, copy):
            pass  # this created LMDB's lock file
        for each in (copy, *copy.iterdir()):
            if (each.stat().st_uid, each.stat().st_gid) != (there.st_uid, there.st_gid):
                os.chown(each, there.st_uid, there.st_gid)  # root may compact the store of another user
        os.chmod(copy, there.st_mode & 0o7777)
    except OSError as error:
        if is_full(error):
            raise DiskFull(f"no room for a copy of {base.directory}: {error}; nothing was changed") from error
        raise
    _sync(copy)


def remove_copy(directory: Path) -> None:
    """Remove what a compaction of the base in ``directory`` has left: a copy, or the old base. Processes that have the
    old base open continue to read it until they follow the exchange or end. The mark for them is set again, and the
    exchange is made durable: the process that made it may have been killed or interrupted before that."""
    copy = copy_of(directory)
    if copy.exists():
        _sync(copy.parent)
        set_mark(copy, moved=True)
        _remove(copy)


def _remove(directory: Path) -> None:
    """Remove a directory and its files. A process that was about to open the old base may still put its mark there."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            shutil.rmtree(directory)
            return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or not left:
                raise


def settle(directory: Path) -> None:
    """Finish what an owner that was killed began. For the next owner, before it opens the base."""
    remove_copy(directory)
    (directory / COMPACTED).unlink(missing_ok=True)
    set_mark(directory, moved=False)  # a base that was put back by hand


def reopen(base: Base, exchange: Callable[[], None]) -> None:
    """Call ``exchange``, which replaces the base by one with the same content, and continue with the new one.

    The caller holds ``base.writing``. Reads that are interrupted are retried, see ``Base._again``: they find their
    environment closed, or a table that belongs to the other environment.
    """
    with base.steady, base.keep_readers_out():
        map_size = base.map_size
        try:
            exchange()
        finally:
            # Even if it failed, since it may have replaced the file: what is written to a file without a name is lost.
            # Whichever file is there now, it holds everything. The ``try`` begins right here: if it were in a function,
            # an interrupt at its start would leave the old file in use.
            try:
                base.open_again(map_size)
            except BaseException:
                try:
                    base.open_again(map_size)  # the first attempt may have been interrupted
                except BaseException:
                    base.closed = True  # the files are intact; the next opening finds everything
                raise


def put_in_place(base: Base, release: Callable[[], None], step: Callable[[str], None]) -> None:
    """Exchange the base and its copy. The caller holds ``base.writing`` and LMDB's writer lock, which ``release``
    releases.

    The writer lock of the copy is held as well, so that no process writes to it before the exchange is durable and the
    mark for the other processes is set.
    """
    copy, data = copy_of(base.directory), base.directory / DATA
    try:
        with _writer_lock_of(base, copy):
            try:
                if not _exchanged(copy, Path(os.path.realpath(base.directory))):
                    with sole_use(base.directory):
                        os.rename(copy / DATA, data)
                step("renamed")
            finally:
                if not base.place.is_named(data):  # asked of the file system: an interrupt may have come right after
                    _sync(copy.parent)  # point: compact.renamed
                    _sync(base.directory)
                    set_mark(copy, moved=True)
    finally:
        release()


def last_change(base: Base) -> int:
    """A number that increases with every LMDB commit of any process."""
    return int(base.env.info()["last_txnid"])


class _OpenCopy:
    """The environment of a copy. A forked child must not touch it either."""

    def __init__(self, base: Base, copy: Path) -> None:
        base.strays.append(open_largest(copy, base.map_size, False))
        self.env = base.strays[-1]
        self.file = (copy / DATA).stat()
        self.closed = False
        note_opened(self)

    def abandon(self) -> None:
        """Do nothing: no thread of a child reaches this environment."""


@contextmanager
def _writer_lock_of(base: Base, copy: Path) -> Iterator[None]:
    """Hold the writer lock of the copy."""
    opened = _OpenCopy(base, copy)
    try:
        txn = opened.env.begin(write=True)
        try:
            yield
        finally:
            txn.commit()  # it is empty
    finally:
        opened.closed = True
        base.close_strays()


def _exchanged(first: Path, second: Path) -> bool:
    """Let two directories exchange their names in one step; False if this file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(first))


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
