"""Marks: the newest commit that changed each keyspace, so that caches of it can be checked.

    meta   "marks" -> since, upto; "newest" prefix -> commit

Every checkpoint writes the marks of the keyspaces that it changes, and ``upto``, in the transaction that moves the
boundary there. ``since`` is the boundary at which the marks began: 0 in a store that always had them. A keyspace
without a mark has not changed after ``since``. If ``upto`` is not the boundary, a release without marks has moved the
boundary: then nothing is known, and the next checkpoint starts over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from lowtide.engine.base.codec import decode_ts, encode_ts

if TYPE_CHECKING:
    import lmdb

    from lowtide.engine.base.types import TableHandle

_MARKS = b"marks"
_NEWEST = b"newest"


class Marked(Protocol):
    """An object that has marks: a base."""

    @property
    def meta(self) -> TableHandle: ...

    def boundary_in(self, txn: lmdb.Transaction[bytes]) -> int | None: ...


def put_marks(
    base: Marked, txn: lmdb.Transaction[bytes], boundary: int, upto: int, newest: Mapping[bytes, int]
) -> None:
    """Record the newest commit of each changed keyspace, by prefix, in the transaction that moves the boundary from
    ``boundary`` to ``upto``."""
    since = _since(base, txn, boundary)
    if since is None:
        since = boundary
        _forget(base, txn)
    for prefix, ts in newest.items():
        txn.put(_NEWEST + prefix, encode_ts(ts), db=base.meta)
    txn.put(_MARKS, encode_ts(since) + encode_ts(upto), db=base.meta)


def newest_in(base: Marked, txn: lmdb.Transaction[bytes], prefix: bytes) -> int | None:
    """A commit after which the keyspace has not changed, up to the boundary; None if none is known. If the last change
    was marked, it is that commit."""
    since = _since(base, txn, base.boundary_in(txn) or 0)
    if since is None:
        return None
    mark = txn.get(_NEWEST + prefix, db=base.meta)
    return since if mark is None else decode_ts(mark)


def _since(base: Marked, txn: lmdb.Transaction[bytes], boundary: int) -> int | None:
    """The boundary at which the marks began that are valid up to ``boundary``, the base's; None if there are none."""
    marks = txn.get(_MARKS, db=base.meta)
    if marks is None:
        return None if boundary else 0
    return decode_ts(marks) if decode_ts(marks[8:]) == boundary else None


def _forget(base: Marked, txn: lmdb.Transaction[bytes]) -> None:
    cursor = txn.cursor(base.meta)
    found = cursor.set_range(_NEWEST)
    while found and cursor.key().startswith(_NEWEST):
        found = cursor.delete()
