"""Opening an LMDB environment with the largest map that the system grants."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import lmdb

from lowtide.engine.base.forks import open_environment
from lowtide.errors import CorruptionError, Error

MAX_READERS = 1024
_SMALLEST_MAP = 1 << 20


def open_largest(directory: Path, map_size: int, create: bool) -> lmdb.Environment:
    """Open the environment with the largest map up to ``map_size`` that the system grants."""
    data = directory / "data.mdb"
    if not create and not (data.is_file() and data.stat().st_size):
        raise CorruptionError(directory, "the base is missing; what was committed before the last checkpoint is lost")
    while True:
        try:
            env = open_environment(
                directory,
                map_size=map_size,
                max_dbs=16,
                max_readers=MAX_READERS,
                max_spare_txns=16,
                mode=0o600,
                metasync=True,
                sync=True,
                readahead=True,
            )
        except lmdb.MemoryError as error:
            if map_size <= _SMALLEST_MAP:
                raise Error(f"no address space for a map of {directory}: {error}; raise the process's limit") from error
            map_size //= 2
            continue
        except lmdb.ReadersFullError as error:
            raise too_many_readers() from error
        except (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError) as error:
            raise CorruptionError(directory, f"this is not an LMDB environment that can be opened: {error}") from error
        try:
            _lengthen(data, missing_bytes(env, data))
            return env
        except BaseException:
            env.close()  # an interrupt's traceback would keep it open
            raise


def open_fixed(directory: Path) -> lmdb.Environment:
    """Open an environment that no process can write to. There LMDB's lock file cannot be written, and is not needed."""
    try:
        return open_environment(directory, readonly=True, lock=False, create=False, max_dbs=16, max_spare_txns=16)
    except lmdb.Error as error:
        raise CorruptionError(directory, f"this is not an LMDB environment that can be opened: {error}") from error


def missing_bytes(env: lmdb.Environment, data: Path) -> int:
    """How many bytes the file is shorter than LMDB's last page requires. A page that was allocated and freed in one
    transaction is never written, so a sound file may lack some; so does a truncated one."""
    pages = int(env.info()["last_pgno"]) + 1
    return max(0, pages * int(env.stat()["psize"]) - data.stat().st_size)


def _lengthen(data: Path, missing: int) -> None:
    """Extend the file to the length that LMDB expects: reading a mapped page beyond the end of the file would kill the
    process, while LMDB rejects a page of zeros. This never shortens the file, even if another process extends it
    meanwhile."""
    if missing:
        descriptor = os.open(data, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, os.fstat(descriptor).st_size + missing - 1, 1)
        finally:
            os.close(descriptor)


def ask_for_room(directory: Path, size: int) -> None:
    """Raise an error if the process has no address space for ``size`` more bytes of map. LMDB releases the old map
    before it requests the new one: if that fails, it has none."""
    if size > 0:
        try:
            mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ).close()
        except OSError as error:
            raise Error(
                f"the map of {directory} cannot grow by {size} bytes: {error}; commits and reads continue: raise the "
                "process's limit on address space"
            ) from error


def too_many_readers() -> Error:
    """The error when all reader slots are taken. The owner's monitor frees those of killed processes."""
    return Error(f"more than {MAX_READERS} threads and processes read this store at once")
