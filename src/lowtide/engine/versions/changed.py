"""Which keys of a range were changed after a timestamp: in the layers, and in the base below them."""

from __future__ import annotations

import sys

from lowtide.engine.base.environment import Base
from lowtide.engine.types import Range
from lowtide.engine.versions.layers import VersionStore

_STEP = 4096


def changed_since(versions: VersionStore, base: Base, wanted: Range, since: int) -> tuple[bytes, int] | None:
    """A key of the range that changed after ``since``, and when; or None. Called by commits, under their lock."""
    for layer in versions.layers:
        keys = layer.keys.between(wanted.low, wanted.high, sys.maxsize, False)
        for key in keys:
            if layer.chains[key][0] > since:
                return key, layer.chains[key][0]
    rest: Range | None = wanted
    while rest is not None and since < versions.boundary:
        changed, last = base.changed_keys(rest.low, rest.high, since, _STEP)
        if changed:
            return changed[0], base.changed_at(changed[0])
        rest = Range(last + b"\x00", rest.high) if last is not None else None
    return None


def all_changed_since(versions: VersionStore, base: Base, wanted: Range, since: int) -> list[bytes]:
    """The keys of the range that changed after ``since``, including deletions, and possibly some that changed just now.
    No key is missing as long as a writer is registered at ``since``; see ``visibility`` for the order of the reads."""
    found: dict[bytes, None] = {}
    for layer in versions.layers:
        for key in layer.keys.between(wanted.low, wanted.high, sys.maxsize, False):
            chain = layer.chains.get(key)
            if chain is not None and chain[0] > since:
                found[key] = None
    rest: Range | None = wanted
    while rest is not None and since < versions.boundary:
        changed, last = base.changed_keys(rest.low, rest.high, since, _STEP)
        found.update(dict.fromkeys(changed))
        rest = Range(last + b"\x00", rest.high) if last is not None else None
    return list(found)
