"""A transaction's own writes, which its scans merge with the committed entries.

A scan shows the writes as they were when it began, and the transaction may write while it scans. So a scan reads the
transaction's buffer through a *view*, which saves the value of a key before it is changed. A scan costs nothing for
writes outside of what it reads, and a write costs O(1) for each view in use.

The transaction's own deletions hide committed rows. Where scans passed such rows, the transaction keeps gaps of its own
(see ``gaps``). It reads one instant, so only its own writes can put anything there.

One thread at a time uses it, as with the transaction.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import islice
from typing import Final

from lowtide.engine.types import KEYSPACE_PREFIX, Range, Writes
from lowtide.engine.versions.gaps import Gap, Gaps, bounded, noted, past, without

_FEW: Final = 64
"""Up to this many new keys are inserted one by one; with more, all keys are sorted."""
_MOST_GAPS: Final = 256


class _Unset:
    """Marks a key that the transaction had not written."""


_MISSING: Final = _Unset()


class OwnWrites:
    """The transaction's writes at the time this is created. ``fixed`` says that the transaction reads one instant."""

    __slots__ = ("__weakref__", "_before", "_fixed", "_gaps", "_keys", "_overlay", "_writes")

    def __init__(self, overlay: Overlay, writes: Writes, keys: list[bytes], fixed: bool) -> None:
        self._overlay = overlay
        self._writes = writes
        self._keys = keys
        """All keys of this view, in order, and possibly some that the transaction has written since."""
        self._fixed = fixed
        self._before: dict[bytes, bytes | _Unset | None] | None = None
        """The earlier values of keys that were changed since; None if there are none."""
        self._gaps: Gaps = ()
        """The transaction's gaps as they were before that change."""

    @property
    def is_current(self) -> bool:
        """Whether the transaction has written nothing since."""
        return self._before is None

    def values_over(self, full_keys: list[bytes], committed: list[bytes | None]) -> list[bytes | None]:
        """The committed values of some keys, overridden by the transaction's own writes."""
        values: list[bytes | None] = []
        for key, value in zip(full_keys, committed, strict=True):
            own = self._value(key)
            values.append(value if isinstance(own, _Unset) else own)
        return values

    def _value(self, key: bytes) -> bytes | _Unset | None:
        if self._before is not None and key in self._before:
            return self._before[key]
        return self._writes.get(key, _MISSING)

    def keep(self, keys: Iterable[bytes]) -> None:
        """Save the values of ``keys`` before they are changed."""
        if self._before is None:
            self._before, self._gaps = {}, self._overlay.gaps
        for key in keys:
            if key not in self._before:
                self._before[key] = self._writes.get(key, _MISSING)

    def touches(self, wanted: Range) -> bool:
        """Whether there may be own writes in a range."""
        at = bisect_left(self._keys, wanted.low)
        return at < len(self._keys) and wanted.covers(self._keys[at])

    def past(self, wanted: Range) -> Range | None:
        """A range without the transaction's gaps at its beginning; None if nothing is left."""
        gaps = self._overlay.gaps if self._before is None else self._gaps
        return past(gaps, wanted, 0) if gaps else wanted

    def over(self, entries: list[tuple[bytes, bytes]], part: Range) -> list[tuple[bytes, bytes]]:
        """The committed ``entries`` of ``part``, merged with the own writes, with the user's keys. If own deletions
        hide the entries at its beginning, that is noted as a gap."""
        keys = self._keys
        first = bisect_left(keys, part.low)
        end = bisect_left(keys, part.high) if part.high is not None else len(keys)
        found = dict(entries)
        for key in keys[first:end]:
            value = self._value(key)
            if value is None:
                found.pop(key, None)
            elif isinstance(value, bytes):
                found[key] = value
        ordered = sorted(found, reverse=part.reverse)
        if entries and self._fixed and self._before is None and (not ordered or ordered[0] != entries[0][0]):
            self._overlay.note(part.before(ordered[0]) if ordered else part)
        return [(key[KEYSPACE_PREFIX:], found[key]) for key in ordered]


class Overlay:
    """What a transaction keeps for its scans: the order of its keys, the views in use, and its gaps."""

    __slots__ = ("_keys", "_known", "_parts", "_views", "gaps")

    def __init__(self) -> None:
        self._parts: dict[bytes, list[bytes]] = {}
        """The first ``_known`` keys of the buffer, by the prefix of their keyspace."""
        self._known = 0
        self._keys: list[bytes] | None = None
        """The keys of the buffer in order, as of the last scan. Only ``undo`` removes keys."""
        self._views: list[weakref.ref[OwnWrites]] = []
        self.gaps: Gaps = ()

    def view(self, writes: Writes, fixed: bool) -> OwnWrites:
        """A view of the buffer as it is now. O(keys that are new since the last view)."""
        keys = self._keys
        if keys is None or len(writes) - len(keys) > _FEW:
            keys = self._keys = sorted(writes)
        elif len(keys) != len(writes):
            for key in islice(reversed(writes), len(writes) - len(keys)):
                insort(keys, key)
        newest = self._views[-1]() if self._views else None
        if newest is not None and newest.is_current:
            return newest
        view = OwnWrites(self, writes, keys, fixed)
        self._views = [each for each in self._views if each() is not None]
        self._views.append(weakref.ref(view))
        return view

    def touches(self, writes: Writes, wanted: Range, fixed: bool) -> bool:
        """Whether there may be own writes in a range. The keys are sorted only if many are in the same keyspace."""
        low, high = wanted.low, wanted.high
        prefix = low[:KEYSPACE_PREFIX]
        if high is not None and high.startswith(prefix) and len(prefix) == KEYSPACE_PREFIX:
            parts, count = self._parts, len(writes)
            if count != self._known:
                for key in islice(reversed(writes), count - self._known):
                    if (part := key[:KEYSPACE_PREFIX]) in parts:
                        parts[part].append(key)
                    else:
                        parts[part] = [key]
                self._known = count
            keys = parts.get(prefix, ())
            if len(keys) <= _FEW:
                return any(low <= key < high for key in keys)
        return self.view(writes, fixed).touches(wanted)

    def change(self, changes: Writes) -> None:
        """Called before the buffer takes ``changes``."""
        self._keep(changes)
        if self.gaps and (puts := [key for key, value in changes.items() if value is not None]):
            self.gaps = without(self.gaps, puts)

    def undo(self, keys: Iterable[bytes]) -> None:
        """Called before ``keys`` are restored to their values at a savepoint."""
        self._keep(keys)
        self._parts, self._known = {}, 0
        self._keys = None
        self.gaps = ()

    def _keep(self, keys: Iterable[bytes]) -> None:
        if self._views:
            views = [view for each in self._views if (view := each()) is not None]
            for view in views:
                view.keep(keys)
            self._views = [weakref.ref(view) for view in views]

    def note(self, dead: Range) -> None:
        """Note that the transaction sees nothing in a range."""
        if dead.high is not None and dead.low < dead.high:
            self.gaps = bounded(noted(self.gaps, Gap(dead.low, dead.high, 0), _never), _MOST_GAPS)


def _never(low: int, high: int) -> bool:
    return False
