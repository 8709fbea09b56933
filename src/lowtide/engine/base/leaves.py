"""Decodes the entries of a stretch of rows from LMDB's leaf pages, with a single copy of each key and value.

LMDB's cursor copies the key and the row. Cutting off the keyspace's prefix and the row's timestamp then copies both
again. This module copies them once. Compiled, it takes less than half the time of the cursor; interpreted, it takes
longer. So only a compiled build reads this way, see ``leaf_file``.

The layout of pages is described in ``pages``. This module only reads. The caller holds an LMDB read transaction open,
and checks afterwards that it is still open. LMDB reuses no page that the transaction sees, so the pages do not change
while it is. If it was ended meanwhile, a page may have any content. No content makes this read outside of a page or run
forever: each leaf but the first adds to what was read, and ``limit`` ends it. An unexpected page raises Unreadable or
IndexError.
"""

from __future__ import annotations

from os import fstat, pread
from typing import TYPE_CHECKING, Final

from lowtide.engine.base.pages import Unreadable

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine integer if compiled; not needed at run time

    from lowtide.engine.base.chunks import Entry

_HEADER: Final = 16
_NODE: Final = 8
_TS: Final = 8
_BRANCH: Final = 1
_LEAF: Final = 2
_OVERFLOW: Final = 4
_DIRTY: Final = 16
"""A flag that only matters in memory; ignored here."""
_LARGE: Final = 1
"""The flag of a node whose value has pages of its own."""
_MOST_BYTES: Final = 64 << 20
"""A stretch ends after this many bytes of large values: the usual number of them would exhaust the memory."""


class LeafWalk:
    """One pass over the leaves of a table in the file ``descriptor``, whose pages have ``size`` bytes. Used by one
    thread; ``entries`` or ``values`` is called once."""

    __slots__ = ("_depth", "_descriptor", "_large", "_pages", "_places", "_root", "_size")

    def __init__(self, descriptor: int, size: int, root: int, depth: int) -> None:
        self._descriptor = descriptor
        self._size = size
        self._root = root
        self._depth = depth
        self._pages: list[bytes] = []
        """The branch pages from the root to the leaf, and in ``_places`` the node of each that leads there."""
        self._places: list[int] = []
        self._large = 0
        """The bytes of large values that were read."""

    def entries(
        self, low: bytes, high: bytes | None, limit: int, ts: int, strip: int
    ) -> tuple[list[Entry], bytes | None]:
        """The entries visible at ``ts`` among up to ``limit`` rows with ``low <= key < high``, in order, as keys
        without their first ``strip`` bytes and values; and the last key read, None if the range is exhausted. Reads
        fewer rows if they are large."""
        found: list[Entry] = []
        return found, self._read(low, high, limit=limit, ts=ts, strip=strip, entries=found, values=None)

    def values(self, low: bytes, high: bytes | None, limit: int, ts: int) -> tuple[list[bytes], bytes | None]:
        """The same as ``entries``, without keys."""
        found: list[bytes] = []
        return found, self._read(low, high, limit=limit, ts=ts, strip=0, entries=None, values=found)

    def _read(
        self,
        low: bytes,
        high: bytes | None,
        limit: int,
        ts: int,
        strip: int,
        entries: list[Entry] | None,
        values: list[bytes] | None,
    ) -> bytes | None:
        """Add what is found to ``entries`` or ``values``; return the last key, None at the end of the range."""
        left: i64 = limit
        if not self._depth or left <= 0:
            return None
        number = self._descend(low)
        page = self._page(number)
        count = _count(page, number, _LEAF)
        first = _rank(page, count, low)
        while True:
            end = count
            within = high is None or not count or _key(page, count - 1) < high
            if high is not None and not within:
                end = _rank(page, count, high)
            if end - first > left:
                end = first + left
                within = True
            if entries is not None:
                stop = self._add_entries(page, first, end, ts=ts, strip=strip, found=entries)
            else:
                assert values is not None
                stop = self._add_values(page, first, end, ts, values)
            if stop == end and not within:
                return None
            end = stop
            if end > first:
                left -= end - first
                if left <= 0 or self._large > _MOST_BYTES:
                    last = _key(page, end - 1)
                    if last < low:  # the caller goes on after it, so it would never end
                        raise Unreadable(f"page {number} has a key below those that lead to it")
                    return last
            number = self._next_leaf()
            if not number:
                return None
            page = self._page(number)
            count = _count(page, number, _LEAF)
            if not count:
                raise Unreadable(f"page {number} is an empty leaf")
            first = 0

    def _page(self, number: int) -> bytes:
        return pread(self._descriptor, self._size, number * self._size)

    def _descend(self, low: bytes) -> int:
        """The number of the leaf to which ``low`` belongs."""
        number = self._root
        for _ in range(self._depth - 1):
            page = self._page(number)
            place = _last_upto(page, _count(page, number, _BRANCH), low)
            self._pages.append(page)
            self._places.append(place)
            number = _child(page, place)
        return number

    def _next_leaf(self) -> int:
        """The number of the leaf after the current one; 0 if there is none. Page 0 is never a leaf."""
        pages, places = self._pages, self._places
        level = len(pages) - 1
        while level >= 0 and _HEADER + 2 * (places[level] + 1) >= _short(pages[level], 12):
            level -= 1
        if level < 0:
            return 0
        page, place = pages[level], places[level] + 1
        places[level] = place
        number = _child(page, place)
        for below in range(level + 1, len(pages)):
            pages[below] = page = self._page(number)
            _count(page, number, _BRANCH)
            places[below] = 0
            number = _child(page, 0)
        return number

    def _add_entries(self, page: bytes, first: i64, end: i64, ts: i64, strip: i64, found: list[Entry]) -> i64:
        """Add the visible entries of the nodes from ``first`` to before ``end`` of a leaf. Returns where it stopped,
        which is before ``end`` if large values add up to many bytes."""
        size: i64 = len(page)
        place = first
        while place < end:
            node = _short(page, _HEADER + 2 * place)
            length = _short(page, node) | _short(page, node + 2) << 16
            key = node + _NODE
            value: i64 = key + _short(page, node + 6)
            flags: i64 = page[node + 4]
            place += 1
            if flags:
                row = self._large_row(page, flags, value, length, ts)
                if row is not None:
                    found.append((page[key + strip : value], row))
                if self._large > _MOST_BYTES:
                    return place
            else:
                stop: i64 = value + length
                if length < _TS or stop > size:
                    raise Unreadable("a leaf has a row that is too short or leaves it")
                if 0 <= _ts(page, value) <= ts:
                    found.append((page[key + strip : value], page[value + _TS : stop]))
        return place

    def _add_values(self, page: bytes, first: i64, end: i64, ts: i64, found: list[bytes]) -> i64:
        """The same as ``_add_entries``, without keys."""
        size: i64 = len(page)
        place = first
        while place < end:
            node = _short(page, _HEADER + 2 * place)
            length = _short(page, node) | _short(page, node + 2) << 16
            value: i64 = node + _NODE + _short(page, node + 6)
            flags: i64 = page[node + 4]
            place += 1
            if flags:
                row = self._large_row(page, flags, value, length, ts)
                if row is not None:
                    found.append(row)
                if self._large > _MOST_BYTES:
                    return place
            else:
                stop: i64 = value + length
                if length < _TS or stop > size:
                    raise Unreadable("a leaf has a row that is too short or leaves it")
                if 0 <= _ts(page, value) <= ts:
                    found.append(page[value + _TS : stop])
        return place

    def _large_row(self, page: bytes, flags: i64, at: i64, length: int, ts: i64) -> bytes | None:
        """The value of a row that has pages of its own, whose number is at ``at``; None if it is not visible."""
        if flags != _LARGE:
            raise Unreadable(f"a leaf has a node with flags {flags}")
        number: int = _long(page, at)
        first = self._page(number)
        size, needed = len(first), _HEADER + length
        _check(first, number, _OVERFLOW)
        pages: int = _short(first, 12) | _short(first, 14) << 16
        if length < _TS or pages != -(-needed // size):
            raise Unreadable(f"page {number} begins {pages} pages with a row of {length} bytes")
        if not 0 <= _ts(first, _HEADER) <= ts:
            return None
        if number * size + needed > fstat(self._descriptor).st_size:
            raise Unreadable(f"the row on page {number} leaves the file")
        self._large += length
        return pread(self._descriptor, length - _TS, number * size + _HEADER + _TS)


def _short(page: bytes, at: i64) -> i64:
    low: i64 = page[at]
    high: i64 = page[at + 1]
    return low | high << 8


def _long(page: bytes, at: i64) -> i64:
    """The number of a page. No file has so many pages that the upper two of the eight bytes are needed."""
    if _short(page, at + 6):
        raise Unreadable("the number of a page is too large")
    return _short(page, at) | _short(page, at + 2) << 16 | _short(page, at + 4) << 32


def _ts(page: bytes, at: i64) -> i64:
    """The timestamp of a row. For a tombstone it is negative or, in plain Python, larger than any other."""
    ts: i64 = 0
    end: i64 = at + _TS
    while at < end:
        byte: i64 = page[at]
        ts = ts << 8 | byte
        at += 1
    return ts


def _check(page: bytes, number: int, kind: i64) -> None:
    found: int = _long(page, 0)
    flags = _short(page, 10)
    if found != number or flags & ~_DIRTY != kind:
        raise Unreadable(f"page {number} has number {found} and flags {flags}")


def _count(page: bytes, number: int, kind: i64) -> i64:
    """The number of nodes of a page, which must be of this kind."""
    _check(page, number, kind)
    lower, upper = _short(page, 12), _short(page, 14)
    size: i64 = len(page)
    if lower < _HEADER or lower > upper or upper > size:
        raise Unreadable(f"page {number} has its gap from {lower} to {upper}")
    return (lower - _HEADER) >> 1


def _key(page: bytes, place: i64) -> bytes:
    node = _short(page, _HEADER + 2 * place)
    key: i64 = node + _NODE
    return page[key : key + _short(page, node + 6)]


def _child(page: bytes, place: i64) -> int:
    node = _short(page, _HEADER + 2 * place)
    number: i64 = _short(page, node) | _short(page, node + 2) << 16 | _short(page, node + 4) << 32
    return number


def _last_upto(page: bytes, count: i64, bound: bytes) -> i64:
    """The last node of a branch page whose key is not above ``bound``. The first one's key stands for everything
    smaller."""
    first: i64 = 1
    end = count
    while first < end:
        middle: i64 = (first + end) >> 1
        if _key(page, middle) > bound:
            end = middle
        else:
            first = middle + 1
    return first - 1


def _rank(page: bytes, count: i64, bound: bytes) -> i64:
    """How many keys of a leaf lie below ``bound``."""
    first: i64 = 0
    end = count
    while first < end:
        middle: i64 = (first + end) >> 1
        if _key(page, middle) < bound:
            first = middle + 1
        else:
            end = middle
    return first
