"""What a snapshot sees: chains first, then the base.

The order is the whole argument. ``view`` is taken first; the LMDB transaction is begun after it. A checkpoint commits
to LMDB first and drops its layer after that. So whatever a reader no longer finds in ``view`` was committed to LMDB
before the drop, hence before ``view`` was taken, hence before the LMDB transaction was begun: it is found there. If
instead the reader still has the layer and LMDB already has its content, both say the same. No retry is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from operator import itemgetter
from pathlib import Path
from time import sleep
from typing import Protocol, TypeVar

from lowtide.engine.base.codec import LATEST, horizon
from lowtide.engine.base.types import TableHandle, Txn
from lowtide.engine.types import KEYSPACE_PREFIX, Range
from lowtide.engine.versions.chain import visible
from lowtide.engine.versions.layers import LARGEST_CACHED, Layer, RowCache, VersionStore
from lowtide.engine.versions.own import OwnWrites

_Result = TypeVar("_Result")

_READS_BETWEEN = 128
"""How many reads go by before one gives way to a commit. Fewer cost more switches than they save waiting."""

_second = itemgetter(1)
_FIRST_CHUNK = 128
_LARGEST_CHUNK = 4096
_LEAST_RUN = 32


class Published(Protocol):
    """Who knows the last published timestamp, whether a commit is waiting for the disk, and which snapshots live."""

    published: int
    syncing: bool

    def timestamps(self) -> list[int]: ...


class BaseRows(Protocol):
    """What lies below the layers: the base, or the base as it was at a pin."""

    directory: Path

    @property
    def meta(self) -> TableHandle: ...

    def boundary_in(self, txn: Txn) -> int | None: ...

    def read(self, look: Callable[[Txn], _Result]) -> _Result: ...

    def counted(self, low: bytes, high: bytes | None, ts: int, keys: list[bytes]) -> tuple[int, set[bytes]] | None: ...

    def row(self, full_key: bytes) -> bytes | None: ...

    def first(self, low: bytes, high: bytes, ts: int) -> tuple[bool, tuple[bytes, bytes] | None]: ...

    def rows_of(self, full_keys: list[bytes]) -> dict[bytes, bytes]: ...

    def read_history(self, full_key: bytes, ts: int) -> bytes | None: ...

    def chunk(
        self, low: bytes, high: bytes | None, ts: int, limit: int, reverse: bool, strip: int
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]: ...

    def values(self, low: bytes, high: bytes | None, ts: int, limit: int) -> tuple[list[bytes], bytes | None]: ...


class Reader:
    """Reads of the committed state at a timestamp. Lock-free; any number of threads."""

    __slots__ = ("_base", "_cache_rows", "_reads", "_registry", "_versions", "first_chunk", "least_run")

    def __init__(self, versions: VersionStore, base: BaseRows, registry: Published, cache_rows: int) -> None:
        self._versions = versions
        self._base = base
        self._registry = registry
        self._cache_rows = cache_rows
        self._reads = 0
        self.first_chunk = 0
        """So many entries a scan reads at first, unless it was told; 0 for the usual number."""
        self.least_run = _LEAST_RUN
        """So many keys in a row that are not visible are worth a gap."""

    @property
    def sources(self) -> tuple[VersionStore, BaseRows]:
        """Where it reads: the layers, and what lies below them."""
        return self._versions, self._base

    def get(self, full_key: bytes, ts: int) -> bytes | None:
        """The value at ``ts``, a registered snapshot."""
        if self._registry.syncing:
            self._give_way()
        active, frozen, cache = self._versions.view
        chain = active.chains.get(full_key)  # point: read.chains
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
        row = cache.get(full_key)  # point: read.base
        if row is None:
            row = self._row(full_key, cache)
        if row is not None and row[0] <= ts:
            return row[1]
        return self._base.read_history(full_key, ts)  # point: read.history

    def get_many(self, full_keys: Collection[bytes], ts: int) -> list[bytes | None]:
        """The values of many keys at ``ts``, with one look into the base for all that is not in memory."""
        if len(full_keys) == 1:
            return [self.get(next(iter(full_keys)), ts)]
        active, frozen, cache = self._versions.view
        chains = active.chains
        values: list[bytes | None] = []
        missing: dict[bytes, int] = {}
        if frozen is None and not any(map(chains.get, full_keys)):  # none of them is in a layer
            rows = map(cache.get, full_keys)
            values = [row[1] if row is not None and row[0] <= ts else None for row in rows]
            missing = {key: place for place, key in enumerate(full_keys) if values[place] is None}
            full_keys = ()
        for key in full_keys:
            chain = chains.get(key)
            if chain is not None and chain[0] > ts:
                chain = visible(chain[2], ts)
            if chain is None and frozen is not None:
                chain = visible(frozen.chains.get(key), ts)
            if chain is not None:
                values.append(chain[1])
            elif (row := cache.get(key)) is not None and row[0] <= ts:
                values.append(row[1])
            else:
                missing[key] = len(values)
                values.append(None)
        if missing:
            newer = horizon(ts)
            found = self._base.rows_of(list(missing))  # point: read.rows
            for key, place in missing.items():
                at = found.get(key)
                values[place] = at[8:] if at is not None and at < newer else self._base.read_history(key, ts)
        return values

    def get_latest(self, full_key: bytes) -> bytes | None:
        """The newest published value. Needs no registered snapshot: the chain is taken before the published timestamp
        is, so a version newer than that was not yet published, and its predecessor not yet pruned."""
        if self._registry.syncing:
            self._give_way()
        active, frozen, cache = self._versions.view
        chain = active.chains.get(full_key)
        if chain is not None:
            published = self._registry.published  # point: read.latest
            while chain is not None:
                if chain[0] <= published:
                    return chain[1]
                chain = chain[2]
        if frozen is not None and (chain := frozen.chains.get(full_key)) is not None:
            return chain[1]
        row = cache.get(full_key)
        if row is None:
            row = self._row(full_key, cache)
        return row[1] if row is not None else None

    def _give_way(self) -> None:
        """Let others have the GIL now and then while a commit is at the disk. Reads that find everything in memory
        never do by themselves, and four threads of them would let the commit come back after 20 ms. The count is a
        hint that may lose an update."""
        self._reads += 1
        if self._reads % _READS_BETWEEN == 0:
            sleep(0)  # not the clock's: this takes no time, and only releases the GIL

    def _row(self, full_key: bytes, cache: RowCache) -> tuple[int, bytes] | None:
        """The base's row of a key, as timestamp and value; kept in ``cache``, which belongs to the caller's view."""
        row = self._base.row(full_key)  # point: read.row
        if row is None or row >= LATEST:
            return None
        value = row[8:]
        found = (int.from_bytes(row[:8], "big"), value)
        if len(value) <= LARGEST_CACHED and self._cache_rows:
            if len(cache) >= self._cache_rows:
                cache.clear()
            cache[full_key] = found  # point: read.fill
        return found

    def scan(self, wanted: Range, ts: Callable[[], int], own: OwnWrites | None) -> Iterator[list[tuple[bytes, bytes]]]:
        """The entries of the range in scan order, with the user's keys, a chunk at a time. ``ts`` is asked before
        each chunk, and answers always the same for a scan of one snapshot. ``own`` are the transaction's own writes, as
        they were when the scan began."""
        size = wanted.first or self.first_chunk or _FIRST_CHUNK
        if own is not None and not own.touches(wanted):
            own = None
        rest = wanted if own is None else own.past(wanted)
        while rest is not None:
            entries, last = self._chunk(rest, ts(), size, KEYSPACE_PREFIX if own is None else 0)
            if own is not None:
                entries = own.over(entries, rest if last is None else rest.upto(last))
            yield entries
            rest = rest.beyond(last) if last is not None else None
            if own is not None and rest is not None:
                rest = own.past(rest)
            size = min(size * 2, _LARGEST_CHUNK)

    def values(self, wanted: Range, ts: Callable[[], int], size: int) -> Iterator[list[bytes]]:
        """As ``scan``, the values alone, forwards, in lists of about ``size``. Up to the first key that a layer has,
        they are the base's; the layers are looked at before the base is, as ever."""
        rest: Range | None = wanted
        while rest is not None:
            at, low, high = ts(), rest.low, rest.high
            touched = [each for layer in self._versions.layers for each in layer.keys.between(low, high, 1, False)]
            nearest = min(touched, default=None)
            if nearest == low:
                entries, last = self._chunk(rest, at, size, 0)
                for start in range(0, len(entries) or 1, size):  # past a gap a chunk is larger
                    yield list(map(_second, entries[start : start + size]))
                rest = rest.beyond(last) if last is not None else None
                continue
            values, last = self._base.values(low, nearest if nearest is not None else high, at, size)
            yield values
            beyond = Range(nearest, high) if nearest is not None else None
            rest = rest.beyond(last) if last is not None else beyond

    def first(self, low: bytes, high: bytes, ts: int) -> tuple[bytes, bytes] | None:
        """The first entry with ``low <= key < high``, with its full key. Faster than a scan that stops there. At a
        ``ts`` that is not registered, an entry that is not found may have been there."""
        active, frozen, _ = self._versions.view
        above = active.keys.between(low, high, 1, False) or (
            frozen is not None and frozen.keys.between(low, high, 1, False)
        )
        if not above:
            known, entry = self._base.first(low, high, ts)
            if known:
                return entry
        for chunk in self.scan(Range(low, high, False, 2), lambda: ts, None):
            for key, value in chunk:
                return low[:KEYSPACE_PREFIX] + key, value
        return None

    def _chunk(self, wanted: Range, ts: int, size: int, strip: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """What is visible at ``ts`` of a part of the range, in scan order, and the part's last key, None at the end.
        ``strip`` bytes are taken off the entries' keys. Deleted keys at its beginning are left out once a scan has come
        through them, see ``gap_map``."""
        gaps = self._versions.gaps
        if gaps.of:
            rest = gaps.past(wanted, ts)
            if rest is None:
                return [], None
            if rest is not wanted:  # others have been deleted since, as often as not
                wanted, size = rest, max(size, self.least_run)
        entries, last, _ = self._look(wanted, ts, size, strip)
        if entries or last is None:
            return entries, last
        if size < self.least_run:
            entries, last, _ = self._look(wanted.beyond(last), ts, self.least_run, strip)
            if entries or last is None:
                return entries, last
        return self._skip(wanted, ts, strip)

    def _skip(self, wanted: Range, ts: int, strip: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """As ``_chunk``, of a range that begins with many keys that are not visible: come through them all, and note
        them as a gap."""
        gaps, size = self._versions.gaps, self.least_run
        entries: list[tuple[bytes, bytes]] = []
        last: bytes | None = None
        newer: bytes | None = None
        watch = gaps.watch()  # point: scan.watch
        try:
            rest = gaps.past(wanted, ts)
            while rest is not None:
                entries, last, newer = self._look(rest, ts, size, strip)
                if entries or last is None or newer is not None:
                    break
                rest, last = gaps.past(rest.beyond(last), ts), None
                size = min(size * 2, _LARGEST_CHUNK)
            # After the layers were taken: a commit after ``ts`` that they do not have has moved the boundary before.
            if ts >= self._versions.boundary:
                ends = [wanted.low[:strip] + key for key, _ in entries[:1]] + ([newer] if newer is not None else [])
                end = (max(ends) if wanted.reverse else min(ends)) if ends else None
                dead = wanted.before(end) if end is not None else wanted
                gaps.note(watch, dead, ts, self._registry.timestamps)
        finally:
            gaps.unwatch(watch)
        return entries, last

    def _look(
        self, wanted: Range, ts: int, size: int, strip: int
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None, bytes | None]:
        """What is visible at ``ts`` of a part of the range, in scan order; the part's last key, None at the end; and
        the first key in it that the layers have a version of after ``ts``."""
        low, high, reverse = wanted.low, wanted.high, wanted.reverse
        touched: list[tuple[Layer, list[bytes]]] = []
        for layer in self._versions.layers:
            keys = layer.keys.between(low, high, size, reverse)  # point: scan.keys
            if len(keys) == size:
                low, high = (keys[-1], high) if reverse else (low, keys[-1] + b"\x00")
            if keys:
                touched.append((layer, keys))
        cut = 0 if touched else strip
        entries, last = self._base.chunk(low, high, ts, limit=size, reverse=reverse, strip=cut)  # point: scan.base
        if last is not None:
            low, high = (last, high) if reverse else (low, last + b"\x00")
        elif (low, high) != (wanted.low, wanted.high):
            last = low if reverse else high[:-1] if high is not None else None
        if not touched:
            return entries, last, None
        found = dict(entries)
        newer: list[bytes] = []
        for layer, keys in reversed(touched):  # point: scan.chains
            chains = layer.chains
            for key in keys:
                if key < low or (high is not None and key >= high):
                    continue
                chain = chains.get(key)
                if chain is None or chain[0] > ts:
                    newer.append(key)
                    chain = visible(chain, ts)
                    if chain is None:
                        continue
                value = chain[1]
                if value is None:
                    found.pop(key, None)
                else:
                    found[key] = value
        first = (max(newer) if reverse else min(newer)) if newer else None
        return [(key[strip:], found[key]) for key in sorted(found, reverse=reverse)], last, first
