"""When to look statements up one by one, and when to read them all. Pure."""

from __future__ import annotations

from typing import Final

LOOKUP_COST: Final = 10
"""One lookup costs about as much as this many statements of an extent."""
KEPT_COST: Final = 100
"""The same, if the extent is kept, so that it is sorted and not read."""
FEW: Final = 8
"""So many lookups take no longer than the estimate which says whether to do them."""
TRACKED_LOOKUPS: Final = 10_000
"""In a serializable transaction, up to this many lookups are preferred to reading an extent."""


def by_lookups(count: int, extent: int, *, tracked: bool, kept: bool = False) -> bool:
    """Whether ``count`` lookups are better than reading ``extent`` statements, which may be ``kept``.

    ``tracked``: reads enter the read set of a serializable transaction. There, an extent conflicts with every commit
    that adds a statement with the same constants, and lookups only with those that the query asked about.

    >>> by_lookups(10, 1_000, tracked=False), by_lookups(200, 1_000, tracked=False)
    (True, False)
    >>> by_lookups(10, 1_000, tracked=False, kept=True)
    False
    >>> by_lookups(100, 1_000, tracked=True)
    True
    """
    return count * (KEPT_COST if kept else LOOKUP_COST) < extent or (tracked and count <= TRACKED_LOOKUPS)
