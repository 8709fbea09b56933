"""A lock file that shows whether other processes have the base open.

A process that opens the base of a store that it does not own (a reader, or the checkpoint helper) holds
``base/readers.lock`` shared for as long as it has the LMDB environment open. The owner takes it exclusively while it
replaces ``data.mdb``: a process with the old file open would continue to read it, and would share LMDB's own lock file
with readers of the new one. The system releases the lock when its holder dies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lowtide.errors import UsageError

READERS = "readers.lock"


class SharedUse:
    """A shared lock on the base in ``directory``, until it is closed. Waits while the file is being exchanged."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = -1
        self._descriptor = _open(directory)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        except BaseException:
            os.close(self._descriptor)
            raise

    def close(self) -> None:
        """Release the lock. A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> SharedUse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def sole_use(directory: Path) -> Iterator[None]:
    """Keep other processes from opening the base. Raises UsageError if one has it open."""
    descriptor = _open(directory)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"other processes are reading {directory}, so its file cannot be replaced: "
                "end them, or retry when they are done"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _open(directory: Path) -> int:
    return os.open(directory / READERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
