"""Cutting a range evenly as a snapshot sees it: the base's outline, and what the layers change of it.

An estimate. It tells the snapshot's keys from those of the base as it is now by the layers alone: what a pin sees in
the history, and what was added to the base after it, is not told apart.
"""

from __future__ import annotations

import sys

from lowtide.base.codec import horizon
from lowtide.base.cuts import nearest, tidy, with_points
from lowtide.base.outline import Outline, outline
from lowtide.versions.chain import visible
from lowtide.versions.layers import Layer, VersionStore
from lowtide.versions.visibility import Range, Rows

FEW, FEW_HEAVY = 50_000, 1_000
"""Rows of the base below which its keys are better counted; the latter if they have large values."""

_CELLS_OF_A_PART = 16
_SAMPLE = 8192


def estimated_cuts(versions: VersionStore, rows: Rows, wanted: Range, ts: int, parts: int) -> list[bytes] | None:
    """Full keys that cut the range evenly at ``ts``; None if there is so little in the base that its keys are to be
    counted, or if that is all that can be done. The layers are taken before the base is looked at, as in any read."""
    layers = versions.layers
    keys = sorted({key for each in layers for key in each.keys.between(wanted.low, wanted.high, sys.maxsize, False)})
    found = _outline(rows, wanted, parts)
    if found is None or found.rows < (FEW_HEAVY if found.heavy else FEW):
        return None
    if len(keys) * parts * 50 <= found.rows:
        return found.cuts  # a fiftieth of a part makes no difference
    fine = _outline(rows, wanted, parts * _CELLS_OF_A_PART)
    if fine is None:
        return found.cuts
    cells = [wanted.low, *fine.cuts]
    cells, counts = with_points(cells, fine.rows / len(cells), _points(layers, rows, keys, ts))
    return tidy(nearest(cells, counts, parts), wanted.low, wanted.high)


def _outline(rows: Rows, wanted: Range, parts: int) -> Outline | None:
    return rows.read(lambda txn: outline(txn, rows.directory, wanted.low, wanted.high, parts))


def _points(layers: list[Layer], rows: Rows, keys: list[bytes], ts: int) -> list[tuple[bytes, float]]:
    """How the layers change the number of keys: a sample of their keys, each with what it adds or takes away."""
    step = -(-len(keys) // _SAMPLE)
    sample = keys[::step]
    below, newer = rows.rows_of(sample), horizon(ts)
    points = []
    for key in sample:
        version = next((found for each in layers if (found := visible(each.chains.get(key), ts)) is not None), None)
        before = (row := below.get(key)) is not None and row < newer
        after = before if version is None else version[1] is not None
        points.append((key, float(step * (after - before))))
    return points
