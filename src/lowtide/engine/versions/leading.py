"""The first entry of a range, which often begins with deleted keys, as the index of a queue does: its jobs are taken in
order.

A scan merges what it reads of the layers and of the base. Here it is enough to know which keys are deleted, up to the
first that is not, and to read one row of the base more than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.engine.types import Range
from lowtide.engine.versions.chain import visible
from lowtide.engine.versions.layers import Layer

if TYPE_CHECKING:
    from lowtide.engine.versions.below import BaseRows


def first_of_layer(
    layer: Layer, base: BaseRows, wanted: Range, ts: int, most: int
) -> tuple[bool, tuple[bytes, bytes] | None]:
    """The first entry at ``ts`` of a range that has an end, with its full key, where there is only one layer over the
    base. Returns False if this does not decide it, because ``most`` keys are deleted or one was put after ``ts``: then
    scan. The layer was taken before this reads the base, see ``visibility``."""
    low, high, reverse = wanted.low, wanted.high, wanted.reverse
    assert high is not None
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
    # All keys of the layer that come before the living one are deleted, so others in the base are in no layer.
    if not deleted:
        known, entry = base.first(low, high, ts, reverse)
        if not known:
            return False, None
        entries, last = [entry] if entry is not None else [], None
    elif living is None and len(keys) == most:
        return False, None
    else:
        entries, last = base.chunk(low, high, ts, limit=len(deleted) + 1, reverse=reverse, strip=0)
    for entry in entries:
        if entry[0] not in deleted:
            if living is None or (entry[0] > living[0] if reverse else entry[0] < living[0]):
                return True, entry
            return True, living
    # What the base has of these rows is deleted, or newer than ``ts``.
    return last is None or (living is not None and (last < living[0] if reverse else last > living[0])), living
