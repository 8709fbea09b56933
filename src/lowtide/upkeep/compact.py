"""Compaction: replaces the base with a copy without free pages, and removes spare log files.

LMDB reuses free pages, but never returns them to the file system. So a compact copy of the base is made next to it,
synced, and exchanged with it in one step; then the environment is reopened. A crash before the exchange leaves the old
base, and a crash after it leaves the new one, which has the same content. The next owner removes the other one.

The base is not written meanwhile: checkpoints and sweeps are held off, other writers of this process wait
(``Base.writing``). Readers of this process continue; they are blocked only while the base is exchanged, as when the map
grows. Other processes continue to read the old base until they write or notice the exchange: see ``base.place``. If one
of them writes a pin while the copy is made, the copy is out of date and is made again, the last time with LMDB's writer
lock held. Commits continue too, in memory and log; the next checkpoint comes after the compaction.

Locks, in this order: checkpointer, collector, base (``writing``, LMDB's writer lock, ``steady``,
``_growing``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lowtide.engine.base.environment import Base
from lowtide.engine.base.exchange import copy_of, last_change, put_in_place, remove_copy, reopen, write_copy
from lowtide.engine.base.place import DATA
from lowtide.upkeep.basis import Running

_ATTEMPTS = 2
"""Copies that are made while other processes may write."""


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
    running.checkpointer.run()
    running.collector.collect(thorough=True)
    with running.checkpointer.held_off(), running.collector.held_off():
        running.check_open()
        before, after = _exchange(running.base, step)
        spares = running.log.drop_spares()
    return CompactReport(before, after, spares)


def _exchange(base: Base, step: Callable[[str], None]) -> tuple[int, int]:
    """Put a compact copy in the place of the base. Returns the sizes before and after, in bytes."""
    with base.writing:
        try:
            for _ in range(_ATTEMPTS):
                copied = last_change(base)
                write_copy(base)
                step("copied")
                with base.other_writers_out() as release:
                    if last_change(base) == copied:
                        return _replace(base, release, step)
            with base.other_writers_out() as release:
                write_copy(base)
                step("copied again")
                return _replace(base, release, step)
        finally:
            remove_copy(base.directory)


def _replace(base: Base, release: Callable[[], None], step: Callable[[str], None]) -> tuple[int, int]:
    before, after = (each.stat().st_size for each in (base.directory / DATA, copy_of(base.directory) / DATA))
    reopen(base, lambda: put_in_place(base, release, step))
    step("reopened")
    return before, after
