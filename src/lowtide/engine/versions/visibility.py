"""What a snapshot sees: chains first, then the base.

Correctness rests on the order. A reader takes ``view`` first and begins its LMDB transaction after that. A checkpoint
commits to LMDB first and drops its layer after that. So if a layer is missing from ``view``, its content was committed
to LMDB before the drop, hence before ``view`` was taken, hence before the LMDB transaction began: the reader finds it
there. If the reader still has the layer and LMDB already has its content, both agree. No retry is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from operator import itemgetter
from time import sleep

from lowtide.engine.base.codec import LATEST, horizon
from lowtide.engine.types import KEYSPACE_PREFIX, Range
from lowtide.engine.versions.below import BaseRows
from lowtide.engine.versions.chain import visible
from lowtide.engine.versions.estimating import estimated_count
from lowtide.engine.versions.layers import ABSENT, LARGEST_CACHED, Layer, RowCache, VersionStore
from lowtide.engine.versions.leading import first_after_deleted
from lowtide.engine.versions.own import OwnWrites
from lowtide.engine.versions.published import Published
from lowtide.errors import UsageError

_READS_BETWEEN = 128
"""One in this many reads yields to a commit. With a smaller number, switching costs more than it saves in waiting."""
_second = itemgetter(1)
_FIRST_CHUNK = 128
_LARGEST_CHUNK = 4096
_LEAST_RUN = 8
_FEW = 128
_MOST_KEPT = 128
"""Rows that are read together are cached up to this number. A larger read would displace what is read repeatedly."""


class Reader:
    """Reads the committed state at a timestamp. Lock-free, for any number of threads."""

    __slots__ = ("_base", "_cache_rows", "_reads", "_registry", "_versions", "first_chunk", "least_run", "sparse")

    def __init__(self, versions: VersionStore, base: BaseRows, registry: Published, cache_rows: int) -> None:
        self._versions = versions
        self._base = base
        self._registry = registry
        self._cache_rows = cache_rows
        self._reads = 0
        self.first_chunk = 0
        """How many entries a scan reads in its first chunk by default; 0 for the usual number."""
        self.least_run = _LEAST_RUN
        """The number of consecutive invisible keys that are worth a gap."""
        self.sparse: set[bytes] = set()
        """The prefixes of keyspaces in which lookups of missing keys are common. Their absence is cached. Kinds of data
        add to it; a reader that misses an addition only reads the base once more."""

    @property
    def sources(self) -> tuple[VersionStore, BaseRows]:
        """What it reads: the layers, and the rows below them."""
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
        """The values of many keys at ``ts``, with one read of the base for those that are not in memory."""
        if len(full_keys) == 1:
            return [self.get(next(iter(full_keys)), ts)]
        active, frozen, cache = self._versions.view
        chains = active.chains
        # Most values are in the newest version or in the cache. Loops in C look both up.
        pairs = zip(map(chains.get, full_keys), map(cache.get, full_keys), strict=True)
        values = [
            (chain[1] if chain[0] <= ts else None) if chain is not None else
            row[1] if row is not None and row[0] <= ts else None
            for chain, row in pairs
        ]  # fmt: skip
        missing: list[tuple[int, bytes]] = []
        for place, key in enumerate(full_keys) if frozen is not None or None in values else ():
            if values[place] is None or frozen is not None:
                chain = visible(chains.get(key), ts)
                if chain is None and frozen is not None:
                    chain = visible(frozen.chains.get(key), ts)
                if chain is not None:
                    values[place] = chain[1]
                elif (row := cache.get(key)) is not None and row[0] <= ts:
                    values[place] = row[1]
                else:
                    missing.append((place, key))
        if missing:
            if self._versions.closed:  # see ``_row``
                raise UsageError(self._versions.closed)
            newer = horizon(ts)
            found = self._base.rows_of([key for _, key in missing])  # point: read.rows
            kept = cache if len(missing) <= _MOST_KEPT else None
            old = self._base.has_history(ts)  # after the rows were read, as in ``read_history``
            if not found and not old:
                return values
            for place, key in missing:
                at = found.get(key)
                if at is not None and at < newer:
                    values[place] = at[8:]
                elif old:
                    values[place] = self._base.read_history(key, ts)
                if kept is not None and at is not None and at < LATEST:
                    self._keep(key, (int.from_bytes(at[:8], "big"), at[8:]), kept)
        return values

    def get_latest(self, full_key: bytes) -> bytes | None:
        """The newest published value. No registered snapshot is needed: the chain is taken before the published
        timestamp is read, so a version newer than that was not yet published, and its predecessor not yet pruned."""
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
        """Release the GIL now and then while a commit waits for the disk. Reads that find everything in memory never do
        so otherwise, and four threads of them could delay the commit by 20 ms. The count is a hint that may lose an
        update."""
        self._reads += 1
        if self._reads % _READS_BETWEEN == 0:
            sleep(0)  # not the clock's sleep: this takes no time, and only releases the GIL

    def _row(self, full_key: bytes, cache: RowCache) -> tuple[int, bytes | None] | None:
        """The base's row of a key, as timestamp and value. It is added to ``cache``, which belongs to the caller's
        view."""
        if self._versions.closed:  # after the view was taken: a closed store's view is empty, its base incomplete
            raise UsageError(self._versions.closed)
        row = self._base.row(full_key)  # point: read.row
        if row is None or row >= LATEST:
            if full_key[:KEYSPACE_PREFIX] in self.sparse and len(cache) < self._cache_rows:
                cache[full_key] = ABSENT
            return None
        found = (int.from_bytes(row[:8], "big"), row[8:])
        self._keep(full_key, found, cache)
        return found

    def _keep(self, full_key: bytes, row: tuple[int, bytes], cache: RowCache) -> None:
        """Add a row of the base to ``cache``."""
        if len(row[1]) <= LARGEST_CACHED and self._cache_rows:
            if len(cache) >= self._cache_rows:
                cache.clear()
            cache[full_key] = row  # point: read.fill

    def scan(self, wanted: Range, ts: Callable[[], int], own: OwnWrites | None) -> Iterator[list[tuple[bytes, bytes]]]:
        """The entries of the range in scan order, with the user's keys, a chunk at a time. ``ts`` is called before each
        chunk; for a scan of one snapshot it always returns the same. ``own`` are the transaction's own writes, as they
        were when the scan began."""
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

    def about(self, wanted: Range, ts: int) -> int:
        """The approximate number of keys in a range of one keyspace at ``ts``; exact if there are few."""
        entries, last, _ = self._look(wanted, ts, _FEW, KEYSPACE_PREFIX)
        if last is None:
            return len(entries)
        return max(len(entries), estimated_count(self._versions, self._base, wanted))

    def values(self, wanted: Range, ts: Callable[[], int], size: int) -> Iterator[list[bytes]]:
        """The same as ``scan``, but only the values, forwards, in lists of about ``size``. Up to the first key in a
        layer, they come from the base alone. The layers are read before the base, as always."""
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

    def beginning(self, wanted: Range, ts: int, most: int) -> tuple[list[tuple[bytes, bytes]], bool]:
        """The first entries of a range at ``ts``, with full keys: about ``most`` of them; and whether these are all."""
        entries, last = self._chunk(wanted, ts, most, 0)
        return entries, last is None

    def first(self, wanted: Range, ts: int) -> tuple[bytes, bytes] | None:
        """The first entry of a range with an end, with its full key. Faster than a scan that stops at its first entry.
        If ``ts`` is not registered, it may miss an entry."""
        gaps = self._versions.gaps
        if gaps.of:
            rest = gaps.past(wanted, ts)
            if rest is None:
                return None
            wanted = rest
        low, high, reverse, _ = wanted
        assert high is not None
        active, frozen, _ = self._versions.view
        nearest: tuple[bytes, bytes] | None = None
        for layer in (active,) if frozen is None else (active, frozen):
            key = layer.keys.first(low, high, reverse)
            if key is None:
                continue
            chain = visible(layer.chains.get(key), ts)
            if chain is None or (value := chain[1]) is None:  # the keys after it must be looked at
                if frozen is None:
                    known, entry = first_after_deleted(active, self._base, wanted, ts, self.least_run)
                    if known:
                        return entry
                return self._first_of_scan(wanted, ts)
            if nearest is None or (key > nearest[0] if reverse else key < nearest[0]):
                nearest = (key, value)
        # A key of the base that comes before the first key of each layer is in no layer.
        known, entry = self._base.first(low, high, ts, reverse)
        if not known:
            return self._first_of_scan(wanted, ts)
        if entry is None or nearest is None:
            return entry or nearest
        return entry if (entry[0] > nearest[0] if reverse else entry[0] < nearest[0]) else nearest

    def _first_of_scan(self, wanted: Range, ts: int) -> tuple[bytes, bytes] | None:
        entries, last = self._skip(wanted, ts, 0)
        if entries or last is None:
            return entries[0] if entries else None
        for chunk in self.scan(wanted.beyond(last)._replace(first=self.least_run), lambda: ts, None):
            for key, value in chunk:
                return wanted.low[:KEYSPACE_PREFIX] + key, value
        return None

    def _chunk(self, wanted: Range, ts: int, size: int, strip: int) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """The entries of a part of the range that are visible at ``ts``, in scan order, and the part's last key, None
        at the end. ``strip`` bytes are removed from the entries' keys. Deleted keys at the beginning are skipped once a
        scan has passed them; see ``gap_map``."""
        gaps = self._versions.gaps
        if gaps.of:
            rest = gaps.past(wanted, ts)
            if rest is None:
                return [], None
            if rest is not wanted:  # often more keys were deleted since
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
        """The same as ``_chunk``, for a range that begins with many invisible keys: pass all of them, and note them as
        a gap."""
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
            # After the layers were taken: if they lack a commit after ``ts``, the boundary was moved before.
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
        """The entries of a part of the range that are visible at ``ts``, in scan order; the part's last key, None at
        the end; and the first key in it with a version after ``ts`` in the layers."""
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
