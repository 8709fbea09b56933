"""An examination of every page of LMDB's file, before LMDB reads it.

LMDB has no checksums, and trusts its pages: on a damaged one it may raise an error, call abort(), or read outside of
the map and crash the process. So the pages are examined here, without LMDB. Each page of each table is checked for what
LMDB assumes: its number and kind, that its nodes are inside it, that its keys ascend and are within the bounds given by
its parent page, that every page is used once, that no free page is in use, and that tables have as many entries as they
record. LMDB can read and write a file that has no fault here.

It cannot find a changed byte inside a value, or a changed key that still fits its place.

The layout is described in pages. The caller holds an LMDB read transaction in an environment with locks, or knows that
no process writes the file. LMDB reuses no page of the transaction's state while it is registered. It does overwrite the
transaction's meta page, in the second commit that follows. So the meta page is copied once, at the beginning, and never
read again.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from operator import ge
from pathlib import Path
from struct import Struct, unpack_from
from struct import error as StructError
from typing import NamedTuple

from lowtide.engine.base.pages import Unreadable

_HEADER = Struct("=QHHHH")
_NODE = Struct("=HHHH")
_TABLE = Struct("=IHHQQQQQ")
_META = Struct("=II")
_NUMBER = Struct("=Q")
_LENGTH = Struct("=I")
_HEAD = _HEADER.size
_META_AT = _HEAD
_FREE_AT = _META_AT + 24
_MAIN_AT = _FREE_AT + _TABLE.size
_LAST_AT = _MAIN_AT + _TABLE.size
_TXN_AT = _LAST_AT + 8
_MAGIC, _VERSION = 0xBEEFC0DE, 1

_BRANCH, _LEAF, _OVERFLOW, _META_PAGE, _DIRTY, _FIXED, _WITHIN = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40
_LARGE, _TREE, _DUPLICATES = 0x01, 0x02, 0x04
_NONE = (1 << 64) - 1
_DEEPEST = 32
_MOST_FAULTS = 100
_FEW = 16

FREE = "free pages"
TABLES = "tables"


class Fault(NamedTuple):
    """A damaged page, and the table it was found in."""

    table: str
    page: int
    what: str

    def __str__(self) -> str:
        return f"page {self.page}, of the table {self.table!r}: {self.what}"


class Structure(NamedTuple):
    """The result of an examination: how many pages are in use, and up to a hundred faults."""

    pages: int
    faults: list[Fault]


class _Broken(Exception):
    """A page is damaged."""


class _Nodes(NamedTuple):
    """The nodes of a page: their keys, and the offset, size and flags of each node's content."""

    keys: list[bytes]
    contents: list[tuple[int, int, int]]


class Examiner:
    """Walks over a file once. ``txn`` is the LMDB transaction whose state to examine; None for the newest one.

    ``pause`` is called after every few pages.

    Raises Unreadable if the file has no meta page of that transaction: it is the wrong file, or there were two commits
    since.
    """

    def __init__(self, path: Path, txn: int | None = None, pause: Callable[[], object] = bool) -> None:
        self._pause = pause
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        except ValueError as error:
            raise Unreadable("the file is empty") from error
        finally:
            os.close(descriptor)
        self.used: dict[int, str] = {}
        """The pages found to be in use, and by which table."""
        self.free: list[int] = []
        self._faults: list[Fault] = []
        try:
            self._meta = self._copy_meta(txn)
            self.last_page: int = _NUMBER.unpack_from(self._meta, _LAST_AT)[0]
        except (StructError, Unreadable) as error:
            self._map.close()
            raise Unreadable(str(error)) from error

    def close(self) -> None:
        self._map.close()

    def __enter__(self) -> Examiner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _copy_meta(self, txn: int | None) -> bytes:
        """A copy of the meta page of ``txn``. The page in the file may be overwritten at any time after this."""
        size: int = _TABLE.unpack_from(self._map, _FREE_AT)[0]
        if not 512 <= size <= 1 << 16 or size & (size - 1):
            raise Unreadable(f"pages of {size} bytes")
        self._size = size
        found = {}
        for at in (0, size):
            end = at + _TXN_AT + _NUMBER.size
            meta = self._map[at:end]
            number, _, flags, _, _ = _HEADER.unpack_from(meta)
            magic = _META.unpack_from(meta, _META_AT)
            if (number, flags & ~_DIRTY, *magic) != (at // size, _META_PAGE, _MAGIC, _VERSION):
                raise Unreadable(f"page {at // size} is no meta page of format {_VERSION}")
            if meta == self._map[at:end]:  # otherwise a commit is overwriting it, so it is no longer that of ``txn``
                found[int(_NUMBER.unpack_from(meta, _TXN_AT)[0])] = meta
        wanted = max(found, default=0) if txn is None else txn
        if wanted not in found:
            raise Unreadable(f"the file has the states of LMDB's transactions {sorted(found)}, not of {txn}")
        return found[wanted]

    def examine(self) -> Structure:
        """Examine all tables, and the free pages."""
        records: list[tuple[str, bytes]] = []

        def collect(key: bytes, content: bytes, flags: int) -> None:
            if flags == _TREE:
                records.append((key.decode(errors="replace"), content))

        def collect_free(key: bytes, content: bytes, flags: int) -> None:
            self.free += self._free_pages(content)

        self._table(TABLES, self._meta[_MAIN_AT:_LAST_AT], visit=collect)
        for name, record in records:
            self._table(name, record)
        self._table(FREE, self._meta[_FREE_AT:_MAIN_AT], order=_by_number, visit=collect_free)
        seen: set[int] = set()
        for number in self.free:
            if number in self.used:
                self._fault(FREE, number, f"it is free and in use by {self.used[number]!r}, and will be overwritten")
            elif number in seen:
                self._fault(FREE, number, "it is free twice")
            seen.add(number)
        return Structure(len(self.used), self._faults)

    def examine_few(self, names: Collection[str], most: int) -> Structure:
        """Examine the table of tables, and the tables in ``names`` that have at most ``most`` pages."""
        records: list[tuple[str, bytes]] = []

        def collect(key: bytes, content: bytes, flags: int) -> None:
            records.append((key.decode(errors="replace"), content))

        self._table(TABLES, self._meta[_MAIN_AT:_LAST_AT], visit=collect)
        for name, record in records:
            if name in names and len(record) == _TABLE.size and sum(_TABLE.unpack(record)[3:6]) <= most:
                self._table(name, record)
        return Structure(len(self.used), self._faults)

    def _fault(self, table: str, page: int, what: str) -> None:
        if len(self._faults) < _MOST_FAULTS:
            self._faults.append(Fault(table, page, what))

    # Tables

    def _table(
        self,
        name: str,
        record: bytes,
        order: Callable[[bytes], bytes] = bytes,
        visit: Callable[[bytes, bytes, int], None] | None = None,
        at: int = 0,
    ) -> int:
        """Examine one B+tree; return its number of entries. ``at`` is the page that its record is on."""
        faults = len(self._faults)
        if len(record) != _TABLE.size:
            self._fault(name, at, f"the record of the table has {len(record)} bytes")
            return 0
        _, _, depth, _, _, _, entries, root = _TABLE.unpack(record)
        if root == _NONE:
            if entries:
                self._fault(name, at, f"the table has {entries} entries and no page")
            return int(entries)
        if not 0 < depth <= _DEEPEST:
            self._fault(name, at, f"the table has a depth of {depth}")
            return 0
        found = self._tree(name, root, depth, order, visit)
        if len(self._faults) == faults and found != entries:
            self._fault(name, root, f"the table has {found} entries, but records {entries}")
        return found

    def _tree(
        self,
        name: str,
        root: int,
        depth: int,
        order: Callable[[bytes], bytes],
        visit: Callable[[bytes, bytes, int], None] | None,
    ) -> int:
        found = 0
        waiting: list[tuple[int, int, bytes | None, bytes | None]] = [(root, depth, None, None)]
        while waiting:
            number, depth, low, high = waiting.pop()
            try:
                self._take(name, number)
                if depth > 1:
                    waiting += self._children(number, depth, low, high, order)
                else:
                    found += self._leaf(name, number, low=low, high=high, order=order, visit=visit)
            except (_Broken, StructError) as error:
                self._fault(name, number, str(error))
        return found

    def _take(self, name: str, number: int) -> None:
        """Record that a page is in use. It must exist, and have no other use."""
        if not 1 < number <= self.last_page or (number + 1) * self._size > len(self._map):
            raise _Broken(f"there is no such page, the last one is {self.last_page}")
        if number in self.used:
            raise _Broken(f"it is in use twice, also by {self.used[number]!r}")
        self.used[number] = name
        if len(self.used) % _FEW == 0:
            self._pause()

    def _children(
        self, number: int, depth: int, low: bytes | None, high: bytes | None, order: Callable[[bytes], bytes]
    ) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
        """The pages below a branch page, with the bounds of their keys."""
        page = self._page(number, _BRANCH)
        offsets = self._offsets(page, 2)
        keys = [order(self._key(page, offset)) for offset in offsets[1:]]
        _check_order(keys, low, high)
        for offset, below, above in reversed([*zip(offsets, [low, *keys], [*keys, high], strict=True)]):
            first, second, third, _ = _NODE.unpack_from(page, offset)
            yield first | second << 16 | third << 32, depth - 1, below, above

    def _leaf(
        self,
        name: str,
        number: int,
        low: bytes | None,
        high: bytes | None,
        order: Callable[[bytes], bytes],
        visit: Callable[[bytes, bytes, int], None] | None,
    ) -> int:
        """Examine a leaf and the pages that belong to it; return the number of entries."""
        if self._kind(number) == _LEAF | _FIXED:
            return self._fixed(self._page(number, _LEAF | _FIXED))
        page = self._page(number, _LEAF)
        nodes = self._nodes(page)
        _check_order(nodes.keys if order is bytes else [order(key) for key in nodes.keys], low, high)
        if visit is None and not any(flags for _, _, flags in nodes.contents):
            return len(nodes.keys)
        found = 0
        for key, (at, size, flags) in zip(nodes.keys, nodes.contents, strict=True):
            if flags & _LARGE:
                self._large(name, _NUMBER.unpack_from(page, at)[0], size)
            content = page[at : at + size]
            if visit is not None:
                visit(key, self._content(page, at, size, flags), flags)
            if flags & _DUPLICATES and flags & _TREE:
                found += self._table(name, content, at=number)
            elif flags & _DUPLICATES:
                found += self._within(content)
            else:
                found += 1
        return found

    def _large(self, name: str, number: int, size: int) -> None:
        """Examine the first page of a large value, and record that all its pages are in use."""
        if not 1 < number <= self.last_page or (number + 1) * self._size > len(self._map):
            raise _Broken(f"a value should be on page {number}, but the last page is {self.last_page}")
        if self._kind(number) != _OVERFLOW or _NUMBER.unpack_from(self._map, number * self._size)[0] != number:
            raise _Broken(f"a value should be on page {number}, which holds no large value")
        count: int = _LENGTH.unpack_from(self._map, number * self._size + 12)[0]
        if count * self._size < size + _HEAD or number + count - 1 > self.last_page:
            raise _Broken(f"a value of {size} bytes should be on {count} pages from {number} on")
        for each in range(number, number + count):
            self._take(name, each)

    def _content(self, page: bytes, at: int, size: int, flags: int) -> bytes:
        if not flags & _LARGE:
            return page[at : at + size]
        start = _NUMBER.unpack_from(page, at)[0] * self._size + _HEAD
        return self._map[start : start + size]

    def _free_pages(self, content: bytes) -> list[int]:
        """Decode the pages that one transaction has freed: their count, then their numbers, descending."""
        if len(content) < 8 or len(content) % 8:
            raise _Broken(f"a list of free pages has {len(content)} bytes")
        count, *numbers = unpack_from(f"={len(content) // 8}Q", content)
        numbers = numbers[:count]
        if count > len(content) // 8 - 1 or any(not 1 < number <= self.last_page for number in numbers):
            raise _Broken("a list of free pages has more pages than fit it, or some that do not exist")
        if any(first <= second for first, second in pairwise(numbers)):
            raise _Broken("a list of free pages is not in order")
        return numbers

    # Pages

    def _kind(self, number: int) -> int:
        return int(_HEADER.unpack_from(self._map, number * self._size)[2]) & ~_DIRTY

    def _page(self, number: int, kind: int) -> bytes:
        page = self._map[number * self._size : (number + 1) * self._size]
        found, _, flags, _, _ = _HEADER.unpack_from(page)
        if found != number or flags & ~_DIRTY != kind:
            raise _Broken(f"its header says page {found} and flags {flags}; flags {kind} are expected")
        return page

    def _offsets(self, page: bytes, least: int) -> tuple[int, ...]:
        """The offsets of the nodes of a page, or of a page inside a node."""
        _, _, _, lower, upper = _HEADER.unpack_from(page)
        if not _HEAD <= lower <= upper <= len(page) or lower % 2:
            raise _Broken(f"its free space cannot be from {lower} to {upper}")
        offsets = unpack_from(f"={(lower - _HEAD) // 2}H", page, _HEAD)
        if len(offsets) < least:
            raise _Broken(f"it has {len(offsets)} nodes")
        if offsets and not (min(offsets) >= upper and max(offsets) <= len(page) - _NODE.size):
            raise _Broken("a node lies outside of it")
        return offsets

    def _key(self, page: bytes, offset: int) -> bytes:
        start = offset + _NODE.size
        end = start + _NODE.unpack_from(page, offset)[3]
        if end > len(page):
            raise _Broken("a key lies outside of it")
        return page[start:end]

    def _nodes(self, page: bytes) -> _Nodes:
        # An examination spends most of its time here, so there are no calls, and each node is read once.
        keys, contents = [], []
        unpack, end = _NODE.unpack_from, len(page)
        for offset in self._offsets(page, 1):
            low, high, flags, length = unpack(page, offset)
            at = offset + 8 + length
            size = low | high << 16
            if flags and (flags & ~(_LARGE | _TREE | _DUPLICATES) or (flags & _LARGE and flags != _LARGE)):
                raise _Broken(f"a node has flags {flags}")
            if at > end or at + (8 if flags & _LARGE else size) > end:
                raise _Broken("a key or a value lies outside of it")
            keys.append(page[offset + 8 : at])
            contents.append((at, size, flags))
        return _Nodes(keys, contents)

    def _within(self, page: bytes) -> int:
        """Examine the small page inside a node that holds the values of one key; return their number."""
        if len(page) < _HEAD:
            raise _Broken(f"the values of a key have {len(page)} bytes")
        kind = _HEADER.unpack_from(page)[2] & ~_DIRTY
        if kind == _LEAF | _FIXED | _WITHIN:
            return self._fixed(page)
        if kind != _LEAF | _WITHIN:
            raise _Broken(f"the values of a key have flags {kind}")
        nodes = self._nodes(page)
        _check_order(list(nodes.keys), None, None)
        return len(nodes.keys)

    def _fixed(self, page: bytes) -> int:
        """Examine a page of values of equal size."""
        _, size, _, lower, upper = _HEADER.unpack_from(page)
        count = (lower - _HEAD) // 2
        if not _HEAD <= lower <= upper <= len(page) or _HEAD + count * size > len(page):
            raise _Broken(f"it has {count} values of {size} bytes")
        return int(count)


def _by_number(key: bytes) -> bytes:
    """Convert a key that is a native integer, so that it sorts as a number."""
    return int.from_bytes(key, sys.byteorder).to_bytes(16, "big")


def _check_order(keys: list[bytes], low: bytes | None, high: bytes | None) -> None:
    """Check that the keys ascend, from ``low`` on, and stay below ``high``."""
    if any(map(ge, keys, keys[1:])) or (keys and low is not None and keys[0] < low):
        raise _Broken("its keys are not in order")
    if keys and high is not None and keys[-1] >= high:
        raise _Broken("its keys belong to another page")
