"""Pruning a chain: a pure function, so that tests can check its equation directly.

For every live or future snapshot, ``read(pruned(chain)) == read(chain)``. The four rules of other collectors are
special cases. An aborted version never reaches a chain. A tombstone is the newest version and stays until the base has
it. A sole remaining version is dropped with its layer when the base has it. An unpublished version has ``end > bound``,
or no end.
"""

from __future__ import annotations

from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.versions.chain import Chain


def prune(chain: Chain, horizon: Exact) -> Chain:
    """Return ``chain`` without the versions that ``horizon`` does not need; the same object if it needs all.

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
