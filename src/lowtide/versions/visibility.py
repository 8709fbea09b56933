"""What a snapshot sees: chains first, then the base.

The order is the whole argument. ``view`` is taken first; the LMDB transaction is begun after it. A checkpoint commits
to LMDB first and drops its layer after that. So whatever a reader no longer finds in ``view`` was committed to LMDB
before the drop, hence before ``view`` was taken, hence before the LMDB transaction was begun: it is found there. If
instead the reader still has the layer and LMDB already has its content, both say the same. No retry is needed.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lowtide.base.environment import Base
from lowtide.log.frame import Writes
from lowtide.versions.chain import Chain, visible
from lowtide.versions.layers import Layer, VersionStore

_FIRST_CHUNK = 128
_LARGEST_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Range:
    """The full keys with ``low <= key < high``; ``high`` of None is the end of all keys."""

    low: bytes
    high: bytes | None
    reverse: bool = False

    def beyond(self, key: bytes) -> Range:
        """What is left of the range when a scan has come past ``key``."""
        return Range(self.low, key, True) if self.reverse else Range(key + b"\x00", self.high)

    def upto(self, key: bytes) -> Range:
        """The part of the range that a scan has covered when it stands on ``key``."""
        return Range(key, self.high, True) if self.reverse else Range(self.low, key + b"\x00")


class Reader:
    """Reads of the committed state at a timestamp. Lock-free; any number of threads."""

    __slots__ = ("_base", "_versions", "published")

    def __init__(self, versions: VersionStore, base: Base, published: Callable[[], int]) -> None:
        self._versions = versions
        self._base = base
        self.published = published

    def get(self, full_key: bytes, ts: int) -> bytes | None:
        """The value at ``ts``, a registered snapshot."""
        active, frozen = self._versions.view
        chain = active.chains.get(full_key)
        while chain is not None:
            if chain[0] <= ts:
                return chain[1]
            chain = chain[2]
        if frozen is not None:
            chain = frozen.chains.get(full_key)
            while chain is not None:
                if chain[0] <= ts:
                    return chain[1]
                chain = chain[2]
        return self._base.read(full_key, ts)  # point: read.base

    def get_latest(self, full_key: bytes) -> bytes | None:
        """The newest published value. Needs no registered snapshot: the chain is taken before the published timestamp
        is, so a version newer than that was not yet published, and its predecessor not yet pruned."""
        active, frozen = self._versions.view
        chain = active.chains.get(full_key)
        if chain is not None:
            published = self.published()  # point: read.latest
            while chain is not None:
                if chain[0] <= published:
                    return chain[1]
                chain = chain[2]
        if frozen is not None:
            chain = frozen.chains.get(full_key)
            if chain is not None:
                return chain[1]
        return self._base.read_latest(full_key)

    def changed_since(self, wanted: Range, since: int) -> tuple[bytes, int] | None:
        """A key of the range that was changed after ``since`` and when, or None. For commits, under their lock."""
        for layer in self._versions.layers:
            keys = layer.keys.between(wanted.low, wanted.high, sys.maxsize, False)
            for key in keys:
                if layer.chains[key][0] > since:
                    return key, layer.chains[key][0]
        rest: Range | None = wanted
        while rest is not None and since < self._versions.boundary:
            changed, last = self._base.changed_keys(rest.low, rest.high, since, _LARGEST_CHUNK)
            if changed:
                return changed[0], self._base.changed_at(changed[0])
            rest = rest.beyond(last) if last is not None else None
        return None

    def scan(self, wanted: Range, ts: Callable[[], int], own: Writes | None) -> Iterator[list[tuple[bytes, bytes]]]:
        """The entries of the range in scan order, a chunk at a time. ``ts`` is asked before each chunk, and answers
        always the same for a scan of one snapshot. ``own`` are the transaction's own writes in the range, as they were
        when the scan began."""
        size = _FIRST_CHUNK
        own_keys = sorted(own) if own else []
        rest: Range | None = wanted
        while rest is not None:
            at = ts()
            entries, last = self._chunk(rest, at, size)
            if own:
                entries = _overlay(entries, own, own_keys, rest if last is None else rest.upto(last))
            yield entries
            rest = rest.beyond(last) if last is not None else None
            size = min(size * 2, _LARGEST_CHUNK)

    def _chunk(self, wanted: Range, ts: int, size: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """What is visible at ``ts`` of a part of the range, in scan order, and the part's last key, None at the end."""
        low, high, reverse = wanted.low, wanted.high, wanted.reverse
        layers = self._versions.layers
        touched: list[tuple[Layer, list[bytes]]] = []
        for layer in layers:
            keys = layer.keys.between(low, high, size, reverse)
            if len(keys) == size:
                low, high = (keys[-1], high) if reverse else (low, keys[-1] + b"\x00")
            if keys:
                touched.append((layer, keys))
        entries, last = self._base.chunk(low, high, ts, size, reverse)  # point: scan.base
        if last is not None:
            low, high = (last, high) if reverse else (low, last + b"\x00")
        elif (low, high) != (wanted.low, wanted.high):
            last = low if reverse else high[:-1] if high is not None else None
        if not touched:
            return entries, last
        found = dict(entries)
        for layer, keys in reversed(touched):
            for key in keys:
                if key < low or (high is not None and key >= high):
                    continue
                version = visible(layer.chains.get(key), ts)
                if version is not None:
                    _put(found, key, version)
        return sorted(found.items(), reverse=reverse), last


def _put(found: dict[bytes, bytes], key: bytes, version: Chain) -> None:
    value = version[1]
    if value is None:
        found.pop(key, None)
    else:
        found[key] = value


def _overlay(
    entries: list[tuple[bytes, bytes]], own: Writes, own_keys: list[bytes], part: Range
) -> list[tuple[bytes, bytes]]:
    """The committed ``entries`` of ``part`` with the transaction's own writes laid over them."""
    first = bisect_left(own_keys, part.low)
    end = bisect_left(own_keys, part.high) if part.high is not None else len(own_keys)
    if first == end:
        return entries
    found = dict(entries)
    for key in own_keys[first:end]:
        value = own[key]
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return sorted(found.items(), reverse=part.reverse)
