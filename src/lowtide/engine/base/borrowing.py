"""One base per process and file: LMDB must not be opened twice, so owner and readers share what is open.

Who writes: the uses of a base under ``_lock``. A base is closed when the last one gives it back. Only those who
borrowed it keep it alive: what an interrupted opening leaves behind goes with the last reference to it. While this
process does not own the store, it holds the base shared (see sharing), so that no owner exchanges its file.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path

from lowtide.engine.base.environment import Base
from lowtide.engine.base.media import is_read_only, not_writable
from lowtide.engine.base.sharing import SharedUse
from lowtide.engine.base.soundness import check_owned
from lowtide.errors import CorruptionError


@dataclass(slots=True)
class _Uses:
    """Who uses a base in this process."""

    readers: int = 0
    owner: int = 0
    """Which owner, by the number of its loan; 0 for none. An earlier one may have been interrupted before it gave the
    base back, and must not take it from a later one when it does."""
    hold: SharedUse | None = None
    fixed: bool = False
    """Whether no process can write the base, so that its file cannot be exchanged."""

    def adjust_hold(self, directory: Path) -> None:
        """Hold the base shared iff it has readers and no owner here."""
        if self.readers and not self.owner and self.hold is None and not self.fixed:
            self.hold = SharedUse(directory)
        elif (self.owner or not self.readers) and self.hold is not None:
            self.hold.close()
            self.hold = None


_lock = threading.RLock()
_loans = itertools.count(1)
_uses: weakref.WeakKeyDictionary[Base, _Uses] = weakref.WeakKeyDictionary()


def borrow(directory: Path, map_size: int, *, create: bool = False, owner: bool = False) -> Base:
    """The base in ``directory``, opened if this process does not have it open. A reader that takes a pin may have
    to grow its map; LMDB tells the other processes."""
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
        uses.adjust_hold(directory)
        return base


def _hold(directory: Path) -> SharedUse:
    try:
        return SharedUse(directory)
    except OSError as error:
        raise (not_writable(directory, error) or error) from error


def _check_sound(base: Base) -> None:
    """Refuse a base with a damaged page to the one who is going to write it: see structure."""
    try:
        base.examine(lambda env: check_owned(env, base.directory))
    except CorruptionError:
        if not _uses[base].readers:
            _uses.pop(base)
            base.close()
        raise


def _find(directory: Path) -> Base | None:
    """The base that this process has open on the file that is there now. One whose file was deleted is not meant, even
    if another directory has its place, or its number, now."""
    data = directory / "data.mdb"
    for base in list(_uses):
        if base.closed:
            base.close()  # again: the first time may have been interrupted
        elif data.exists() and base.is_of(data):
            return base
    return None


def loan_of(base: Base) -> int:
    """The number of the owner's loan, to give it back with."""
    return _uses[base].owner


def give_back(base: Base, *, owner: int = 0) -> None:
    """Undo one ``borrow``: the loan of an ``owner``, by its number, or one of a reader's."""
    with _lock:
        uses = _uses.get(base)
        if uses is None:
            return  # a forked child's copy of its parent's
        if owner and owner != uses.owner:
            return
        if owner:
            uses.owner = 0
        else:
            uses.readers -= 1
        uses.adjust_hold(base.directory)
        if not uses.owner and uses.readers <= 0:
            base.close()


def _forget_after_fork() -> None:
    """In a forked child: the bases are the parent's. Its copies of their locks are given up."""
    global _lock
    _lock = threading.RLock()
    for uses in _uses.values():
        if uses.hold is not None:
            uses.hold.close()
    _uses.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
