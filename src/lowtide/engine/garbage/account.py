"""The versions, and their bytes, that are kept for one holder alone.

A holder is a live snapshot or a pin. It keeps versions for a timestamp, of all keyspaces or of a few, its *scope*. A
superseded version counts for a holder iff, among the timestamps of the holders whose scope covers its key, the holder's
is the only one that sees it. Two holders at the same timestamp are each charged with what they keep together, although
ending one of them frees nothing.

The versions in memory are counted each time. The history, which can be large, changes only with a checkpoint or a
sweep, and only holders below its end see any of it. So the ``Accountant`` counts it again only when one of these has
changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from lowtide.engine.base.codec import encode_ts
from lowtide.engine.base.environment import Base
from lowtide.engine.types import KEYSPACE_PREFIX
from lowtide.engine.versions.chain import Chain
from lowtide.engine.versions.layers import VersionStore

HolderId: TypeAlias = int | str
"""The token of a snapshot, or the name of a pin."""

_STRETCH = 4096
"""Rows of the history that are read in one LMDB transaction."""

Superseded: TypeAlias = tuple[int, int, bytes, int]
"""A superseded version: begin, end, its full key (or only the keyspace's prefix), bytes of key and value."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A holder of the versions visible at ``ts``: of all keys, or of those whose keyspace prefix is in ``scope``."""

    id: HolderId
    ts: int
    scope: frozenset[bytes] | None = None

    def covers(self, prefix: bytes) -> bool:
        return self.scope is None or prefix in self.scope


class Holding(NamedTuple):
    """How many superseded versions are kept because of one holder alone, and the bytes of their keys and values."""

    versions: int
    bytes: int

    def plus(self, other: Holding) -> Holding:
        return Holding(self.versions + other.versions, self.bytes + other.bytes)


NOTHING = Holding(0, 0)


Counts: TypeAlias = dict[tuple[bytes, int], tuple[int, int]]
"""How many versions are seen at one timestamp alone, and their bytes, by prefix of the keyspace and timestamp. The
prefix is empty if no holder has a scope."""


def held_alone(holders: Sequence[Holder], superseded: Iterable[Superseded]) -> dict[HolderId, Holding]:
    """What each of ``holders`` alone keeps of the superseded versions. O(versions log holders)."""
    counts = _counted(holders, superseded)
    return {holder.id: _sum_of(holder, counts) for holder in holders}


def _counted(holders: Sequence[Holder], superseded: Iterable[Superseded]) -> Counts:
    scoped = any(holder.scope is not None for holder in holders)
    live: dict[bytes, list[int]] = {}
    counts: Counts = {}
    for begin, end, key, size in superseded:
        prefix = key[:KEYSPACE_PREFIX] if scoped else b""
        seers = live.get(prefix)
        if seers is None:
            seers = live[prefix] = sorted({each.ts for each in holders if each.covers(prefix)})
        index = bisect_left(seers, begin)
        if index < len(seers) and seers[index] < end and (index + 1 == len(seers) or seers[index + 1] >= end):
            place = prefix, seers[index]
            versions, total = counts.get(place, NOTHING)
            counts[place] = versions + 1, total + size
    return counts


def _sum_of(holder: Holder, counts: Counts) -> Holding:
    if holder.scope is None and (b"", holder.ts) in counts:
        return Holding(*counts[b"", holder.ts])  # no holder is scoped: all keyspaces were counted as one
    found = [count for (prefix, ts), count in counts.items() if ts == holder.ts and holder.covers(prefix)]
    return Holding(sum(versions for versions, _ in found), sum(size for _, size in found))


def superseded(versions: VersionStore, base: Base) -> Iterator[Superseded]:
    """All superseded versions, in memory and in the history. O(their number). It is not one instant: commits may happen
    meanwhile."""
    yield from _in_layers(versions)
    yield from _in_history(base, 0)


def _in_layers(versions: VersionStore) -> Iterator[Superseded]:
    for layer in versions.layers:
        for key in list(layer.held):
            chain: Chain | None = layer.chains.get(key)
            while chain is not None and chain[2] is not None:
                value = chain[2][1]
                yield chain[2][0], chain[0], key, len(key) + (len(value) if value is not None else 0)
                chain = chain[2]


def _in_history(base: Base, since: int) -> Iterator[Superseded]:
    """The versions in the history that ended after ``since``. LMDB is read in stretches, as everywhere."""
    rest: bytes | None = encode_ts(since + 1)
    while rest is not None:
        found, rest = base.history_sizes(rest, _STRETCH)
        yield from found


def count_superseded(versions: VersionStore, base: Base) -> int:
    """How many superseded versions there are, without reading them. O(1)."""
    return sum(layer.versions - len(layer.chains) for layer in versions.layers) + base.count_history()


class _History(NamedTuple):
    """What was counted in the history: in which state of the base, and for which timestamps and scopes."""

    state: tuple[object, int]
    holders: frozenset[tuple[int, frozenset[bytes] | None]]
    counts: Counts


class Accountant:
    """Tells what the holders of one store keep. Any thread may ask.

    ``_known`` is replaced as a whole, by any thread. A thread that misses a replacement counts the history once more.
    """

    def __init__(self, versions: VersionStore, base: Base) -> None:
        self._versions = versions
        self._base = base
        self._known: _History | None = None

    def account(self, holders: Sequence[Holder]) -> dict[HolderId, Holding]:
        """What each of ``holders`` alone keeps in this store. Reads nothing if there are none."""
        if not holders:
            return {}
        in_layers = _counted(holders, _in_layers(self._versions))
        in_history = self._history(holders)
        return {each.id: _sum_of(each, in_layers).plus(_sum_of(each, in_history)) for each in holders}

    def _history(self, holders: Sequence[Holder]) -> Counts:
        base, state = self._base, self._base.state()  # before the history is read: if it changes, so does this
        old = [each for each in holders if each.ts < base.history_below]
        if not old:
            return {}
        holding = frozenset([(each.ts, each.scope) for each in old])
        known = self._known
        if known is None or known.state != state or known.holders != holding:
            counts = _counted(old, _in_history(base, min(each.ts for each in old)))
            self._known = known = _History(state, holding, counts)
        return known.counts
