"""The state before a commit, for its record in the log: the values, or only which keys had one.

Most stores log no earlier values. For many keys it is then faster to walk over the base's keys, without copying rows,
than to look up each key. The keys of a bulk write are usually in order and close together, or all new.
"""

from __future__ import annotations

from typing import Final

from lowtide.engine.types import Writes
from lowtide.engine.versions.visibility import Reader
from lowtide.errors import UsageError

_MANY: Final = 64
"""From this many keys on, a walk is worth trying."""
_IN_ORDER: Final = 1_000
"""Writes for which it pays to compare the order of two dicts first."""
PRESENT: Final = b""
"""Stands for the value of a key that had one."""


def before_of(reader: Reader, writes: Writes, ts: int, values: bool, known: Writes | None = None) -> list[bytes | None]:
    """For each written key, its value at ``ts``; None if it had none. Without ``values``, an existing value may be
    replaced by PRESENT. ``known`` has the values at ``ts`` that were read before."""
    if known:
        if len(writes) > _IN_ORDER and list(known) == list(writes):
            return list(known.values())  # in the same order, as a bulk load has them
        if known.keys() >= writes.keys():
            return [known[full_key] for full_key in writes]
    if len(writes) == 1:
        (key,) = writes
        return [reader.get(key, ts)]
    if values or len(writes) < _MANY:
        return reader.get_many(writes, ts)
    versions, base = reader.sources
    active, frozen, _ = versions.view  # before the base, see ``visibility``
    if not active.chains.keys().isdisjoint(writes) or not (frozen is None or frozen.chains.keys().isdisjoint(writes)):
        return reader.get_many(writes, ts)
    if versions.closed:  # after the view was taken, see ``visibility``
        raise UsageError(versions.closed)
    keys = sorted(writes)
    present = base.present(keys, ts)
    if present is None:
        return reader.get_many(writes, ts)
    if present is keys:
        return [PRESENT] * len(keys)
    return [PRESENT if key in present else None for key in writes] if present else [None] * len(keys)
