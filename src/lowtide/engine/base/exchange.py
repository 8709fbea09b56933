"""Copying the base, and putting another file in its place, while this process goes on reading."""

from __future__ import annotations

from collections.abc import Callable

import lmdb

from lowtide.engine.base.environment import Base
from lowtide.errors import DiskFull, Error

COMPACTED = "data.mdb.tmp"
"""A copy that will take the place of ``data.mdb``; one that is found at opening was never finished."""


def copy_base(base: Base, descriptor: int) -> None:
    """Write the base as the last LMDB commit left it, without free pages, to a file. Others read and write meanwhile;
    the map must not move under LMDB, which reads it without py-lmdb's knowledge."""
    with base.steady:
        try:
            base.env.copyfd(descriptor, compact=True)
        except lmdb.DiskError as error:
            raise DiskFull(f"no room for a copy of {base.directory}: {error}; nothing was changed") from error
        except lmdb.Error as error:
            raise Error(f"LMDB could not copy {base.directory}: {error}") from error


def reopen(base: Base, exchange: Callable[[], None]) -> None:
    """Have ``exchange`` put another file in the place of ``data.mdb``, with the same content, and go on with that one.

    The caller holds ``base.writing``, and no other process has the base open. Reads that are cut short are retried, see
    ``Base._again``: they find their environment closed, or a table that belongs to the other one.
    """
    with base.steady, base.keep_readers_out():
        map_size = base.map_size
        try:
            exchange()
        finally:
            # Also if it failed, since it may have come far enough: what is written to a file that has lost its name is
            # never found again. Whichever file is there now, it holds everything. The ``try`` begins right here: an
            # interrupt at the beginning of a function that has it would leave the lost file in use.
            try:
                base.open_again(map_size)
            except BaseException:
                try:
                    base.open_again(map_size)  # it may have been an interrupt
                except BaseException:
                    base.closed = True  # the files are whole; the next opening finds everything
                raise


def last_change(base: Base) -> int:
    """A number that every LMDB commit of any process raises."""
    return int(base.env.info()["last_txnid"])
