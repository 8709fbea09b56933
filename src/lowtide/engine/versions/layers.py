"""The versions in memory, in two layers: the active one and, while a checkpoint runs, the frozen one below it.

A checkpoint *freezes* the active layer and puts an empty one above it. It then writes the frozen layer, which never
changes again, to the base. When the base has it, the whole layer is dropped by one assignment, however many keys it
has. So no version at or below a published boundary is ever removed from a chain one by one.

Who writes: ``publish``, ``prune`` and ``freeze`` run under the commit lock. ``drop_frozen`` runs in the one checkpoint
that froze the layer. A lock-free reader takes ``view`` once, a tuple that is replaced as a whole. It may see: versions
newer than its snapshot (skipped), versions of a commit that is being published (newer than any snapshot, skipped), and
a frozen layer that the base already has (the same versions, harmless). It reads the base only after it took ``view``.

The third part of the view is a cache of rows of the base, as (timestamp, value). Readers fill it with what they found
in LMDB. When a layer is dropped, the same assignment replaces the cache by a copy that is updated with the layer's
versions. So a cache is filled and used only by readers whose layers have everything that the base may have received
since the cache was created. An outdated row in it is hidden by a layer, and the timestamp of a row shows whether it is
newer than a snapshot. No reader of the new view sees what a reader of the old view still adds to the old cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice, repeat
from operator import itemgetter
from typing import Final, NewType, NoReturn, TypeAlias

from lowtide.engine.types import Names, Writes
from lowtide.engine.versions.chain import Chain, versions_of
from lowtide.engine.versions.gap_map import GapMap
from lowtide.engine.versions.ordered import OrderedKeys
from lowtide.engine.versions.published import Published
from lowtide.errors import UsageError

Chains: TypeAlias = dict[bytes, Chain]
RowCache: TypeAlias = dict[bytes, tuple[int, bytes | None]]
ABSENT: Final = (1 << 62, None)
"""In a cache: the base has no row of the key. It is newer than every snapshot, so an old one looks into the history."""
_FEW: Final = 8
"""Up to this many writes are published one by one. More are published by loops in C, which is faster then."""
_MANY: Final = 1_000
_SAMPLED: Final = 64
"""If there are ``_MANY`` writes or more, this many are sampled to see whether they put the same values."""
_FREED_AT_ONCE: Final = 2_000
_TS: Final = itemgetter(0)
LARGEST_CACHED = 504
"""Larger values are not cached, so that the number of rows bounds the size of a cache."""


class Layer:
    """One generation of chains, with its keys in order and its exact size."""

    __slots__ = ("bytes", "chains", "held", "keys", "names", "versions")

    def __init__(self) -> None:
        self.chains: Chains = {}
        self.keys = OrderedKeys(self.chains)
        self.names: Names = {}
        """Keyspaces that these commits were the first to write to."""
        self.held: dict[bytes, None] = {}
        """Keys with more than one version; the most recently examined chains come last."""
        self.versions = 0
        self.bytes = 0

    def recount(self) -> None:
        """Recompute the counters, after an interrupt in the middle of a change. O(n)."""
        counted = [_size(key, value) for key, chain in self.chains.items() for _, value in versions_of(chain)]
        self.versions, self.bytes = len(counted), sum(counted)
        self.held.update({key: None for key, chain in self.chains.items() if chain[2] is not None})

    def check(self) -> None:
        """Assert the invariants of a layer at rest; for tests and ``verify``."""
        counted = [(key, list(versions_of(chain))) for key, chain in self.chains.items()]
        assert self.versions == sum(len(versions) for _, versions in counted), (self.versions, counted)
        assert self.bytes == sum(_size(key, value) for key, versions in counted for _, value in versions)
        assert {key for key, versions in counted if len(versions) > 1} <= set(self.held), (self.held, counted)
        for key, versions in counted:
            stamps = [ts for ts, _ in versions]
            assert stamps == sorted(set(stamps), reverse=True), (key, stamps)


View = NewType("View", tuple[Layer, Layer | None, RowCache])
"""The active layer, the frozen one and the cache. A type of its own, although it is a tuple: a compiled build stores a
plain tuple attribute as three words, and would replace them one by one."""


class ClosedKeys(OrderedKeys):
    """The keys of a store that is closed. A scan reads them before it reads the base."""

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        super().__init__({})
        self._reason = reason

    def between(self, low: bytes, high: bytes | None, limit: int, reverse: bool) -> NoReturn:
        raise UsageError(self._reason)

    def first(self, low: bytes, high: bytes, reverse: bool) -> NoReturn:
        raise UsageError(self._reason)

    def touched(self, prefixes: Iterable[bytes]) -> NoReturn:
        raise UsageError(self._reason)


class VersionStore:
    """All versions in memory; see the module for who writes what."""

    def __init__(self, boundary: int, cache_rows: int = 0) -> None:
        self._cache_rows = cache_rows
        """The rows that a cache may have."""
        self.active = Layer()
        self.frozen: Layer | None = None
        self.frozen_upto = boundary
        self.boundary = boundary
        """The commit up to which the base holds everything."""
        self.view = View((self.active, None, {}))
        self.gaps = GapMap()
        """The ranges that scans can skip; see ``gap_map``."""
        self.replaced = 0
        """The number of versions that ``publish_one`` has dropped; written under the commit lock."""
        self.closed = ""
        """Why nothing can be read any more; empty while the store is open."""

    def resume(self, chains: Chains, names: Names) -> None:
        """Add the commits above the boundary: the newest version of each key, and the names of new keyspaces. Called
        before anything reads or commits."""
        self.active = layer = Layer()
        layer.chains, layer.keys = chains, OrderedKeys(chains)
        layer.keys.add_all(chains)
        layer.names.update(names)
        self.view = View((layer, None, {}))
        layer.versions = len(chains)
        layer.bytes = sum(map(len, chains)) + sum(len(value) for _, value, _ in chains.values() if value is not None)

    def publish(self, ts: int, writes: Writes) -> list[bytes]:
        """Put the versions of one commit on their chains; return the keys that had one. No reader sees them until the
        timestamp is published. After an interrupt it may be repeated, also starting with an earlier commit, and must be
        followed by ``recount``."""
        layer = self.active
        chains = layer.chains
        grown: list[bytes] = []
        olds: list[Chain | None] = []
        one_by_one = len(writes) <= _FEW
        if not one_by_one and not chains.keys().isdisjoint(writes):
            olds = list(map(chains.get, writes))
            one_by_one = max(map(_TS, filter(None, olds))) >= ts
        if one_by_one:
            size = 0
            for key, value in writes.items():
                older = chains.get(key)
                if older is None:
                    layer.keys.add(key)
                else:
                    while older is not None and older[0] >= ts:  # it is repeated
                        older = older[2]
                    grown.append(key)
                chains[key] = (ts, value, older)
                size += len(key) + len(value) if value is not None else len(key)
        else:
            # Each step is one loop in C. A key is among the keys before it is in the dict.
            if olds:
                layer.keys.add_all([key for key, older in zip(writes, olds, strict=True) if older is None])
                grown = [key for key, older in zip(writes, olds, strict=True) if older is not None]
                chains.update(zip(writes, zip(repeat(ts), writes.values(), olds, strict=False), strict=True))
            else:
                layer.keys.add_all(writes)
                chains.update(zip(writes, _first_versions(ts, writes), strict=True))
            size = sum(map(len, writes)) + sum(map(len, filter(None, writes.values())))
        gaps = self.gaps
        # Most commits need no call. Watches first, in the same order as in ``put``.
        if gaps.watches or gaps.of:  # point: publish.gaps
            gaps.put(writes)
        layer.versions += len(writes)
        layer.bytes += size
        return grown

    def publish_one(self, ts: int, key: bytes, value: bytes | None, readers: Published) -> bool:
        """Publish a commit of one key and make it visible: the same as ``publish``, ``keep_newest`` and what a commit
        does in between, without their loops. After an interrupt, ``publish`` and ``recount`` do the rest. Returns
        whether the caller must collect the versions that it superseded, because a snapshot is live."""
        layer = self.active
        chains = layer.chains
        older = chains.get(key)
        if older is None:
            layer.keys.add(key)
        chains[key] = (ts, value, older)
        gaps = self.gaps
        if gaps.watches or gaps.of:  # point: publish.gaps
            gaps.put({key: value})
        versions, size = layer.versions, layer.bytes
        layer.versions = versions + 1
        layer.bytes = size + len(key) + len(value or b"")
        readers.published = ts  # point: commit.visible
        if older is None:
            return False
        if readers.live or older[2] is not None:
            return True
        chains[key] = (ts, value, None)
        layer.versions = versions
        layer.bytes = size + len(value or b"") - len(older[1] or b"")
        self.replaced += 1
        return False

    def prune(self, keys: Iterable[bytes], pruned: Callable[[Chain], Chain]) -> int:
        """Replace the chains of ``keys`` by what ``pruned`` returns for them; return how many versions were dropped."""
        try:
            return self._prune(keys, pruned)
        except BaseException:
            self.active.recount()  # an interrupt may have come between a chain and the counters
            raise

    def _prune(self, keys: Iterable[bytes], pruned: Callable[[Chain], Chain]) -> int:
        layer = self.active
        chains, held = layer.chains, layer.held
        dropped = 0
        for key in keys:
            try:
                held.pop(key, None)  # a chain that is still needed moves to the end
            finally:
                held[key] = None  # before anything else can be interrupted: a chain that is not here is never pruned
            chain = chains.get(key)
            kept = pruned(chain) if chain is not None and chain[2] is not None else chain
            if chain is not None and kept is not None and kept is not chain:
                chains[key] = kept
                dropped += self._account(key, chain, kept)
            if kept is None or kept[2] is None:
                held.pop(key, None)
        return dropped

    def drop_superseded(
        self,
        keys: Iterable[bytes],
        needs: Callable[[int, int], bool],
        pruned: Callable[[Chain], Chain],
        unseen_after: int = 1 << 62,
    ) -> int:
        """Drop from each chain the version that the newest one superseded, unless it is needed.

        The version before that is judged again. If the snapshot that it was kept for has ended, the whole chain is
        pruned. So a chain stays as short as ``prune`` makes it, at O(1) per key as long as nothing is dropped. No
        snapshot needs a version that began after ``unseen_after``, so such versions are not looked up. With a single
        old reader, this is true of all of them.
        """
        layer = self.active
        chains, held = layer.chains, layer.held
        dropped = accounted = size = 0
        for key in keys:
            chain = chains[key]
            ts, value, superseded = chain
            if superseded is None:
                continue
            before = superseded[2]
            if superseded[0] > unseen_after or not needs(superseded[0], ts):
                dropped += 1
                size += _size(key, superseded[1])
                chains[key] = chain = (ts, value, before)
            if before is not None and not needs(before[0], superseded[0]):
                chains[key] = kept = pruned(chain)
                accounted += self._account(key, chain, kept)
                chain = kept
            try:
                if held:
                    held.pop(key, None)
            finally:
                if chain[2] is not None:
                    held[key] = None
        layer.versions -= dropped
        layer.bytes -= size
        return dropped + accounted

    def keep_newest(self, keys: Iterable[bytes]) -> int:
        """The same as ``prune`` without any live snapshot: only the newest version of each chain stays."""
        layer = self.active
        chains, held = layer.chains, layer.held
        dropped = size = 0
        for key in keys:
            ts, value, older = chains[key]
            chains[key] = (ts, value, None)
            while older is not None:
                dropped += 1
                size += len(key) + len(older[1] or b"")
                older = older[2]
            if held:
                held.pop(key, None)
        layer.versions -= dropped
        layer.bytes -= size
        return dropped

    def _account(self, key: bytes, before: Chain, after: Chain) -> int:
        """Subtract from the counters the versions of ``before`` that are no longer in ``after``. Returns their
        number."""
        kept = {ts for ts, _ in versions_of(after)}
        gone = [_size(key, value) for ts, value in versions_of(before) if ts not in kept]
        self.active.versions -= len(gone)
        self.active.bytes -= sum(gone)
        return len(gone)

    def freeze(self, upto: int) -> Layer:
        """Make the active layer, which holds the commits up to ``upto``, the frozen one."""
        assert self.frozen is None
        fresh = Layer()
        view = View((fresh, self.active, self.view[2]))
        # No call between these: an interrupt comes before all of them or after. One layer as both would be checkpointed
        # with what is committed to it later.
        self.frozen, self.frozen_upto = self.active, upto
        self.active = fresh  # point: freeze.active
        if not self.closed:
            self.view = view  # point: freeze.view
        return self.frozen

    def drop_frozen(self) -> None:
        """Forget the frozen layer: the base has it."""
        cache: RowCache = {}
        if self.frozen is not None and not self.closed:
            cache = _brought_up_to_date(self.view[2], self.frozen.chains, self._cache_rows // 2)
        view = View((self.active, None, cache))
        # No call between these either.
        self.boundary = self.frozen_upto
        if not self.closed:
            self.view = view  # point: drop.view
        self.frozen = None  # point: drop.frozen
        # Last: a call may be interrupted, and gaps that remain are harmless. Most of the keys they skip are gone.
        self.gaps.forget()

    def close(self, reason: str) -> None:
        """Make every further read fail with ``reason``, even one that needs neither LMDB nor a new snapshot: it finds
        no chain and no cached row, and is refused when it turns to the base."""
        closed = Layer()
        closed.keys = ClosedKeys(reason)
        view = View((closed, None, {}))
        self.closed = reason  # first: the last checkpoint, which follows, must not open the view again
        self.view = view
        self.gaps.close()

    def changed_at(self, full_key: bytes) -> int | None:
        """The timestamp of the newest version in memory of ``full_key``; None if there is none."""
        active, frozen, _ = self.view
        chain = active.chains.get(full_key)
        if chain is None and frozen is not None:
            chain = frozen.chains.get(full_key)
        return chain[0] if chain is not None else None

    @property
    def layers(self) -> list[Layer]:
        """The layers, newest first."""
        return [layer for layer in self.view[:2] if layer is not None]


def _brought_up_to_date(cache: RowCache, chains: Chains, most: int) -> RowCache:
    """A copy of ``cache`` for a base that has received the newest versions of ``chains``. It also takes in what was
    written, up to ``most`` rows, because that is often read next."""
    fresh = dict(cache)
    room = most - len(fresh)
    for key, (ts, value, _) in chains.items() if room > 0 else ():
        if key not in cache:
            if value is not None and len(value) <= LARGEST_CACHED:
                fresh[key] = (ts, value)
            room -= 1
            if not room:
                break
    for key in fresh.keys() & chains.keys():
        ts, value, _ = chains[key]
        if value is None or len(value) > LARGEST_CACHED:
            del fresh[key]
        else:
            fresh[key] = (ts, value)
    return fresh


def slices_of(layer: Layer) -> list[list[object]]:
    """The keys and the chains of a layer that was dropped, in slices that the caller frees one after the other.

    Freeing a dict also frees what only the dict refers to, and no other thread runs meanwhile: 34 ms for 500,000
    chains. While the slices refer to its content too, the dict alone is freed in 7 ms. Other threads run between two
    slices. The layer is not changed, because a reader that took its view earlier may still be reading it.
    """
    slices: list[list[object]] = []
    for every in (iter(layer.chains), iter(layer.chains.values())):
        while some := list[object](islice(every, _FREED_AT_ONCE)):
            slices.append(some)
    return slices


def _first_versions(ts: int, writes: Writes) -> Iterable[Chain]:
    """A chain of one version for each write. Many keys with the same value, as RDF statements have, share one chain."""
    values = writes.values()
    if len(writes) >= _MANY and len(set(islice(values, _SAMPLED))) <= _SAMPLED // 2:
        shared: dict[bytes | None, Chain] = {value: (ts, value, None) for value in set(values)}
        return map(shared.__getitem__, values)
    return zip(repeat(ts), values, repeat(None))


def _size(key: bytes, value: bytes | None) -> int:
    return len(key) + len(value or b"")
