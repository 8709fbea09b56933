"""Reading a stretch of an LMDB table: a limited number of entries, in either direction.

A scan takes stretches and never holds an LMDB transaction between two of them, because LMDB cannot reuse a page while
an older reader lives.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lmdb

    from lowtide.engine.base.types import TableHandle

Entry = tuple[bytes, bytes]

_FIRST_STEP = 8
"""The number of entries that are read before a range is known to be longer."""
_FEW_UNDER = 4
"""The number of entries that are read first if a few keys with a prefix are expected."""
_LEAST_STEP = 64
_MOST_WALKED = 4
"""A walk over keys continues as long as one in this many is wanted."""
_MOST_BYTES = 64 << 20
"""A stretch of values ends after about this many bytes: the usual number of large values would exhaust the memory."""
_SAMPLED = 8
"""One in this many values is measured."""
_key = itemgetter(0)


def stretch(
    txn: lmdb.Transaction[bytes], table: TableHandle, low: bytes, high: bytes | None, limit: int, reverse: bool
) -> tuple[list[Entry], bool]:
    """Up to ``limit`` entries with ``low <= key < high`` in scan order, and whether there may be more.

    ``high`` of None means to the end of the table.
    """
    cursor = txn.cursor(table)
    if not reverse:
        if not cursor.set_range(low):
            return [], False
        return _walk(cursor.iternext(), limit, None) if high is None else _walk_upto(cursor.iternext(), limit, high)
    if not (cursor.last() if high is None or not cursor.set_range(high) else cursor.prev()):
        return [], False
    entries, more = _walk(cursor.iterprev(), limit, lambda key: key < low)
    if not more:
        entries.reverse()
        entries = entries[bisect_left(entries, low, key=_key) :]
        entries.reverse()
    return entries, more


def _walk(rest: Iterator[Entry], limit: int, beyond: Callable[[bytes], bool] | None) -> tuple[list[Entry], bool]:
    """Up to ``limit`` entries and a few ``beyond`` the range, and whether there may be more. It reads in steps, because
    entries past the end of the range are wasted. Up to some size, each step doubles what was read."""
    entries: list[Entry] = []
    step = limit if beyond is None else _FIRST_STEP
    while (count := len(entries)) < limit:
        wanted = min(step, limit - count)
        entries += islice(rest, wanted)
        if len(entries) < count + wanted or (beyond is not None and beyond(entries[-1][0])):
            return entries, False
        step = min(len(entries), max(_LEAST_STEP, limit // 8))
    return entries, True


def _walk_upto(rest: Iterator[Entry], limit: int, high: bytes) -> tuple[list[Entry], bool]:
    """Up to ``limit`` entries below ``high``, and whether there may be more. The same as ``_walk``, but without a
    function call per step: most scans are short."""
    entries = list(islice(rest, min(limit, _FIRST_STEP)))
    count, wanted = len(entries), min(limit, _FIRST_STEP)
    while count and count == wanted and entries[-1][0] < high:
        if count == limit:
            return entries, True
        wanted = min(limit, count + min(count, max(_LEAST_STEP, limit // 8)))
        entries += islice(rest, wanted - count)
        count = len(entries)
    if count and entries[-1][0] >= high:
        del entries[bisect_left(entries, high, key=_key) :]
    return entries, False


def visible_entries(entries: list[Entry], newer: bytes, strip: int) -> list[Entry]:
    """The rows below the horizon ``newer``, as pairs of key and value. Keys lose their first ``strip`` bytes."""
    if not strip:
        return [(key, row[8:]) for key, row in entries if row < newer]
    return [(key[strip:], row[8:]) for key, row in entries if row < newer]


def keys_among(cursor: lmdb.Cursor[bytes], wanted: list[bytes]) -> list[bytes]:
    """The keys of ``wanted`` that a table has, and perhaps others, all in ascending order. If the table has few keys
    between the first and the last of them, it walks over those, which is faster than looking up each one."""
    if not cursor.set_range(wanted[0]):
        return []
    rest, last = cursor.iternext(values=False), wanted[-1]
    found: list[bytes] = []
    step = min(len(wanted), _LEAST_STEP)
    while True:
        count = len(found)
        found += islice(rest, step)
        if len(found) < count + step or found[-1] >= last:
            return found
        if len(found) > _MOST_WALKED * bisect_right(wanted, found[-1]):
            return list(map(_key, cursor.getmulti(wanted)))
        step = max(len(wanted) - len(found), len(found) // 4, _LEAST_STEP)


def keys_under(
    cursor: lmdb.Cursor[bytes], prefixes: Sequence[bytes], newer: bytes, *, most: int, strip: int
) -> list[list[bytes] | None]:
    """For each prefix, the keys that begin with it and whose rows are below the horizon ``newer``, without their first
    ``strip`` bytes. None if there are ``most`` or more, or if there are rows but none below the horizon."""
    found: list[list[bytes] | None] = []
    for prefix in prefixes:
        if not cursor.set_range(prefix):
            found.append([])
            continue
        rest = cursor.iternext()
        wanted = _FEW_UNDER
        entries = list(islice(rest, wanted))
        while len(entries) == wanted < most and entries[-1][0].startswith(prefix):
            wanted = min(2 * wanted, most)
            entries += islice(rest, wanted - len(entries))
        if len(entries) == most and entries[-1][0].startswith(prefix):
            found.append(None)
            continue
        keys = [key[strip:] for key, row in entries if key.startswith(prefix) and row < newer]
        found.append(None if not keys and entries[0][0].startswith(prefix) else keys)
    return found


def values_of_stretch(
    txn: lmdb.Transaction[bytes], table: TableHandle, low: bytes, high: bytes | None, limit: int
) -> tuple[list[bytes], bytes | None]:
    """The values of up to ``limit`` entries with ``low <= key < high``, fewer if they are large, and the last of their
    keys, or None if there are no more. Keys are read only where needed: at the end of each step, and in the last step,
    to find where to stop."""
    cursor = txn.cursor(table)
    if not cursor.set_range(low):
        return [], None
    rest = cursor.iternext(keys=False)
    values: list[bytes] = []
    size = 0
    while (count := len(values)) < limit and size < _MOST_BYTES:
        wanted = min(max(count, _LEAST_STEP), limit - count)
        before = cursor.key()
        values += islice(rest, wanted)
        if len(values) == count + wanted and (high is None or cursor.key() < high):
            size += _SAMPLED * sum(map(len, values[count::_SAMPLED]))
            continue
        if high is not None:
            cursor.set_key(before)
            keys = list(islice(cursor.iternext(values=False), wanted + 1))
            del values[max(0, count - 1) + bisect_left(keys, high) :]
        return values, None
    return values, cursor.key()


def distinct_keys(
    txn: lmdb.Transaction[bytes], table: TableHandle, low: bytes, high: bytes | None, limit: int, reverse: bool
) -> tuple[list[bytes], bool]:
    """The same as :func:`stretch`, for the distinct keys of a table with duplicates."""
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
