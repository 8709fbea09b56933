"""The keys of a dict in order, sorted only for a scan.

Who writes: ``add`` is called by the one publishing thread, without a lock; a scan drains what was added under
``_lock``. ``list.append`` and slicing are atomic, and a drain removes exactly the elements that it copied, so none is
lost between the two. It fills the sorted list before it empties the other, so a key is at every moment in one of them,
and who finds both empty, the fresh one first, has missed nothing. A scan may miss a key that is being added at that
moment: it belongs to a commit that the scan's snapshot does not see.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import islice

from sortedcontainers import SortedList


class OrderedKeys:
    """A set of keys that can be walked in order from anywhere; keys are only ever added."""

    __slots__ = ("_draining", "_fresh", "_lock", "_sorted", "_table", "add")

    def __init__(self, table: Mapping[bytes, object]) -> None:
        self._table = table
        """Whose keys these are; a key is added here before it is put there."""
        self._lock = threading.Lock()
        self._draining = False
        """Whether a drain has begun and not ended: one that was interrupted leaves the sorted list in any state."""
        self._sorted: SortedList[bytes] = SortedList()
        self._fresh: list[bytes] = []
        self.add = self._fresh.append
        """Add a key that is not in the set."""

    def between(self, low: bytes, high: bytes | None, limit: int, reverse: bool) -> list[bytes]:
        """Up to ``limit`` keys with ``low <= key < high`` in scan order. O(log n + limit), plus sorting what is new."""
        if not self._fresh and not self._sorted and not self._draining:
            return []
        with self._lock:
            if self._fresh or self._draining:
                self._drain()
            keys = self._sorted.irange(low, high, inclusive=(True, False), reverse=reverse)
            return list(islice(keys, limit))

    def _drain(self) -> None:
        """Sort what is new, or everything if the last drain was interrupted. Under the lock."""
        # Listed before the fresh ones are copied: what comes in between is among the fresh ones alone.
        known = list(self._table) if self._draining else None
        fresh = self._fresh[:]
        self._draining = True
        if known is None:
            self._sorted.update(fresh)
        else:
            self._sorted = SortedList({*known, *fresh})
        del self._fresh[: len(fresh)]  # point: scan.drain
        self._draining = False
