"""The base as it was at a pin, for readers in any process. It reads the base and the history only.

Each read checks the pin's row inside its own LMDB transaction. While the row exists, collectors in all processes keep
what the pin sees, so the transaction finds all of it. When the row is gone, the read raises SnapshotExpired. The row is
compared as bytes and decoded only when it has changed.

Who writes: any reading thread replaces ``_seen`` as a whole; a stale one only costs another decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import lmdb

from lowtide.engine.base.codec import encode_ts, horizon
from lowtide.engine.base.counting import count_rows
from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import valid
from lowtide.engine.base.pages import PageFile
from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.base.types import TableHandle
from lowtide.engine.base.visible import VisibleRows
from lowtide.errors import SnapshotExpired

_Result = TypeVar("_Result")


class PinnedBase:
    """Reads at a pin; to a ``Reader`` it looks like a base that does not change.

    ``time`` is the clock that decides whether the pin has expired. It is None for a pin that this process renews
    itself: there only the row counts.
    """

    def __init__(self, base: Base, name: str, row: PinRow, time: Callable[[], float] | None) -> None:
        self._base = base
        self._name = name
        self._key = name.encode()
        self._id = row.id
        self._ts = row.ts
        self._newer = horizon(row.ts)
        self._time = time if time is not None else _never
        self.lost = False
        """Whether a read has found the pin gone. No further read can succeed."""
        self._seen: tuple[bytes | None, PinRow] = (b"", row)

    def check(self, txn: lmdb.Transaction[bytes]) -> None:
        """Raise SnapshotExpired if the pin is gone in this transaction, or has expired."""
        data = txn.get(self._key, db=self._base.pins.table)
        seen, row = self._seen
        try:
            if data != seen:
                row = valid(self._name, self._base.pins.get(txn, self._name), self._id, self._time())
                self._seen = (data, row)
            elif row.expires <= self._time():
                valid(self._name, row, self._id, self._time())
        except SnapshotExpired:
            self.lost = True
            raise

    def pages(self, txn: lmdb.Transaction[bytes]) -> PageFile:
        """The pages of the base, as the transaction sees them."""
        return self._base.pages(txn)

    @property
    def meta(self) -> TableHandle:
        """The base's ``meta`` table, as it is now."""
        return self._base.meta

    def boundary_in(self, txn: lmdb.Transaction[bytes]) -> int | None:
        """The base's boundary, as it is now."""
        return self._base.boundary_in(txn)

    def read(self, look: Callable[[lmdb.Transaction[bytes]], _Result]) -> _Result:
        """Call ``look`` in one read transaction in which the pin is alive; return its result. It sees the current
        base."""

        def checked(txn: lmdb.Transaction[bytes]) -> _Result:
            self.check(txn)
            return look(txn)

        return self._base.read(checked)

    def counted(self, low: bytes, high: bytes | None, ts: int, keys: list[bytes]) -> tuple[int, set[bytes]] | None:
        """The same as ``Base.counted``, at the pin, for any ``ts`` above it."""

        def look(txn: lmdb.Transaction[bytes]) -> tuple[int, set[bytes]] | None:
            self.check(txn)
            return count_rows(self._base, txn, low, high, ts=self._ts, keys=keys)

        return self._base.read(look)

    def row(self, full_key: bytes) -> bytes | None:
        """The row of ``full_key`` at the pin. The history does not say when its version began. The pin's own timestamp
        stands in for it, because no reader of this pin reads below it."""

        def look(txn: lmdb.Transaction[bytes]) -> bytes | None:
            self.check(txn)
            row = txn.get(full_key, db=self._base.rows)
            if row is not None and row < self._newer:
                return row
            value = self._base.history.lookup(txn, full_key, self._ts)
            return encode_ts(self._ts) + value if value is not None else None

        return self._base.read(look)

    def first(self, low: bytes, high: bytes, ts: int, reverse: bool) -> tuple[bool, tuple[bytes, bytes] | None]:
        """The same as ``Base.first``. At a pin the caller must always scan, because the history may have an earlier
        key."""
        return False, None

    def rows_of(self, full_keys: list[bytes]) -> dict[bytes, bytes]:
        """The rows of the keys that have one at the pin, read in one transaction; see ``row``."""

        def look(txn: lmdb.Transaction[bytes]) -> dict[bytes, bytes]:
            self.check(txn)
            return self._instant(txn).rows_of(txn, full_keys)

        return self._base.read(look)

    def present(self, full_keys: list[bytes], ts: int) -> None:
        """The same as ``Base.present``. At a pin rows must be read, because the history may have some."""

    def read_history(self, full_key: bytes, ts: int) -> bytes | None:
        """Return None: ``row`` has already read the history."""
        return None

    def has_history(self, ts: int) -> bool:
        """Return False; see ``read_history``."""
        return False

    def chunk(
        self, low: bytes, high: bytes | None, ts: int, limit: int, reverse: bool, strip: int
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """The same as ``Base.chunk``, at the pin, for any ``ts`` above it."""

        def look(txn: lmdb.Transaction[bytes]) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
            self.check(txn)
            return self._instant(txn).entries(txn, low, high, limit=limit, reverse=reverse, strip=strip)

        return self._base.read(look)

    def keys_under(self, prefixes: Sequence[bytes], ts: int, *, most: int, strip: int) -> list[list[bytes] | None]:
        """The same as ``Base.keys_under``. At a pin the caller must always scan, because the history may have keys."""
        return [None] * len(prefixes)

    def values(self, low: bytes, high: bytes | None, ts: int, limit: int) -> tuple[list[bytes], bytes | None]:
        """The same as ``Base.values``, at the pin, for any ``ts`` above it."""

        def look(txn: lmdb.Transaction[bytes]) -> tuple[list[bytes], bytes | None]:
            self.check(txn)
            return self._instant(txn).values(txn, low, high, limit)

        return self._base.read(look)

    def _instant(self, txn: lmdb.Transaction[bytes]) -> VisibleRows:
        """The base's tables at the pin."""
        return self._base.at(self._ts, (self._base.boundary_in(txn) or 0) > self._ts)


def _never() -> float:
    """A time at which no pin has expired."""
    return 0.0
