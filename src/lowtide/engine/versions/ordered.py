"""The keys of a dict in order, sorted only when a scan needs them.

The keys of each keyspace are ordered on their own: most keyspaces, such as those of documents that are found by index,
are written and never scanned.

Who writes: the one publishing thread calls ``add`` and ``add_all``, without a lock. A scan drains what was added, under
``_lock``. ``list.append``, ``list.extend`` with a dict and slicing are atomic, and a drain removes exactly the elements
that it copied, so none is lost. It fills the parts before it empties the list, so a key is always in one of them. A
reader that finds first the fresh list and then the parts empty has missed nothing. A scan may miss a key that is being
added at that moment: it belongs to a commit that the scan's snapshot does not see.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter

from lowtide.engine.types import KEYSPACE_PREFIX
from lowtide.engine.versions.sorted_keys import SortedKeys

_PREFIX = itemgetter(slice(KEYSPACE_PREFIX))
_FEW = 16
"""Up to this many keys are divided one by one."""


class KeyspaceKeys:
    """The keys of one keyspace: those in order, and those that no scan has asked for yet. Used under the lock."""

    __slots__ = ("fresh", "ordered")

    def __init__(self) -> None:
        self.ordered = SortedKeys()
        self.fresh: list[bytes] = []


class OrderedKeys:
    """An ordered set of keys that can be walked from anywhere. Keys are never removed."""

    __slots__ = ("_draining", "_fresh", "_lock", "_parts", "_table", "add", "add_all")

    def __init__(self, table: Mapping[bytes, object]) -> None:
        self._table = table
        """The dict whose keys these are. A key is added here before it is added to the dict."""
        self._lock = threading.Lock()
        self._draining = False
        """Whether a drain is unfinished: an interrupted one leaves the parts in any state."""
        self._parts: dict[bytes, KeyspaceKeys] = {}
        """The keys of each keyspace, by its prefix."""
        self._fresh: list[bytes] = []
        self.add = self._fresh.append
        """Add a key that is not in the set."""
        self.add_all = self._fresh.extend
        """Add many keys at once. None of them may be in the set."""

    def between(self, low: bytes, high: bytes | None, limit: int, reverse: bool) -> list[bytes]:
        """Up to ``limit`` keys with ``low <= key < high`` in scan order. O(log n + limit), plus sorting new keys."""
        if not self._fresh and not self._parts and not self._draining:
            return []
        found: list[bytes] = []
        with self._lock:
            for keys in self._within(low, high, reverse):
                found += keys.between(low, high, limit - len(found), reverse)
                if len(found) == limit:
                    break
        return found

    def first(self, low: bytes, high: bytes, reverse: bool) -> bytes | None:
        """The first key with ``low <= key < high``, in reverse the last one. O(log n), plus sorting new keys."""
        if not self._fresh and not self._parts and not self._draining:
            return None
        with self._lock:
            for keys in self._within(low, high, reverse):
                key = keys.first(low, high, reverse)
                if key is not None:
                    return key
        return None

    def touched(self, prefixes: Iterable[bytes]) -> list[bytes]:
        """The prefixes with which at least one key begins. Each must be longer than that of its keyspace. O(log n) for
        each."""
        if not self._fresh and not self._parts and not self._draining:
            return []
        with self._lock:
            return [
                prefix
                for prefix in prefixes
                if any(keys.has_prefix(prefix) for keys in self._within(prefix, prefix, False))
            ]

    def count(self, low: bytes, high: bytes | None) -> int:
        """The number of keys with ``low <= key < high``. O(log n), plus sorting new keys."""
        if not self._fresh and not self._parts and not self._draining:
            return 0
        with self._lock:
            return sum(keys.count(low, high) for keys in self._within(low, high, False))

    def _within(self, low: bytes, high: bytes | None, reverse: bool) -> list[SortedKeys]:
        """The keys of the keyspaces that a range touches, in scan order. Called under the lock."""
        if self._fresh or self._draining:
            self._drain()
        parts, prefix = self._parts, low[:KEYSPACE_PREFIX]
        if high is not None and high[:KEYSPACE_PREFIX] == prefix and len(prefix) == KEYSPACE_PREFIX:
            part = parts.get(prefix)
            return [self._ordered(part)] if part is not None else []
        touched = [each for each in parts if each >= prefix and (high is None or each < high)]
        return [self._ordered(parts[each]) for each in sorted(touched, reverse=reverse)]

    def _ordered(self, part: KeyspaceKeys) -> SortedKeys:
        """The keys of a keyspace, all of them in order. Called under the lock."""
        if part.fresh:
            self._draining = True
            part.ordered.update(part.fresh)
            part.fresh = []
            self._draining = False
        return part.ordered

    def _drain(self) -> None:
        """Divide the new keys by keyspace, or all keys if the last drain was interrupted. Called under the lock."""
        # Listed before the fresh keys are copied: a key added in between is only among the fresh ones.
        known = list(self._table) if self._draining else None
        fresh = self._fresh[:]
        self._draining = True
        parts, added = self._parts, fresh
        if known is not None:
            unsorted = [key for part in parts.values() for key in part.fresh]
            parts, added = {}, list({*known, *unsorted, *fresh})
        if len(added) <= _FEW:
            for key in added:
                if (prefix := key[:KEYSPACE_PREFIX]) not in parts:
                    parts[prefix] = KeyspaceKeys()
                parts[prefix].fresh.append(key)
        else:
            for prefix, keys in groupby(added, _PREFIX):  # the keys of one keyspace mostly come together
                if prefix not in parts:
                    parts[prefix] = KeyspaceKeys()
                parts[prefix].fresh.extend(keys)
        self._parts = parts
        del self._fresh[: len(fresh)]  # point: scan.drain
        self._draining = False
