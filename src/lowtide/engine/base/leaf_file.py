"""Reads the file of a base page by page, without LMDB. See ``leaves`` for how, and for what a page may contain.

Pages are read by ``pread``, not through a map of the file. So it does not matter whether LMDB's map moves, or the file
grows: LMDB writes the pages of a commit to the file before readers see the commit. A read releases the GIL. A missing
page raises an error, whereas reading a map beyond the end of the file would kill the process.

Who writes: any reading thread replaces ``_tree`` as a whole; a stale value only costs another lookup. When the base is
opened again on another file, a new LeafFile takes this one's place, under ``Base.keep_readers_out`` and after the old
environment was closed. So no transaction of the old file reads pages of the new one: a reader takes the LeafFile after
its transaction began, and one that still uses the old LeafFile finds its transaction ended.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import lmdb

from lowtide.engine.base.chunks import Entry
from lowtide.engine.base.leaves import LeafWalk
from lowtide.engine.base.pages import Unreadable, decode_table
from lowtide.system.build import BUILD

PAYS: Final = BUILD == "compiled"
"""Whether reading pages is faster than LMDB's cursor. In plain Python it takes twice as long."""

_Result = TypeVar("_Result")
_FAULTS = (Unreadable, IndexError, OSError)


def leaf_file(data: Path, file: os.stat_result, page_size: int) -> LeafFile | None:
    """The pages of ``file``, which has the name ``data``. None if reading them does not pay, or if another process has
    given the name to another file meanwhile."""
    if not PAYS:
        return None
    found = LeafFile(data, page_size)
    return found if found.is_of(file) else None


class LeafFile:
    """Reads the table ``rows``. Each read runs in an LMDB transaction of the caller, which is checked afterwards:
    growing the map ends the transactions of this process, and LMDB may then reuse their pages. Such a read raises
    lmdb.Error, as a read through a cursor does."""

    __slots__ = ("_descriptor", "_size", "_tree")

    def __init__(self, data: Path, page_size: int) -> None:
        self._size = page_size
        self._tree = (-1, 0, 0)
        """LMDB's transaction, and the root and the depth of the table in it."""
        self._descriptor = os.open(data, os.O_RDONLY | os.O_CLOEXEC)

    def is_of(self, file: os.stat_result) -> bool:
        return os.path.samestat(os.fstat(self._descriptor), file)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # the constructor was interrupted
            os.close(self._descriptor)

    def entries(
        self, txn: lmdb.Transaction[bytes], low: bytes, high: bytes | None, *, limit: int, ts: int, strip: int
    ) -> tuple[list[Entry], bytes | None]:
        """See ``LeafWalk.entries``."""
        return self._read(txn, lambda walk: walk.entries(low, high, limit, ts, strip))

    def values(
        self, txn: lmdb.Transaction[bytes], low: bytes, high: bytes | None, *, limit: int, ts: int
    ) -> tuple[list[bytes], bytes | None]:
        """See ``LeafWalk.values``."""
        return self._read(txn, lambda walk: walk.values(low, high, limit, ts))

    def _read(self, txn: lmdb.Transaction[bytes], look: Callable[[LeafWalk], _Result]) -> _Result:
        """Call ``look`` with a walk over the table as ``txn`` sees it. A fault is reported only if it is found
        twice."""
        at = txn.id()
        seen, root, depth = self._tree
        if seen != at:
            root, depth = self._root_and_depth(txn)
            self._tree = (at, root, depth)
        for again in (True, False):
            try:
                found = look(LeafWalk(self._descriptor, self._size, root, depth))
                txn.id()  # raises if the transaction was ended meanwhile
                return found
            except _FAULTS as error:
                txn.id()
                if not again:
                    raise lmdb.CorruptedError(f"{error}") from error
        raise AssertionError

    def _root_and_depth(self, txn: lmdb.Transaction[bytes]) -> tuple[int, int]:
        try:
            table = decode_table(txn.get(b"rows"))
        except Unreadable as error:
            raise lmdb.CorruptedError(f"{error}") from error
        return table.root, table.depth
