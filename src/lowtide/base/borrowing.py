"""One base per process and directory: LMDB must not be opened twice, so owner and readers share what is open.

Who writes: the table of open bases under ``_lock``. A base is closed when the last one gives it back. While nobody in
this process owns the store, the process holds the base shared (see sharing), so that no owner exchanges its file.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from lowtide.base.environment import Base
from lowtide.base.sharing import SharedUse


@dataclass(slots=True)
class _Open:
    base: Base
    readers: int = 0
    owned: bool = False
    hold: SharedUse | None = None

    def adjust_hold(self) -> None:
        """Hold the base shared iff it has readers and no owner here."""
        if self.readers and not self.owned and self.hold is None:
            self.hold = SharedUse(self.base.directory)
        elif (self.owned or not self.readers) and self.hold is not None:
            self.hold.close()
            self.hold = None


_lock = threading.RLock()
_table: dict[tuple[int, int], _Open] = {}
"""By device and inode of the directory."""


def borrow(directory: Path, map_size: int, *, create: bool = False, owner: bool = False) -> Base:
    """The base in ``directory``, opened if this process does not have it open. Who takes a pin may have to
    grow its map; LMDB tells the other processes."""
    with _lock:
        key = _identity(directory)
        entry = _table.get(key)
        if entry is not None and entry.base.closed:
            entry.base.close()  # again: the first time may have been interrupted
            entry = None
        if entry is None:
            hold = None if owner else SharedUse(directory)  # before the file is opened: it must not be exchanged then
            try:
                entry = _Open(Base(directory, map_size, create=create), hold=hold)
            except BaseException:
                if hold is not None:
                    hold.close()
                raise
        elif owner:
            entry.base.take_over()
        if owner:
            entry.owned = True
        else:
            entry.readers += 1
        entry.adjust_hold()
        _table[key] = entry
        return entry.base


def give_back(base: Base, *, owner: bool = False) -> None:
    """Undo one ``borrow``."""
    with _lock:
        for key, entry in list(_table.items()):
            if entry.base is not base:
                continue
            if owner:
                entry.owned = False
            else:
                entry.readers -= 1
            entry.adjust_hold()
            if entry.owned or entry.readers > 0:
                return
            base.close()
            del _table[key]
            return
        base.close()


def _identity(directory: Path) -> tuple[int, int]:
    if not directory.exists():
        return 0, 0
    status = directory.stat()
    return status.st_dev, status.st_ino


def _forget_after_fork() -> None:
    """In a forked child: the bases are the parent's. Its copies of their locks are given up."""
    global _lock
    _lock = threading.RLock()
    for entry in _table.values():
        if entry.hold is not None:
            entry.hold.close()
    _table.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
