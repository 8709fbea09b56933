"""Counting a range as a snapshot sees it: the base by its pages, plus or minus the changes in the layers.

The count is exact. The layers are taken before the base is read, as in any read. The base is counted in the same
transaction in which the keys of the layers are looked up in it, so what a checkpoint moves there meanwhile is counted
once.
"""

from __future__ import annotations

from typing import Final

from lowtide.engine.types import Range
from lowtide.engine.versions.below import BaseRows
from lowtide.engine.versions.chain import visible
from lowtide.engine.versions.layers import VersionStore

MOST: Final = 20_000
"""The number of keys in the layers above which it is faster to read everything."""


def count_visible(versions: VersionStore, rows: BaseRows, wanted: Range, ts: int) -> int | None:
    """The number of keys in a range of one keyspace at ``ts``; None if the keys must be read to count them."""
    layers = versions.layers
    keys = sorted({key for each in layers for key in each.keys.between(wanted.low, wanted.high, MOST + 1, False)})
    if len(keys) > MOST:
        return None
    counted = rows.counted(wanted.low, wanted.high, ts, keys)
    if counted is None:
        return None
    count, below = counted
    for key in keys:
        version = next((found for each in layers if (found := visible(each.chains.get(key), ts)) is not None), None)
        if version is not None:
            count += (version[1] is not None) - (key in below)
    return count
