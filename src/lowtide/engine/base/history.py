"""The history: superseded versions that a live snapshot still sees, each with the interval in which it was visible.

Two tables, always changed together. ``rows`` is ordered by when a version ended, which is the order the sweep walks;
``index`` finds the version of one key at one time:

    rows    end begin full_key -> value
    index   full_key -> end begin      (sorted duplicates)

The index is not ``dupfixed``, though its values all have 16 bytes: LMDB's compacting copy crashes on such a table once
a key has more duplicates than fit a page.

A key may have been absent between two of its versions, so a lookup must check both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from lowtide.engine.base.codec import decode_ts, encode_ts
from lowtide.engine.types import KEYSPACE_PREFIX

if TYPE_CHECKING:
    import lmdb

    from lowtide.engine.base.types import TableHandle

_INTERVAL = Struct(f">QQ{KEYSPACE_PREFIX}s")
"""The start of a row's key: end, begin, keyspace."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A superseded version: visible to snapshots t with ``begin <= t < end``."""

    begin: int
    end: int
    full_key: bytes

    @property
    def row_key(self) -> bytes:
        return encode_ts(self.end) + encode_ts(self.begin) + self.full_key

    @property
    def index_value(self) -> bytes:
        return encode_ts(self.end) + encode_ts(self.begin)


def open_index(env: lmdb.Environment, txn: lmdb.Transaction[bytes] | None, create: bool) -> TableHandle:
    return env.open_db(b"history-index", txn=txn, create=create, dupsort=True)


def decode_interval(row_key: bytes) -> Interval:
    return Interval(decode_ts(row_key[8:16]), decode_ts(row_key), row_key[16:])


@dataclass(slots=True)
class HistoryTable:
    """The two tables; every method works inside the caller's LMDB transaction."""

    rows: TableHandle
    index: TableHandle

    def lookup(self, txn: lmdb.Transaction[bytes], full_key: bytes, ts: int) -> bytes | None:
        """The value that ``full_key`` had at ``ts``, if the history holds it."""
        cursor = txn.cursor(self.index)
        if not cursor.set_range_dup(full_key, encode_ts(ts + 1)):
            return None
        interval = cursor.value()
        if decode_ts(interval[8:]) > ts:
            return None
        return txn.get(interval + full_key, db=self.rows)

    def versions(self, txn: lmdb.Transaction[bytes], full_key: bytes) -> list[tuple[int, bytes]]:
        """All versions of a key that the history holds, newest first: the commit that wrote each, and its value."""
        cursor = txn.cursor(self.index)
        if not cursor.set_key(full_key):
            return []
        found = [(decode_ts(interval[8:]), interval) for interval in cursor.iternext_dup()]
        found.sort(reverse=True)
        values = ((begin, txn.get(interval + full_key, db=self.rows)) for begin, interval in found)
        return [(begin, value) for begin, value in values if value is not None]

    def add(self, txn: lmdb.Transaction[bytes], versions: list[tuple[Interval, bytes]]) -> None:
        """Add these versions."""
        versions.sort(key=lambda version: version[0].full_key)
        txn.cursor(self.index).putmulti([(each.full_key, each.index_value) for each, _ in versions], dupdata=True)
        txn.cursor(self.rows).putmulti(sorted((each.row_key, value) for each, value in versions))

    def remove(self, txn: lmdb.Transaction[bytes], intervals: list[Interval]) -> None:
        """Remove these versions."""
        for each in intervals:
            txn.delete(each.row_key, db=self.rows)
            txn.delete(each.full_key, each.index_value, db=self.index)

    def clear(self, txn: lmdb.Transaction[bytes]) -> None:
        """Remove all versions at once."""
        txn.drop(self.rows, delete=False)
        txn.drop(self.index, delete=False)

    def rebuild_index(self, env: lmdb.Environment, txn: lmdb.Transaction[bytes]) -> None:
        """Rebuild the index, with its current flags."""
        entries = list(txn.cursor(self.index))
        txn.drop(self.index)
        self.index = open_index(env, txn, create=True)
        txn.cursor(self.index).putmulti(entries, dupdata=True)

    def intervals(self, txn: lmdb.Transaction[bytes], after: bytes = b"") -> Iterator[Interval]:
        """The intervals in order of their end, from the row key ``after`` on."""
        cursor = txn.cursor(self.rows)
        if cursor.set_range(after) if after else cursor.first():
            for row_key in cursor.iternext(keys=True, values=False):
                yield decode_interval(row_key)

    def sizes(
        self, txn: lmdb.Transaction[memoryview], after: bytes, limit: int
    ) -> tuple[list[tuple[int, int, bytes, int]], bytes | None]:
        """Up to ``limit`` versions from the row key ``after`` on, as begin, end, keyspace prefix and bytes of key and
        value; and the row key to continue from, None at the end. ``txn`` returns buffers, so no value is copied."""
        cursor = txn.cursor(self.rows)
        found: list[tuple[int, int, bytes, int]] = []
        if cursor.set_range(after):
            for row_key, value in cursor:
                if len(found) == limit:
                    return found, bytes(row_key)
                end, begin, prefix = _INTERVAL.unpack_from(row_key)
                found.append((begin, end, prefix, len(row_key) - 16 + len(value)))
        return found, None

    def count(self, txn: lmdb.Transaction[bytes]) -> int:
        return int(txn.stat(self.rows)["entries"])
