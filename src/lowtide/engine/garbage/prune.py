"""Pruning a chain: a pure function, so that the equation it must satisfy can be tested directly.

For every snapshot that is live or still to come, ``read(pruned(chain)) == read(chain)``. The four rules of other
collectors are special cases: an aborted version never reaches a chain; a tombstone is the newest version and stays
until the base has it; a sole survivor goes with its layer when the base has it; an unpublished version has ``end >
bound``, or no end at all.
"""

from __future__ import annotations

from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.versions.chain import Chain


def prune(chain: Chain, horizon: Exact) -> Chain:
    """``chain`` without the versions that ``horizon`` does not need; the same object if it needs all.

    The newest version is never superseded, so it stays. O(length); chains are short because every commit prunes.
    """
    kept: list[Chain] = []
    end, older, dropped = chain[0], chain[2], False
    while older is not None:
        if horizon.needs(older[0], end):
            kept.append(older)
        else:
            dropped = True
        end, older = older[0], older[2]
    if not dropped:
        return chain
    rest: Chain | None = None
    for version in reversed(kept):
        rest = (version[0], version[1], rest)
    return (chain[0], chain[1], rest)
