"""Cutting a range evenly as a snapshot sees it: the base's outline, and the changes in the layers.

The result is an estimate. For a snapshot below the boundary, newer rows of the base do not count, but the keys in the
history do: they belong to rows that were changed or deleted since, and are kept for this or another old snapshot.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lowtide.engine.base.codec import horizon
from lowtide.engine.base.cuts import nearest, tidy, with_points
from lowtide.engine.base.marks import newest_in
from lowtide.engine.base.outline import Outline, outline
from lowtide.engine.types import KEYSPACE_PREFIX, Range
from lowtide.engine.versions.below import BaseRows
from lowtide.engine.versions.chain import visible
from lowtide.engine.versions.layers import Layer, VersionStore

if TYPE_CHECKING:
    from lowtide.engine.base.types import Txn
FEW, FEW_HEAVY = 50_000, 1_000
"""The numbers of rows in the base below which it is better to count keys; the second is for large values."""

_CELLS_OF_A_PART = 16
_SAMPLE = 8192


def estimated_cuts(versions: VersionStore, rows: BaseRows, wanted: Range, ts: int, parts: int) -> list[bytes] | None:
    """Full keys that cut the range evenly at ``ts``; None if the caller must count keys instead, because the base has
    few or its pages cannot be used. The layers are taken before the base is read, as in any read."""
    layers = versions.layers
    keys = sorted({key for each in layers for key in each.keys.between(wanted.low, wanted.high, sys.maxsize, False)})
    newest = _outline(rows, wanted, parts)
    if newest is None or newest.rows < (FEW_HEAVY if newest.heavy else FEW):
        return None
    old = rows.read(lambda txn: _is_older(rows, txn, wanted.low[:KEYSPACE_PREFIX], ts))
    if not old and len(keys) * parts * 50 <= newest.rows:
        return newest.cuts  # a fiftieth of a part does not matter
    cells = parts * _CELLS_OF_A_PART
    fine = _outline(rows, wanted, cells, below=horizon(ts) if old else None)
    if fine is None:
        return newest.cuts
    points = _points(layers, rows, keys, ts)
    if old and (kept := _outline(rows, wanted, cells, table=b"history-index")) is not None:
        starts = [wanted.low, *kept.cuts]
        points += [(key, kept.rows / len(starts)) for key in starts]
    starts = [wanted.low, *fine.cuts]
    starts, counts = with_points(starts, fine.rows / len(starts), points)
    return tidy(nearest(starts, counts, parts), wanted.low, wanted.high)


def _is_older(rows: BaseRows, txn: Txn, prefix: bytes, ts: int) -> bool:
    """Whether the base may have changes of the keyspace that a snapshot does not see."""
    newest = newest_in(rows, txn, prefix)
    return (rows.boundary_in(txn) or 0) > ts and (newest is None or newest > ts)


def _outline(
    rows: BaseRows, wanted: Range, parts: int, *, table: bytes = b"rows", below: bytes | None = None
) -> Outline | None:
    return rows.read(lambda txn: outline(txn, rows, wanted.low, wanted.high, parts, table=table, below=below))


def _points(layers: list[Layer], rows: BaseRows, keys: list[bytes], ts: int) -> list[tuple[bytes, float]]:
    """How the layers change the number of keys: a sample of their keys, each with what it adds or subtracts."""
    step = -(-len(keys) // _SAMPLE) or 1
    sample = keys[::step]
    below, newer = rows.rows_of(sample), horizon(ts)
    points: list[tuple[bytes, float]] = []
    for key in sample:
        version = next((found for each in layers if (found := visible(each.chains.get(key), ts)) is not None), None)
        before = (row := below.get(key)) is not None and row < newer
        after = before if version is None else version[1] is not None
        points.append((key, float(step * (after - before))))
    return points
