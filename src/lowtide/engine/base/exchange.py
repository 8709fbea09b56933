"""Copying the base, and replacing its file, while this process continues to read."""

from __future__ import annotations

from collections.abc import Callable

import lmdb

from lowtide.engine.base.environment import Base
from lowtide.errors import DiskFull, Error

COMPACTED = "data.mdb.tmp"
"""A copy that will replace ``data.mdb``. One that is found at opening was never finished."""


def copy_base(base: Base, descriptor: int) -> None:
    """Write the base as of the last LMDB commit, without free pages, to a file. Reads and writes continue. The map must
    not move meanwhile: LMDB reads it without py-lmdb's knowledge."""
    with base.steady:
        try:
            base.env.copyfd(descriptor, compact=True)
        except lmdb.DiskError as error:
            raise DiskFull(f"no room for a copy of {base.directory}: {error}; nothing was changed") from error
        except lmdb.Error as error:
            raise Error(f"LMDB could not copy {base.directory}: {error}") from error


def reopen(base: Base, exchange: Callable[[], None]) -> None:
    """Call ``exchange``, which replaces ``data.mdb`` by a file with the same content, and continue with that file.

    The caller holds ``base.writing``, and no other process has the base open. Reads that are cut short are retried, see
    ``Base._again``: they find their environment closed, or a table that belongs to the other one.
    """
    with base.steady, base.keep_readers_out():
        map_size = base.map_size
        try:
            exchange()
        finally:
            # Even if it failed, since it may have replaced the file: what is written to a file without a name is lost.
            # Whichever file is there now, it holds everything. The ``try`` begins right here: if it were in a function,
            # an interrupt at its start would leave the old file in use.
            try:
                base.open_again(map_size)
            except BaseException:
                try:
                    base.open_again(map_size)  # it may have been an interrupt
                except BaseException:
                    base.closed = True  # the files are intact; the next opening finds everything
                raise


def last_change(base: Base) -> int:
    """A number that increases with every LMDB commit of any process."""
    return int(base.env.info()["last_txnid"])
