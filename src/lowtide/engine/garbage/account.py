"""The versions, and their bytes, that are kept for one holder alone.

A holder is a live snapshot or a pin. It keeps versions for a timestamp, of all keyspaces or of a few, its *scope*. A
superseded version counts for a holder iff, among the timestamps of the holders whose scope covers its key, the holder's
is the only one that sees it. Two holders at the same timestamp are each charged with what they keep together, although
ending one of them frees nothing.
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


NOTHING = Holding(0, 0)


def held_alone(holders: Sequence[Holder], superseded: Iterable[Superseded]) -> dict[HolderId, Holding]:
    """What each of ``holders`` alone keeps of the superseded versions. O(versions log holders)."""
    scoped = any(holder.scope is not None for holder in holders)
    live: dict[bytes, list[int]] = {}
    counts: dict[tuple[bytes, int], tuple[int, int]] = {}
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
    return {holder.id: _sum_of(holder, counts) for holder in holders}


def _sum_of(holder: Holder, counts: dict[tuple[bytes, int], tuple[int, int]]) -> Holding:
    if holder.scope is None and (b"", holder.ts) in counts:
        return Holding(*counts[b"", holder.ts])  # no holder is scoped: all keyspaces were counted as one
    found = [count for (prefix, ts), count in counts.items() if ts == holder.ts and holder.covers(prefix)]
    return Holding(sum(versions for versions, _ in found), sum(size for _, size in found))


def superseded(versions: VersionStore, base: Base, since: int = 0) -> Iterator[Superseded]:
    """All superseded versions in memory, and those in the history that ended after ``since``. O(their number).

    It is not one instant: commits may happen meanwhile. LMDB is read in stretches, as everywhere.
    """
    for layer in versions.layers:
        for key in list(layer.held):
            chain: Chain | None = layer.chains.get(key)
            while chain is not None and chain[2] is not None:
                value = chain[2][1]
                yield chain[2][0], chain[0], key, len(key) + (len(value) if value is not None else 0)
                chain = chain[2]
    rest: bytes | None = encode_ts(since + 1)
    while rest is not None:
        found, rest = base.history_sizes(rest, _STRETCH)
        yield from found


def count_superseded(versions: VersionStore, base: Base) -> int:
    """How many superseded versions there are, without reading them. O(1)."""
    return sum(layer.versions - len(layer.chains) for layer in versions.layers) + base.count_history()


def account(holders: Sequence[Holder], versions: VersionStore, base: Base) -> dict[HolderId, Holding]:
    """What each of ``holders`` alone keeps in this store. Reads nothing if there are none."""
    if not holders:
        return {}
    return held_alone(holders, superseded(versions, base, min(holder.ts for holder in holders)))
