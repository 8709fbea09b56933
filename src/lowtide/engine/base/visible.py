"""The visible entries of a stretch of keys at an instant, from rows and history, in the caller's LMDB transaction.

``old`` says whether the instant may be below the boundary. Only then can the history have anything for it.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import lmdb

from lowtide.engine.base.chunks import Entry, distinct_keys, stretch, values_of_stretch, visible_entries
from lowtide.engine.base.codec import encode_row, horizon
from lowtide.engine.base.history import HistoryTable
from lowtide.engine.base.leaf_file import LeafFile
from lowtide.engine.base.types import TableHandle

_first, _second = itemgetter(0), itemgetter(1)


class VisibleRows(NamedTuple):
    """The tables of a base, seen at ``ts``."""

    rows: TableHandle
    history: HistoryTable
    ts: int
    old: bool
    leaves: LeafFile | None = None
    """Reads stretches forwards if the history has nothing for them; None if that does not pay."""

    def entries(
        self, txn: lmdb.Transaction[bytes], low: bytes, high: bytes | None, limit: int, reverse: bool, strip: int
    ) -> tuple[list[Entry], bytes | None]:
        """The entries of a stretch in scan order, and the last key that was read; None when the range is exhausted.
        ``strip`` bytes are removed from the entries' keys."""
        if self.leaves is not None and not reverse and not self.old:
            return self.leaves.entries(txn, low, high, limit=limit, ts=self.ts, strip=strip)
        newer = horizon(self.ts)
        entries, more = stretch(txn, self.rows, low, high, limit=limit, reverse=reverse)
        last = entries[-1][0] if more else None
        if not self.old:
            return visible_entries(entries, newer, strip), last
        if last is not None:
            low, high = (last, high) if reverse else (low, last + b"\x00")
        keys, more = distinct_keys(txn, self.history.index, low, high, limit=limit, reverse=reverse)
        if more:
            last = keys[-1]
            entries = [each for each in entries if (each[0] >= last if reverse else each[0] <= last)]
        found = [(key, row[8:]) for key, row in entries if row < newer]
        if keys:
            absent = set(keys).difference(map(_first, found))
            values = ((key, self.history.lookup(txn, key, self.ts)) for key in keys if key in absent)
            superseded = [(key, value) for key, value in values if value is not None]
            if superseded:
                found = sorted(found + superseded, key=_first, reverse=reverse)
        return [(key[strip:], value) for key, value in found] if strip else found, last

    def values(
        self, txn: lmdb.Transaction[bytes], low: bytes, high: bytes | None, limit: int
    ) -> tuple[list[bytes], bytes | None]:
        """The same as ``entries``, but only the values, and only forwards. Where the history has nothing, no key is
        read."""
        if self.old and distinct_keys(txn, self.history.index, low, high, limit=1, reverse=False)[0]:
            entries, last = self.entries(txn, low, high, limit=limit, reverse=False, strip=0)
            return list(map(_second, entries)), last
        if self.leaves is not None:
            return self.leaves.values(txn, low, high, limit=limit, ts=self.ts)
        rows, last = values_of_stretch(txn, self.rows, low, high, limit)
        newer = horizon(self.ts)
        return [row[8:] for row in rows if row < newer], last

    def rows_of(self, txn: lmdb.Transaction[bytes], full_keys: list[bytes]) -> dict[bytes, bytes]:
        """The rows of the keys that have one; superseded ones as of ``ts``. They are looked up in order, so that each
        page of the table is visited once."""
        newer = horizon(self.ts)
        found = {key: row for key, row in txn.cursor(self.rows).getmulti(sorted(full_keys)) if row < newer}
        if self.old and len(found) < len(full_keys):
            for key in full_keys:
                if key not in found and (value := self.history.lookup(txn, key, self.ts)) is not None:
                    found[key] = encode_row(self.ts, value)
        return found
