"""What a checkpoint does with one key, as a pure function, so that tests can check the garbage rule on it.

The newest version of the key up to the new boundary becomes its row in the base. The older ones, and the previous row
of the base, are superseded. Each moves to the history if and only if a live snapshot sees it, and is dropped otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.engine.base.codec import encode_row, encode_tombstone, is_tombstone, row_ts, row_value
from lowtide.engine.base.history import Interval
from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.versions.chain import Chain


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """What to do with one key. ``row`` of None deletes its row; ``tombstone`` says that ``row`` is one; ``keep`` moves
    to the history."""

    row: bytes | None
    tombstone: int | None
    keep: list[tuple[Interval, bytes]]


def plan_key(
    full_key: bytes, chain: Chain, old_row: bytes | None, horizon: Exact, oldest_writer: int | None
) -> KeyPlan:
    """The plan for a key whose versions since the last checkpoint are ``chain``, all at or below the new boundary.

    ``oldest_writer`` is the oldest snapshot that may still commit. A deletion after it leaves a tombstone, with which
    that writer can conflict.
    """
    keep: list[tuple[Interval, bytes]] = []
    end, older = chain[0], chain[2]
    while older is not None:
        begin, value, next_older = older
        if value is not None and horizon.needs(begin, end):
            keep.append((Interval(begin, end, full_key), value))
        end, older = begin, next_older
    if old_row is not None and not is_tombstone(old_row):
        begin = row_ts(old_row)
        if horizon.needs(begin, end):
            keep.append((Interval(begin, end, full_key), row_value(old_row)))
    ts, value, _ = chain
    if value is not None:
        return KeyPlan(encode_row(ts, value), None, keep)
    if oldest_writer is not None and oldest_writer < ts:
        return KeyPlan(encode_tombstone(ts), ts, keep)
    return KeyPlan(None, None, keep)
