"""Empties a keyspace that no reader knows any more, directly in the base: no log, no versions in memory.

This is correct under three conditions:

* The commit ``since`` or an earlier one removed its name, and the base holds all commits up to it. So no layer has, or
  will have, a version of the keyspace: nothing writes to it any more.
* No live snapshot or pin is older than ``since``. They are read inside the write transaction, as a checkpoint reads
  them. A snapshot that is missing there draws a later timestamp, so no snapshot ever sees a row that is removed.
* The log has no commit that wrote to the keyspace. So the log and the base agree, and ``verify`` can compare them.

A copy of the base, brought up to date from the log, would keep the rows. So the caller counts this as a change of the
base without the log (``base/direct.py``), before it forgets the keyspace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.engine.base.environment import Base
from lowtide.engine.base.marks import newest_in
from lowtide.engine.base.types import Txn
from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.garbage.living import with_pins

STEP: Final = 2_000
"""Rows that are removed in one LMDB transaction. Checkpoints and pins wait for it."""


def empty_keyspace(base: Base, prefix: bytes, since: int, first_kept: int, sample: Callable[[], Exact]) -> bool:
    """Remove all rows of a keyspace. Returns False if the rest must be deleted in transactions; some rows may be
    removed by then.

    ``first_kept`` is the first commit that the log has. ``sample`` returns the horizon of the live snapshots.
    """
    while True:
        done = base.write(lambda txn: _step(base, txn, prefix, since=since, first_kept=first_kept, snapshots=sample()))
        if done is not None:
            return done


def _step(base: Base, txn: Txn, prefix: bytes, since: int, first_kept: int, snapshots: Exact) -> bool | None:
    """Remove some rows. None if there may be more, False if none may be removed."""
    newest = newest_in(base, txn, prefix)
    if (base.boundary_in(txn) or 0) < since or newest is None or newest >= first_kept:
        return False
    live = with_pins(snapshots, (row for _, row in base.pins.all(txn))).of(prefix).live
    if live and live[0] < since:
        return False
    cursor = txn.cursor(base.rows)
    found = cursor.set_range(prefix)
    for _ in range(STEP):
        if not found or not cursor.key().startswith(prefix):
            return True
        found = cursor.delete()
    return None
