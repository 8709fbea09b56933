"""Reading a stretch of an LMDB table: at most so many entries, in either direction.

A scan takes stretches and never holds an LMDB transaction between two of them, because LMDB cannot reuse a page while
an older reader lives.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lmdb

_key = itemgetter(0)


def stretch(
    txn: lmdb.Transaction[bytes], table: lmdb._Database, low: bytes, high: bytes | None, limit: int, reverse: bool
) -> tuple[list[tuple[bytes, bytes]], bool]:
    """Up to ``limit`` entries with ``low <= key < high`` in scan order, and whether there may be more.

    ``high`` of None means to the end of the table.
    """
    cursor = txn.cursor(table)
    if not reverse:
        if not cursor.set_range(low):
            return [], False
        entries = list(islice(cursor.iternext(), limit))
        if high is not None and entries and entries[-1][0] >= high:
            return entries[: bisect_left(entries, high, key=_key)], False
        return entries, len(entries) == limit
    found = cursor.last() if high is None or not cursor.set_range(high) else cursor.prev()
    if not found:
        return [], False
    entries = list(islice(cursor.iterprev(), limit))
    if entries[-1][0] < low:
        entries.reverse()
        entries = entries[bisect_left(entries, low, key=_key) :]
        entries.reverse()
        return entries, False
    return entries, len(entries) == limit


def distinct_keys(
    txn: lmdb.Transaction[bytes], table: lmdb._Database, low: bytes, high: bytes | None, limit: int, reverse: bool
) -> tuple[list[bytes], bool]:
    """As :func:`stretch`, for the distinct keys of a table with duplicates."""
    cursor = txn.cursor(table)
    keys: list[bytes] = []
    if not reverse:
        found = cursor.set_range(low)
    else:
        found = cursor.last() if high is None or not cursor.set_range(high) else cursor.prev_nodup()
    while found:
        key = cursor.key()
        if key < low if reverse else (high is not None and key >= high):
            return keys, False
        if len(keys) == limit:
            return keys, True
        keys.append(key)
        found = cursor.prev_nodup() if reverse else cursor.next_nodup()
    return keys, False
