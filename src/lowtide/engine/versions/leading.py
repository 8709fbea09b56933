"""Finds the first entry of a range that begins with deleted keys.

The index of a queue begins with deleted keys, because its jobs are taken in order. A scan would merge what it reads
from the layers and from the base. Here it is enough to collect the deleted keys up to the first one that is not
deleted, and to read one more row of the base than there are deleted keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.engine.types import Range
from lowtide.engine.versions.chain import visible
from lowtide.engine.versions.layers import Layer

if TYPE_CHECKING:
    from lowtide.engine.versions.below import BaseRows


def first_after_deleted(
    layer: Layer, base: BaseRows, wanted: Range, ts: int, most: int
) -> tuple[bool, tuple[bytes, bytes] | None]:
    """The first entry at ``ts`` of a range, with its full key, if there is only one layer above the base.
    Returns False if the range must be scanned, because ``most`` keys are deleted or one was put after ``ts``. The layer
    was taken before this reads the base; see ``visibility``."""
    low, high, reverse = wanted.low, wanted.high, wanted.reverse
    deleted: set[bytes] = set()
    living: tuple[bytes, bytes] | None = None
    keys = layer.keys.between(low, high, most, reverse)
    for key in keys:
        chain = visible(layer.chains.get(key), ts)
        if chain is None:
            return False, None
        value = chain[1]
        if value is not None:
            living = (key, value)
            break
        deleted.add(key)
    if living is None and len(keys) == most:
        return False, None
    # All keys of the layer before the living one are deleted. So any other key of the base there is in no layer.
    entries, last = base.chunk(low, high, ts, limit=len(deleted) + 1, reverse=reverse, strip=0)
    for entry in entries:
        if entry[0] not in deleted:
            if living is None or (entry[0] > living[0] if reverse else entry[0] < living[0]):
                return True, entry
            return True, living
    # All rows that were read from the base are deleted, or newer than ``ts``.
    return last is None or (living is not None and (last < living[0] if reverse else last > living[0])), living
