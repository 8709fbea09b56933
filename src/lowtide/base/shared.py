"""One base per process and directory: LMDB must not be opened twice, so owner and readers share what is open.

Who writes: the table of open bases under ``_lock``. A base is closed when the last one gives it back.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from lowtide.base.environment import Base

_lock = threading.RLock()
_shared: dict[tuple[int, int], tuple[Base, int]] = {}
"""Device and inode of the directory to the open base and the number of its users."""


def borrow(directory: Path, map_size: int, *, create: bool = False, owner: bool = False) -> Base:
    """The base in ``directory``, opened if this process does not have it open. Only an owner may grow its map."""
    with _lock:
        key = _identity(directory) if directory.exists() else (0, 0)
        base, users = _shared.get(key, (None, 0))
        if base is None or base.closed:
            users = 0
            base = Base(directory, map_size, create=create, may_grow=owner)
        elif owner:
            base.take_over()
        _shared[key] = (base, users + 1)
        return base


def give_back(base: Base) -> None:
    """Undo one ``borrow``."""
    with _lock:
        for key, (each, users) in list(_shared.items()):
            if each is base and users > 1:
                _shared[key] = (base, users - 1)
                return
            if each is base:
                del _shared[key]
        if not base.closed:
            base.close()


def _identity(directory: Path) -> tuple[int, int]:
    status = directory.stat()
    return status.st_dev, status.st_ino


def _forget_after_fork() -> None:
    """In a forked child: the bases are the parent's."""
    global _lock
    _lock = threading.RLock()
    _shared.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
