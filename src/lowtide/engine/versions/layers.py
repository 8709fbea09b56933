"""The versions in memory, in two layers: the active one, and while a checkpoint runs the frozen one below it.

A checkpoint *freezes* the active layer and puts an empty one above it. What it then writes to the base is the frozen
layer, which never changes again, and when the base has it the layer is dropped whole: one assignment, no matter how
many keys. So no version at or below a published boundary is ever taken out of a chain one by one.

Who writes: ``publish``, ``prune`` and ``freeze`` run under the commit lock. ``drop_frozen`` runs in the one checkpoint
that froze. A lock-free reader takes ``view`` once, a pair that is replaced whole, and may then see: versions newer than
its snapshot (skipped), versions of a commit that is being published (newer than any snapshot, skipped), and a frozen
layer that the base already has (the same versions, harmless). It looks into the base only after it took ``view``.

The view's third part caches rows of the base, as (timestamp, value). Readers fill it with what they found in LMDB,
and it is replaced by another one together with the drop of a layer: a copy, in which what the layer has brought to the
base is brought up to date. So a cache is filled and used only by readers whose view has, in its layers, whatever the
base may have received since the cache was begun: a row that is out of date there is hidden by a layer, and one that is
newer than a snapshot says so. What a reader of the old view still adds to the old cache, no other reader sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn, TypeAlias

from lowtide.engine.types import Names, Writes
from lowtide.engine.versions.chain import Chain, versions_of
from lowtide.engine.versions.gap_map import GapMap
from lowtide.engine.versions.ordered import OrderedKeys
from lowtide.errors import UsageError

Chains: TypeAlias = dict[bytes, Chain]
RowCache: TypeAlias = dict[bytes, tuple[int, bytes]]
LARGEST_CACHED = 504
"""Values that are larger are not cached, so that the size of a cache is bounded by its number of rows."""

View: TypeAlias = "tuple[Layer, Layer | None, RowCache]"


class Layer:
    """One generation of chains, with its keys in order and its exact size."""

    __slots__ = ("bytes", "chains", "held", "keys", "names", "versions")

    def __init__(self) -> None:
        self.chains: Chains = {}
        self.keys = OrderedKeys(self.chains)
        self.names: Names = {}
        """Keyspaces that these commits were the first to write to."""
        self.held: dict[bytes, None] = {}
        """Keys with more than one version; those whose chain was looked at last come last."""
        self.versions = 0
        self.bytes = 0

    def recount(self) -> None:
        """Recount, after an interrupt in the middle of a change. O(n)."""
        counted = [_size(key, value) for key, chain in self.chains.items() for _, value in versions_of(chain)]
        self.versions, self.bytes = len(counted), sum(counted)
        self.held.update({key: None for key, chain in self.chains.items() if chain[2] is not None})

    def check(self) -> None:
        """Assert what must hold of a layer at rest; for tests and ``verify``."""
        counted = [(key, list(versions_of(chain))) for key, chain in self.chains.items()]
        assert self.versions == sum(len(versions) for _, versions in counted), (self.versions, counted)
        assert self.bytes == sum(_size(key, value) for key, versions in counted for _, value in versions)
        assert {key for key, versions in counted if len(versions) > 1} <= set(self.held), (self.held, counted)
        for key, versions in counted:
            stamps = [ts for ts, _ in versions]
            assert stamps == sorted(set(stamps), reverse=True), (key, stamps)


class ClosedChains(Chains):
    """The chains of a store that is closed."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    def get(self, full_key: bytes, default: object = None) -> NoReturn:
        raise UsageError(self._reason)


class ClosedKeys(OrderedKeys):
    """The keys of a store that is closed: a scan asks for them before it asks the base."""

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        super().__init__({})
        self._reason = reason

    def between(self, low: bytes, high: bytes | None, limit: int, reverse: bool) -> NoReturn:
        raise UsageError(self._reason)


class VersionStore:
    """All versions in memory; see the module for who may do what."""

    def __init__(self, boundary: int) -> None:
        self.active = Layer()
        self.frozen: Layer | None = None
        self.frozen_upto = boundary
        self.boundary = boundary
        """The commit up to which the base holds everything."""
        self.view: View = (self.active, None, {})
        self.gaps = GapMap()
        """Where scans need not look; see there."""
        self._closed = False

    def publish(self, ts: int, writes: Writes) -> list[bytes]:
        """Put the versions of one commit on their chains; returns the keys that had one. No reader sees them until the
        timestamp is published. May be repeated after an interrupt, with a ``recount`` behind it."""
        layer = self.active
        chains = layer.chains
        grown: list[bytes] = []
        size = 0
        for key, value in writes.items():
            older = chains.get(key)
            if older is None:
                layer.keys.add(key)
            else:
                if older[0] == ts:
                    older = older[2]
                grown.append(key)
            chains[key] = (ts, value, older)
            size += len(key) + len(value or b"")
        self.gaps.put(writes)  # point: publish.gaps
        layer.versions += len(writes)
        layer.bytes += size
        return grown

    def prune(self, keys: Iterable[bytes], pruned: Callable[[Chain], Chain]) -> int:
        """Replace the chains of ``keys`` by what ``pruned`` leaves of them; returns how many versions went."""
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
                held.pop(key, None)  # what is still needed goes to the back of the line
            finally:
                held[key] = None  # before anything else can be interrupted: a chain that is not here is forgotten
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

        The one before that is judged once more: the snapshot that it was kept for may have ended, and then the whole
        chain is pruned. So a chain stays as short as ``prune`` makes it, at O(1) for a key as long as nothing goes.
        No snapshot needs what began after ``unseen_after``, so it is not asked for: beside one old reader, that is
        all.
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
        """As ``prune`` where no snapshot lives: of each chain only the newest version stays."""
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
        """Take off the counters what ``after`` no longer has of ``before``; returns how many versions that is."""
        kept = {ts for ts, _ in versions_of(after)}
        gone = [_size(key, value) for ts, value in versions_of(before) if ts not in kept]
        self.active.versions -= len(gone)
        self.active.bytes -= sum(gone)
        return len(gone)

    def freeze(self, upto: int) -> Layer:
        """Make the active layer, which holds the commits up to ``upto``, the frozen one."""
        assert self.frozen is None
        fresh = Layer()
        # No call between these: an interrupt comes before all of them or after. One layer as both would be checkpointed
        # with what is committed to it later.
        self.frozen, self.frozen_upto = self.active, upto
        self.active = fresh  # point: freeze.active
        if not self._closed:
            self.view = (self.active, self.frozen, self.view[2])  # point: freeze.view
        return self.frozen

    def drop_frozen(self) -> None:
        """Forget the frozen layer: the base has it."""
        cache = _brought_up_to_date(self.view[2], self.frozen.chains) if self.frozen is not None else {}
        self.boundary = self.frozen_upto
        if not self._closed:
            self.view = (self.active, None, cache)  # point: drop.view
        self.frozen = None  # point: drop.frozen
        # Last: an interrupt may come in a call, and gaps that stay do no harm. Most of what they skip is gone.
        self.gaps.forget()

    def close(self, reason: str) -> None:
        """Let every further read fail with ``reason``, also one that would need neither LMDB nor a new snapshot."""
        closed = Layer()
        closed.chains, closed.keys = ClosedChains(reason), ClosedKeys(reason)
        self._closed = True  # first: the last checkpoint, which is still to come, must not open the view again
        self.view = (closed, None, {})
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


def _brought_up_to_date(cache: RowCache, chains: Chains) -> RowCache:
    """A copy of ``cache`` for a base that has received the newest versions of ``chains``."""
    fresh = dict(cache)
    for key in fresh.keys() & chains.keys():
        ts, value, _ = chains[key]
        if value is None or len(value) > LARGEST_CACHED:
            del fresh[key]
        else:
            fresh[key] = (ts, value)
    return fresh


def _size(key: bytes, value: bytes | None) -> int:
    return len(key) + len(value or b"")
