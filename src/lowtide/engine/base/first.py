"""The first row from a key on: a scan that stops there, with less ado than one in chunks."""

from __future__ import annotations

import lmdb

from lowtide.engine.base.environment import Base


def first_row(base: Base, low: bytes) -> tuple[bytes, bytes] | None:
    """The first key from ``low`` on, with its row, which may be newer than the reader's snapshot, or a tombstone."""
    try:
        with base._begin(base.rows) as txn:
            cursor = txn.cursor()
            return cursor.item() if cursor.set_range(low) else None
    except lmdb.Error as error:
        return base._again(error, lambda: first_row(base, low), low)
