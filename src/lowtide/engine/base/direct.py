"""Writes rows to the base without the log and without a checkpoint, into keyspaces that no reader knows yet.

A bulk load fills new keyspaces and names them in one commit at its end, the swap. Until then no reader looks there,
so the rows need neither versions in memory nor the log. Each call is one LMDB transaction, which is on disk when it
returns.

The rows have the timestamp 0, which no commit has, so they are visible to every snapshot that knows their keyspace. A
follower reads the base as of its own pin, which may be older than the load, and takes everything later from the log.
With the timestamp of any commit, the rows could be too new for it.

Who sees them: the swap is committed after the last row is on disk. A snapshot that sees the swap was taken after that.
It reads the base in LMDB transactions that began later still (see ``Base.row``), so it sees every row. That holds in
every process. A snapshot without the swap has no name for the keyspaces. A crash before the swap leaves rows in
keyspaces that the catalog lists for emptying.

A copy of only the log, which is an incremental backup, would miss the rows. So ``note_filled`` counts the completed
loads, before their swap. A copy of the base has all rows of the swaps in a log if it has the same count as a base that
was read after the log's end was recorded. Emptying a keyspace without the log (``garbage/emptying.py``) counts too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lowtide.engine.base.codec import encode_ts
from lowtide.errors import Error

if TYPE_CHECKING:
    import lmdb

    from lowtide.engine.base.environment import Base

FILLED = b"filled"
"""The key of the count in the base's table ``meta``. It is there if any row may have the timestamp 0."""
_COUNT = 8
_HEAD = encode_ts(0)


def put_entries(base: Base, prefix: bytes, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
    """Put rows into a keyspace that no reader knows: ascending keys, and their values. Repeating a call changes
    nothing. The name of the keyspace must be in the base."""
    if not keys:
        return

    def change(txn: lmdb.Transaction[bytes]) -> None:
        cursor = txn.cursor(base.rows)
        # In append mode LMDB fills its pages. Otherwise it leaves room in each.
        is_last = not cursor.last() or cursor.key() < prefix + keys[0]
        # Each row is made when it is put, so it is still in the processor's cache, and no list of them is needed.
        rows = zip(map(prefix.__add__, keys), map(_HEAD.__add__, values), strict=True)
        _, added = cursor.putmulti(rows, append=is_last)
        if added < len(keys):  # LMDB skips keys that it cannot append
            raise Error(f"{len(keys) - added} rows of a load are not in the order of their keys; nothing was written")
        if txn.get(FILLED, db=base.meta) is None:
            txn.put(FILLED, bytes(_COUNT), db=base.meta)

    base.write(change)


def note_filled(base: Base) -> None:
    """Record that another load has all its rows in the base, before its swap; or that keyspaces were emptied, before
    they are forgotten."""

    def change(txn: lmdb.Transaction[bytes]) -> None:
        count = filled(txn.get(FILLED, db=base.meta)) + 1
        txn.put(FILLED, count.to_bytes(_COUNT), db=base.meta)

    base.write(change)


def filled_in(base: Base) -> int:
    """How many loads have put all their rows into the base."""
    return filled(base.read(lambda txn: txn.get(FILLED, db=base.meta)))


def filled(value: bytes | None) -> int:
    """The count in the base's table ``meta``; no value is 0."""
    return int.from_bytes(value or b"")
