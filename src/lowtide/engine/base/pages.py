"""The pages of LMDB's file, as needed to count and locate keys.

LMDB can count the keys between two keys only by walking over them. Its B+tree has more information. A branch page lists
its children and the first key of each; a page's header has its number of nodes. A file of format 1, as LMDB 0.9 writes
it, in the machine's byte order:

    page      number u64, pad u16, flags u16, lower u16, upper u16, then an offset u16 for each node, up to ``lower``
    node      low u16, high u16, flags u16, size of the key u16, key, value; in a branch page the first three are the
              child's number; with flag 1 the value is the number, u64, of the page behind whose header it begins
    meta      pages 0 and 1: after the header magic u32, version u32, address u64, size of the map u64, the tables of
              free pages and of tables (48 bytes each, page size first), last page u64, LMDB's transaction u64
    table     pad u32, flags u16, depth u16, branch, leaf and overflow pages u64 each, entries u64, root u64

This module only reads. The caller holds an LMDB read transaction open, and gets the table's record from it. LMDB reuses
no page that the transaction sees, so the pages read here do not change. If the transaction is ended meanwhile, pages
may have any content. They stay mapped, and an unexpected page raises Unreadable.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct, unpack_from
from struct import error as StructError
from types import TracebackType
from typing import NamedTuple, Self

_HEADER = Struct("=QHHHH")
_NODE = Struct("=HHHH")
_META = Struct("=IIQQ")
_TABLE = Struct("=IHHQQQQQ")
_NUMBER = Struct("=Q")
_OFFSET = Struct("=H")
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_META_AT = _HEADER.size
_TABLES_AT = _META_AT + _META.size
_TXNID_AT = _TABLES_AT + 2 * _TABLE.size + 8

BRANCH, LEAF, _META_PAGE = 0x01, 0x02, 0x08
_OVERFLOW = 0x04
_LARGE = 0x01
"""The flag of a node whose value has pages of its own."""
_DUPLICATES = 0x04
"""The flag of a table that may have several values for a key."""

_DIRTY = 0x10
"""A flag that only matters in memory; ignored here."""

_DEEPEST = 32


class Unreadable(Exception):
    """Raised for a file that is not in the expected format, or that changed while it was read."""


class Table(NamedTuple):
    """One B+tree: its depth, its numbers of pages and entries, and its root."""

    depth: int
    branches: int
    leaves: int
    overflow: int
    entries: int
    root: int


class NodePlace(NamedTuple):
    """A node of a page, and how many the page has."""

    number: int
    node: int
    nodes: int


class LeafSpan(NamedTuple):
    """Neighbouring leaves: the children from ``first`` to before ``end`` of the branch page ``page``."""

    page: int
    first: int
    end: int


def decode_table(record: bytes | None) -> Table:
    """Decode ``record``, LMDB's entry for a table in its table of tables."""
    if record is None or len(record) != _TABLE.size:
        raise Unreadable("the table of tables has no such record")
    _, flags, depth, branches, leaves, overflow, entries, root = _TABLE.unpack(record)
    if flags & ~_DUPLICATES or depth > _DEEPEST:
        raise Unreadable(f"a table with flags {flags} and a depth of {depth}")
    return Table(depth=depth, branches=branches, leaves=leaves, overflow=overflow, entries=entries, root=root)


class PageFile:
    """The mapped file. ``since`` is the LMDB transaction that reads: a file whose newest transaction is older is the
    wrong file. So is one that is not ``file``, if that is given."""

    def __init__(self, path: Path, since: int, file: os.stat_result | None = None) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if file is not None and not os.path.samestat(file, os.fstat(descriptor)):
                raise Unreadable("the base was compacted meanwhile")
            self._map = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        except ValueError as error:
            raise Unreadable("the file is empty") from error
        finally:
            os.close(descriptor)
        try:
            self._size = self._check_metas(since)
        except StructError as error:
            self._map.close()
            raise Unreadable(f"the file is too short: {error}") from error
        except Unreadable:
            self._map.close()
            raise

    def _check_metas(self, since: int) -> int:
        """Check both meta pages, and return the size of a page."""
        size: int = _TABLE.unpack_from(self._map, _TABLES_AT)[0]
        if not 512 <= size <= 1 << 16 or size & (size - 1):
            raise Unreadable(f"pages of {size} bytes")
        newest = 0
        for number in (0, 1):
            at = number * size
            found, _, flags, _, _ = _HEADER.unpack_from(self._map, at)
            magic, version, _, _ = _META.unpack_from(self._map, at + _META_AT)
            if (found, flags & ~_DIRTY, magic, version) != (number, _META_PAGE, _MAGIC, _VERSION):
                raise Unreadable(f"page {number} is no meta page of format {_VERSION}")
            newest = max(newest, _NUMBER.unpack_from(self._map, at + _TXNID_AT)[0])
        if newest < since:
            raise Unreadable(f"the file has seen LMDB's transaction {newest}, not {since}")
        return size

    def count(self, number: int, kind: int) -> int:
        """The number of nodes of a page, which must be of this kind."""
        at = number * self._size
        if at + self._size > len(self._map):
            raise Unreadable(f"page {number} lies beyond the end of the file")
        found, _, flags, lower, upper = _HEADER.unpack_from(self._map, at)
        if found != number or flags & ~_DIRTY != kind or not _HEADER.size <= lower <= upper <= self._size:
            raise Unreadable(f"page {number} has number {found}, flags {flags} and its gap from {lower} to {upper}")
        return int(lower - _HEADER.size) >> 1

    def _node(self, number: int, index: int) -> int:
        at = number * self._size
        offset: int = _OFFSET.unpack_from(self._map, at + _HEADER.size + 2 * index)[0]
        if not _HEADER.size <= offset <= self._size - _NODE.size:
            raise Unreadable(f"page {number} has a node at {offset}")
        return at + offset

    def key(self, number: int, index: int) -> bytes:
        """The key of a node. The first key of a branch page has no meaning: it stands for everything smaller."""
        node = self._node(number, index)
        end = node + _NODE.size + _NODE.unpack_from(self._map, node)[3]
        if end > (number + 1) * self._size:
            raise Unreadable(f"page {number} has a key that leaves it")
        return self._map[node + _NODE.size : end]

    def count_below(self, number: int, bound: bytes) -> int:
        """How many values of a leaf are smaller than ``bound``, comparing only as many bytes as ``bound`` has."""
        count, length, node_at = self.count(number, LEAF), len(bound), _NODE.unpack_from
        page = self._map[number * self._size : (number + 1) * self._size]
        offsets = unpack_from(f"={count}H", page, _HEADER.size)
        if max(offsets, default=0) > self._size - _NODE.size:
            raise Unreadable(f"page {number} has a node at {max(offsets)}")
        below = 0
        for offset in offsets:
            _, _, flags, key = node_at(page, offset)
            value = offset + _NODE.size + key
            if flags & _LARGE:
                large = self._overflow(_NUMBER.unpack_from(page, value)[0])
                below += self._map[large : large + length] < bound
            else:
                below += page[value : value + length] < bound
        return below

    def _overflow(self, number: int) -> int:
        """The offset of a value that has pages of its own."""
        at = number * self._size
        if at + self._size > len(self._map):
            raise Unreadable(f"page {number} lies beyond the end of the file")
        found, _, flags, _, _ = _HEADER.unpack_from(self._map, at)
        if found != number or flags & ~_DIRTY != _OVERFLOW:
            raise Unreadable(f"page {number} has number {found} and flags {flags}, and holds no large value")
        return at + _HEADER.size

    def child(self, number: int, index: int) -> int:
        """The page that a node of a branch page leads to."""
        low, high, top, _ = _NODE.unpack_from(self._map, self._node(number, index))
        return int(low | high << 16 | top << 32)

    def stretches(self, table: Table, low: bytes, high: bytes | None) -> Iterator[LeafSpan]:
        """The leaves of a table that may have keys with ``low <= key < high``, in order. The table has at least two
        levels. O(branch pages)."""
        left = table.branches

        def walk(number: int, depth: int, low: bytes | None, high: bytes | None) -> Iterator[LeafSpan]:
            nonlocal left
            left -= 1
            if left < 0:
                raise Unreadable(f"more branch pages than the {table.branches} that there are")
            count = self.count(number, BRANCH)
            first = 0 if low is None else self._first_above(number, count, lambda key: key > low) - 1
            end = count if high is None else self._first_above(number, count, lambda key: key >= high)
            if depth == 2:
                yield LeafSpan(number, first, end)
                return
            for index in range(first, end):
                below = low if index == first else None
                yield from walk(self.child(number, index), depth - 1, below, high if index == end - 1 else None)

        if table.depth < 2:
            raise Unreadable("a table of one leaf")
        return walk(table.root, table.depth, low, high)

    def count_between(self, table: Table, low: bytes, high: bytes | None) -> int:
        """How many keys of a table have ``low <= key < high``. The table has at least two levels. O(leaves)."""
        leaves = [
            self.child(each.page, index)
            for each in self.stretches(table, low, high)
            for index in range(each.first, each.end)
        ]
        found = sum(self.count(number, LEAF) for number in leaves)
        if not leaves:
            return 0
        before = self._rank(leaves[0], low)
        after = 0 if high is None else self.count(leaves[-1], LEAF) - self._rank(leaves[-1], high)
        return found - before - after

    def estimate_between(self, table: Table, low: bytes, high: bytes | None) -> int:
        """An estimate of the number of keys of a table with ``low <= key < high``. It is exact within one leaf.
        Otherwise it assumes that all subtrees of a level have as many keys as those at the two ends. O(depth)."""
        if not table.depth or not table.entries:
            return 0
        first, last = self._path(table, low), self._path(table, high)
        size, estimate, inside = 1.0, 0.0, 0
        for one, other in zip(reversed(first), reversed(last), strict=True):
            if one.number == other.number:  # the rest of the range is between these two nodes
                return max(0, round((other.node - one.node - inside) * size + estimate))
            estimate += (one.nodes - one.node - inside + other.node) * size
            size *= (one.nodes + other.nodes) / 2
            inside = 1  # the branch node on the path was counted on the level below
        return max(0, round(estimate))

    def _path(self, table: Table, bound: bytes | None) -> list[NodePlace]:
        """The position of a key, or of the end: the page and the node on each level, from the root to the leaf. In a
        leaf, the node is the first one that is not below the key."""
        number, path = table.root, []
        for _ in range(table.depth - 1):
            count = self.count(number, BRANCH)
            index = count - 1 if bound is None else self._first_above(number, count, lambda key: key > bound) - 1
            path.append(NodePlace(number, index, count))
            number = self.child(number, index)
        count = self.count(number, LEAF)
        path.append(NodePlace(number, count if bound is None else self._rank(number, bound), count))
        return path

    def _rank(self, number: int, bound: bytes) -> int:
        """How many keys of a leaf lie below ``bound``."""
        first, end = 0, self.count(number, LEAF)
        while first < end:
            middle = (first + end) // 2
            if self.key(number, middle) < bound:
                first = middle + 1
            else:
                end = middle
        return first

    def _first_above(self, number: int, count: int, above: Callable[[bytes], bool]) -> int:
        """The first node whose key is ``above``, except node 0; ``count`` if there is none."""
        first, end = 1, count
        while first < end:
            middle = (first + end) // 2
            if above(self.key(number, middle)):
                end = middle
            else:
                first = middle + 1
        return first

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._map.close()
