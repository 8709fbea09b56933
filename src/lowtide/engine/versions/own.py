"""A transaction's own writes as its scans lay them over what is committed.

A scan shows the writes as they were when it began, and the transaction may write while it scans. So a scan reads the
transaction's buffer through a *view*, which notes the former value of a key before that is changed: a scan costs
nothing for the writes that it does not come to, and a write costs O(1) for each view that is still in use.

What a transaction has deleted itself hides rows that are committed. Where scans came through such rows, the transaction
keeps gaps of its own (see ``gaps``): it reads one instant, so only its own writes can put anything there.

Used by one thread at a time, as the transaction is.
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
"""So many new keys are put in their places one by one; for more, all are sorted."""
_MOST_GAPS: Final = 256


class _Unset:
    """Marks a key that the transaction had not written."""


_MISSING: Final = _Unset()


class OwnWrites:
    """The own writes as they are when this is made. ``fixed`` says that the transaction reads one instant."""

    __slots__ = ("__weakref__", "_before", "_fixed", "_gaps", "_keys", "_overlay", "_writes")

    def __init__(self, overlay: Overlay, writes: Writes, keys: list[bytes], fixed: bool) -> None:
        self._overlay = overlay
        self._writes = writes
        self._keys = keys
        """In order: all keys of this view, and perhaps some that the transaction has written since."""
        self._fixed = fixed
        self._before: dict[bytes, bytes | _Unset | None] | None = None
        """What was changed since, as it was before; None if nothing was."""
        self._gaps: Gaps = ()
        """The transaction's gaps as they were before that change."""

    @property
    def is_current(self) -> bool:
        """Whether the transaction has written nothing since."""
        return self._before is None

    def values_over(self, full_keys: list[bytes], committed: list[bytes | None]) -> list[bytes | None]:
        """What is committed of some keys, with the own writes in its place."""
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
        """Note what ``keys`` have before they are changed."""
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
        """What is left of a range without the own gaps at its beginning; None if nothing is."""
        gaps = self._overlay.gaps if self._before is None else self._gaps
        return past(gaps, wanted, 0) if gaps else wanted

    def over(self, entries: list[tuple[bytes, bytes]], part: Range) -> list[tuple[bytes, bytes]]:
        """The committed ``entries`` of ``part`` with the own writes laid over them, and the user's keys. Where own
        deletions hide those at its beginning, that is noted."""
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

    __slots__ = ("_keys", "_views", "gaps")

    def __init__(self) -> None:
        self._keys: list[bytes] | None = None
        """The keys of the buffer in order, as of the last scan. Keys are only ever added, but for ``undo``."""
        self._views: list[weakref.ref[OwnWrites]] = []
        self.gaps: Gaps = ()

    def view(self, writes: Writes, fixed: bool) -> OwnWrites:
        """The buffer as it is now. O(what is new in it since the last one)."""
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

    def change(self, changes: Writes) -> None:
        """Before the buffer takes ``changes``."""
        self._keep(changes)
        if self.gaps and (puts := [key for key, value in changes.items() if value is not None]):
            self.gaps = without(self.gaps, puts)

    def undo(self, keys: Iterable[bytes]) -> None:
        """Before ``keys`` go back to what they were at a savepoint."""
        self._keep(keys)
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
