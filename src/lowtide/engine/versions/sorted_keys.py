"""``SortedKeys``: an ordered set of keys that adds neighbouring keys together.

The keys are in lists of at most ``_MOST``, each with its last key beside it. A commit often adds adjacent keys, such as
the index entries of the lines of an order. They are inserted into their list by one slice assignment, instead of
looking up the place of each key.

Used by one thread at a time: under the lock of ``OrderedKeys``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

_MOST: Final = 2_000


class SortedKeys:
    """Keys in order, each once. Keys are never removed."""

    __slots__ = ("_last", "_lists", "size")

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._lists: list[list[bytes]] = []
        self._last: list[bytes] = []
        self.size = 0
        self._fill(sorted(keys))

    def _fill(self, keys: list[bytes]) -> None:
        """Replace the current keys by these, which are in order."""
        half = _MOST // 2
        self._lists = [keys[start : start + half] for start in range(0, len(keys), half)]
        self._last = [each[-1] for each in self._lists]
        self.size = len(keys)

    def __len__(self) -> int:
        return self.size

    def update(self, added: Iterable[bytes]) -> None:
        """Add keys. Keys that are already in the set stay. O(log n) for each run of keys with no other key in
        between."""
        keys = sorted(set(added))
        lists, last = self._lists, self._last
        if len(keys) * 4 >= self.size:
            self._fill(list(dict.fromkeys(sorted([*(key for each in lists for key in each), *keys]))))
            return
        at, count = 0, len(keys)
        while at < count:
            key = keys[at]
            place = bisect_left(last, key)
            if place == len(last):  # after all keys
                place, end = place - 1, count
                lists[place] += keys[at:]
                last[place] = keys[-1]
            else:
                among = lists[place]
                start = bisect_left(among, key)
                if among[start] == key:
                    at += 1
                    continue
                end = bisect_left(keys, among[start], at)
                among[start:start] = keys[at:end]
            if len(lists[place]) > _MOST:
                self._split(place)
            self.size += end - at
            at = end

    def _split(self, place: int) -> None:
        """Split a list that has become too long."""
        keys, half = self._lists[place], _MOST // 2
        parts = [keys[start : start + half] for start in range(0, len(keys), half)]
        self._lists[place : place + 1] = parts
        self._last[place : place + 1] = [each[-1] for each in parts]

    def between(self, low: bytes, high: bytes | None, limit: int, reverse: bool) -> list[bytes]:
        """Up to ``limit`` keys with ``low <= key < high`` in scan order. O(log n + limit)."""
        lists, last = self._lists, self._last
        found: list[bytes] = []
        if not lists:
            return found
        if reverse:
            place = len(lists) - 1 if high is None else min(bisect_left(last, high), len(lists) - 1)
            while place >= 0 and len(found) < limit:
                keys = lists[place]
                end = len(keys) if high is None else bisect_left(keys, high)
                start = bisect_left(keys, low)
                part = keys[max(start, end - limit + len(found)) : end]
                part.reverse()
                found += part
                if start:
                    break
                place -= 1
            return found
        place = bisect_left(last, low)
        while place < len(lists) and len(found) < limit:
            keys = lists[place]
            start = bisect_left(keys, low)
            end = len(keys) if high is None else bisect_left(keys, high)
            found += keys[start : min(end, start + limit - len(found))]
            if end < len(keys):
                break
            place += 1
        return found

    def first(self, low: bytes, high: bytes, reverse: bool) -> bytes | None:
        """The first key with ``low <= key < high``, in reverse the last one. O(log n)."""
        found = self.between(low, high, 1, reverse)
        return found[0] if found else None

    def has_prefix(self, prefix: bytes) -> bool:
        """Whether a key begins with ``prefix``. O(log n)."""
        found = self.between(prefix, None, 1, False)
        return bool(found) and found[0].startswith(prefix)

    def count(self, low: bytes, high: bytes | None) -> int:
        """How many keys there are with ``low <= key < high``. O(lists + log n)."""
        below = self.size if high is None else self._below(high)
        return max(0, below - self._below(low))

    def _below(self, bound: bytes) -> int:
        place = bisect_left(self._last, bound)
        before = sum(map(len, self._lists[:place]))
        return before + (bisect_left(self._lists[place], bound) if place < len(self._lists) else 0)
