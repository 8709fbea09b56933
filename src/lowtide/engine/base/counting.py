"""Counting the keys of a range from the headers of LMDB's pages, without reading rows.

The count is exact, or there is none. If no row of the keyspace is newer than the instant, all rows count except the
tombstones, which have a table of their own. O(leaf pages + tombstones + requested keys).
"""

from __future__ import annotations

from struct import error as StructError
from typing import TYPE_CHECKING, Final

from lowtide.engine.base.codec import is_tombstone
from lowtide.engine.base.marks import newest_in
from lowtide.engine.base.pages import Unreadable, decode_table
from lowtide.engine.types import KEYSPACE_PREFIX

if TYPE_CHECKING:
    import lmdb

    from lowtide.engine.base.environment import Base

_MOST_TOMBSTONES: Final = 20_000
"""Above this number it is faster to read the rows."""


def count_rows(
    base: Base, txn: lmdb.Transaction[bytes], low: bytes, high: bytes | None, ts: int, keys: list[bytes]
) -> tuple[int, set[bytes]] | None:
    """How many keys with ``low <= key < high``, all of one keyspace, have a row at ``ts``, and which of the ascending
    ``keys`` do. None if the pages do not show it."""
    newest = newest_in(base, txn, low[:KEYSPACE_PREFIX])
    if (base.boundary_in(txn) or 0) > ts and (newest is None or newest > ts):
        return None
    if int(txn.stat(base.tombstones)["entries"]) > _MOST_TOMBSTONES:
        return None
    try:
        with base.pages(txn) as pages:
            count = pages.count_between(decode_table(txn.get(b"rows")), low, high)
    except (Unreadable, OSError, StructError):
        return None
    found = {key for key, row in txn.cursor(base.rows).getmulti(keys) if not is_tombstone(row)}
    return count - _tombstones(base, txn, low, high), found


def _tombstones(base: Base, txn: lmdb.Transaction[bytes], low: bytes, high: bytes | None) -> int:
    """The number of tombstone rows in a range. The key of an entry may have a value again, or occur twice."""
    cursor = txn.cursor(base.tombstones)
    keys = {entry[8:] for entry in cursor.iternext(values=False)}
    among = sorted(key for key in keys if low <= key and (high is None or key < high))
    return sum(is_tombstone(row) for _, row in txn.cursor(base.rows).getmulti(among))
