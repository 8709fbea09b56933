"""One base per process and file. LMDB must not open a file twice, so the owner and the readers share it.

Who writes: the uses of a base change under ``_lock``. A base is closed when the last borrower returns it. Only
borrowers keep it alive: what an interrupted opening leaves behind is freed with the last reference to it. While this
process does not own the store, it holds the base shared (see sharing), so that no owner exchanges its file.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path

from lowtide.engine.base.environment import Base
from lowtide.engine.base.media import is_read_only, not_writable
from lowtide.engine.base.place import DATA
from lowtide.engine.base.sharing import SharedUse
from lowtide.engine.base.soundness import check_owned
from lowtide.errors import CorruptionError, Error


@dataclass(slots=True)
class _Uses:
    """The uses of a base in this process."""

    readers: int = 0
    owner: int = 0
    """The number of the owner's loan; 0 for none. An earlier owner may have been interrupted before it returned the
    base. When it does, it must not take the base from a later one."""
    hold: SharedUse | None = None
    fixed: bool = False
    """Whether no process can write the base, so that its file cannot be exchanged."""

    def adjust_hold(self, directory: Path) -> None:
        """Hold the base shared if and only if it has readers and no owner in this process."""
        if self.readers and not self.owner and self.hold is None and not self.fixed:
            self.hold = SharedUse(directory)
        elif (self.owner or not self.readers) and self.hold is not None:
            self.hold.close()
            self.hold = None


_lock = threading.RLock()
_loans = itertools.count(1)
_uses: weakref.WeakKeyDictionary[Base, _Uses] = weakref.WeakKeyDictionary()


def borrow(directory: Path, map_size: int, *, create: bool = False, owner: bool = False) -> Base:
    """Return the base in ``directory``; open it if this process does not have it open. A reader that takes a pin may
    have to grow the map; LMDB informs the other processes."""
    with _lock:
        base = _find(directory)
        if base is None and not create and not directory.is_dir():
            raise CorruptionError(
                directory, "the base is missing; what was committed before the last checkpoint is lost"
            )
        if base is None:
            fixed = not owner and not create and is_read_only(directory)
            hold = None if owner or fixed else _hold(directory)  # before the file is opened: it must not be exchanged
            base = Base(directory, map_size, create=create, fixed=fixed)
            _uses[base] = _Uses(hold=hold, fixed=fixed)
        elif owner:
            base.take_over()
        if owner and not create:
            _check_sound(base)
        uses = _uses[base]
        if owner:
            uses.owner = next(_loans)
        else:
            uses.readers += 1
        base.owned = bool(uses.owner)
        uses.adjust_hold(directory)
        return base


def _hold(directory: Path) -> SharedUse:
    try:
        return SharedUse(directory)
    except OSError as error:
        raise (not_writable(directory, error) or error) from error


def _check_sound(base: Base) -> None:
    """Raise CorruptionError if a page is damaged, before this process writes to the base: see structure."""
    try:
        base.examine(lambda env: check_owned(env, base.directory))
    except CorruptionError:
        if not _uses[base].readers:
            _uses.pop(base)
            base.close()
        raise


def _find(directory: Path) -> Base | None:
    """The base that this process has open on the current file in ``directory``. A base whose file was deleted does not
    count, even if another file now has its path or its inode number. If another process has compacted the base, it is
    followed first: LMDB must not open the new file twice either."""
    data = directory / DATA
    for base in list(_uses):
        if base.closed:
            base.close()  # again: the first time may have been interrupted
            continue
        if not data.exists():
            continue
        if not base.owned and not base.is_of(data) and _is_same(base.directory, directory):
            with contextlib.suppress(Error):  # the file belongs to another store
                base.follow()
        if base.is_of(data):
            return base
    return None


def _is_same(first: Path, second: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(first, second)
    return False


def loan_of(base: Base) -> int:
    """The number of the owner's loan, which ``give_back`` takes."""
    return _uses[base].owner


def give_back(base: Base, *, owner: int = 0) -> None:
    """Undo one ``borrow``: the loan of an ``owner``, given by its number, or that of a reader."""
    with _lock:
        uses = _uses.get(base)
        if uses is None:
            return  # this is a forked child, and the base is its parent's
        if owner and owner != uses.owner:
            return
        if owner:
            uses.owner = 0
        else:
            uses.readers -= 1
        base.owned = bool(uses.owner)
        uses.adjust_hold(base.directory)
        if not uses.owner and uses.readers <= 0:
            base.close()


def _forget_after_fork() -> None:
    """Forget the bases in a forked child: they are the parent's. Close the child's copies of their locks."""
    global _lock
    _lock = threading.RLock()
    for uses in _uses.values():
        if uses.hold is not None:
            uses.hold.close()
    _uses.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
