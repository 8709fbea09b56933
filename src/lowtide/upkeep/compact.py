"""Compaction: replaces the base by a copy without free pages, and removes spare log files.

LMDB reuses free pages, and never gives them back to the file system. So a compact copy is made beside ``data.mdb``,
synced, and renamed over it; then the environment is reopened. A crash before the rename leaves the old file and a copy
that the next opening removes; a crash after it leaves the new file, which has the same content.

The base is not written meanwhile: checkpoints and sweeps are held off, other writers of the base wait
(``Base.writing``). Readers of this process continue; they are blocked only while the file is exchanged, as when the map
grows. Other processes cannot be made to reopen the file, so there is no compaction while one has the base open: see
``base.sharing``. If one opened it, wrote a pin and closed it while the copy was made, the copy is out of date and is
made again. Commits continue too, in memory and log; the next checkpoint comes after the compaction.

Locks, in this order: checkpointer, collector, base (``writing``, ``steady``, ``_growing``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lowtide.engine.base.environment import Base
from lowtide.engine.base.exchange import COMPACTED, copy_base, last_change, reopen
from lowtide.engine.base.sharing import sole_use
from lowtide.errors import UsageError
from lowtide.upkeep.basis import Running
from lowtide.upkeep.destination import sync_directory

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class CompactReport:
    """Bytes of the base before and after, and of the spare log files that were removed."""

    before: int
    after: int
    spares: int

    @property
    def freed(self) -> int:
        return self.before - self.after + self.spares

    def __str__(self) -> str:
        return (
            f"gave {self.freed} bytes back to the file system: the base had {self.before} bytes and has {self.after}, "
            f"spare log files had {self.spares}"
        )


def compact(running: Running, step: Callable[[str], None] = lambda _: None) -> CompactReport:
    """Compact an open store, after a checkpoint and a collection, which free as much space as possible."""
    with sole_use(running.base.directory):
        pass  # before the work is done for nothing
    running.checkpointer.run()
    running.collector.collect(thorough=True)
    with running.checkpointer.held_off(), running.collector.held_off():
        running.check_open()
        before, after = _exchange(running.base, step)
        spares = running.log.drop_spares()
    return CompactReport(before, after, spares)


def _exchange(base: Base, step: Callable[[str], None]) -> tuple[int, int]:
    """Replace the base's file by a compact copy. Returns the sizes before and after, in bytes."""
    data, copy = base.directory / "data.mdb", base.directory / COMPACTED

    def exchange() -> None:
        os.rename(copy, data)
        step("renamed")
        sync_directory(base.directory)  # point: compact.renamed

    with base.writing:
        try:
            for _ in range(_ATTEMPTS):
                copied = last_change(base)
                _write_copy(base, copy)
                step("copied")
                with sole_use(base.directory):
                    if last_change(base) == copied:
                        before, after = data.stat().st_size, copy.stat().st_size
                        reopen(base, exchange)
                        step("reopened")
                        return before, after
        finally:
            copy.unlink(missing_ok=True)
    raise UsageError(f"other processes keep changing {base.directory}; nothing was changed, try again later")


def _write_copy(base: Base, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    descriptor = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        copy_base(base, descriptor)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
