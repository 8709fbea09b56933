"""Opening an LMDB environment, with as large a map as the system grants."""

from __future__ import annotations

import mmap
from pathlib import Path

import lmdb

from lowtide.base.forks import open_environment
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
            return open_environment(
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
        except lmdb.ReadersFullError as error:
            raise too_many_readers() from error
        except (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError) as error:
            raise CorruptionError(directory, f"this is not an LMDB environment that can be opened: {error}") from error


def ask_for_room(directory: Path, size: int) -> None:
    """Raise an error if the process has no address space for a map that is larger by ``size``. LMDB lets go of the old
    map before it asks for the new one: a refusal would leave it with none."""
    if size > 0:
        try:
            mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ).close()
        except OSError as error:
            raise Error(
                f"the map of {directory} cannot grow by {size} bytes: {error}; commits and reads go on: raise the "
                "process's limit on address space"
            ) from error


def too_many_readers() -> Error:
    """Why nobody else can read now. The slots of killed processes are freed by the owner's monitor."""
    return Error(f"more than {MAX_READERS} threads and processes read this store at once")
