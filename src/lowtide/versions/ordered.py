"""The keys of a dict in order, sorted only when somebody scans.

Who writes: ``add`` is called by the one publishing thread, without a lock; a scan drains what was added under
``_lock``. ``list.append`` and slicing are atomic, and a drain removes exactly the elements that it copied, so none is
lost between the two. A scan may miss a key that is being added at that moment: it belongs to a commit that the scan's
snapshot does not see.
"""

from __future__ import annotations

import threading
from itertools import islice

from sortedcontainers import SortedList


class OrderedKeys:
    """A set of keys that can be walked in order from anywhere; keys are only ever added."""

    __slots__ = ("_fresh", "_lock", "_sorted", "add")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sorted: SortedList[bytes] = SortedList()
        self._fresh: list[bytes] = []
        self.add = self._fresh.append
        """Add a key that is not in the set."""

    def between(self, low: bytes, high: bytes | None, limit: int, reverse: bool) -> list[bytes]:
        """Up to ``limit`` keys with ``low <= key < high`` in scan order. O(log n + limit), plus sorting what is new."""
        if not self._fresh and not self._sorted:
            return []
        with self._lock:
            if self._fresh:
                fresh = self._fresh[:]
                del self._fresh[: len(fresh)]
                self._sorted.update(fresh)
            keys = self._sorted.irange(low, high, inclusive=(True, False), reverse=reverse)
            return list(islice(keys, limit))
