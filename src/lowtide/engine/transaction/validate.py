"""Validation: whether a transaction may commit. First committer wins; for SERIALIZABLE, precision locking as well.

Called under the commit lock by the leader of a commit group. So nothing is committed meanwhile except the earlier
members of the group, whose keys are passed along.

*Equal puts merge*: a request may name keyspaces in which a put does not conflict if it puts the newest value of the key
again, whichever transaction put it there. This is for keys whose value is a function of the key, such as statements and
terms: two transactions that add the same one agree. A deletion merges with nothing, and nothing merges with a deletion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from lowtide.engine.base.environment import Base
from lowtide.engine.transaction.guards import Guards
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.transaction.request import Alone, Request
from lowtide.engine.types import KEYSPACE_PREFIX, Range, Writes
from lowtide.engine.versions.changed import changed_since
from lowtide.engine.versions.layers import VersionStore

_MOST_KEYS = 200_000
"""The number of keys of recent commits that are remembered for validation. Beyond it, the slower method is used."""

Clash = tuple[bytes, int]
"""A full key, and the commit that changed it first."""


class RecentCommits:
    """The keys of the commits that live serializable transactions did not see.

    Written under the commit lock only. The memory is bounded: if a transaction stays open for very long, the oldest
    commits are forgotten. Its validation then checks the versions themselves, which is also exact but takes longer.
    """

    def __init__(self, published: int) -> None:
        self.commits: deque[tuple[int, frozenset[bytes]]] = deque()
        self._keys = 0
        self.complete_after = published
        """All commits after this one that a live serializable transaction did not see are remembered."""

    def remember(self, ts: int, keys: Iterable[bytes]) -> None:
        remembered = frozenset(keys)
        self.commits.append((ts, remembered))
        self._keys += len(remembered)
        while self._keys > _MOST_KEYS:
            self._forget_oldest()

    def trim(self, oldest: int | None) -> None:
        """Forget what no live serializable transaction needs; ``oldest`` is the oldest of them."""
        while self.commits and (oldest is None or self.commits[0][0] <= oldest):
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        ts, keys = self.commits.popleft()
        self._keys -= len(keys)
        self.complete_after = ts

    def forget_all(self, upto: int) -> None:
        """Forget everything up to ``upto``. Older transactions are then validated by the slower method."""
        self.commits.clear()
        self._keys = 0
        self.complete_after = upto

    def since(self, ts: int) -> Iterable[tuple[int, frozenset[bytes]]]:
        """The remembered commits after ``ts``, newest first."""
        for commit in reversed(self.commits):
            if commit[0] <= ts:
                return
            yield commit


class Validator:
    """Checks a commit against what was committed since its snapshot."""

    def __init__(
        self, versions: VersionStore, base: Base, *, published: int, latest: Callable[[bytes], bytes | None]
    ) -> None:
        self._versions = versions
        self._base = base
        self.latest = latest
        """Reads the newest committed value of a key."""
        self.recent = RecentCommits(published)

    def write_clash(self, writes: Iterable[bytes], since: int) -> Clash | None:
        """The first of the written keys that was committed after ``since``."""
        active, frozen, _ = self._versions.view
        chains = active.chains
        below = since < self._versions.boundary  # point: validate.boundary
        if frozen is None and not below and isinstance(writes, dict) and chains.keys().isdisjoint(writes):
            return None
        for key in writes:
            chain = chains.get(key)
            if chain is not None:
                if chain[0] > since:
                    return key, chain[0]
                continue
            if frozen is not None and (chain := frozen.chains.get(key)) is not None:
                if chain[0] > since:
                    return key, chain[0]
            elif below and (changed := self._base.changed_at(key)) > since:
                return key, changed
        return None

    def clash(self, request: Request, earlier: Sequence[Request], published: int) -> Clash | None:
        """Why a request that read at a snapshot may not commit after ``earlier``, the accepted members of its group. It
        applies the rules of SNAPSHOT to its writes, and those of SERIALIZABLE to its reads. ``published`` is the newest
        commit: a request that has seen it can conflict only with its group."""
        if request.seen == published and not earlier:
            return None
        clash = (
            self.unequal_clash(request, earlier) if request.merging else self.write_clash(request.writes, request.seen)
        )
        if clash is None and request.reads is not None:
            clash = self.read_clash(request.reads, request.seen, joined=request.lease is not None)
        if clash is None and earlier:
            clash = self.group_clash(request, earlier)
        return clash

    def unequal_clash(self, request: Request, earlier: Sequence[Request]) -> Clash | None:
        """The same as ``write_clash``, for a request whose puts merge with equal ones. Records in the request the keys
        that merge, including those that merge with the writes of an ``earlier`` member of the group."""
        writes, merging = request.writes, request.merging
        among = {key: value for each in earlier for key, value in each.writes.items() if key in writes}
        merged = {key for key, value in among.items() if _merges(writes, key, value, merging)}
        rest = iter(writes)
        while (clash := self.write_clash(rest, request.seen)) is not None:
            key = clash[0]
            if key not in among:
                if not _merges(writes, key, self.latest(key), merging):
                    return clash
                merged.add(key)
        request.merged = merged
        return None

    def group_clash(self, request: Request, accepted: Sequence[Request]) -> Clash | None:
        """A key that the request wrote or read and an earlier member of the group writes."""
        reads = request.reads
        writes = request.writes.keys() - request.merged if request.merged else request.writes.keys()
        ranges = reads.compiled() if reads is not None else None
        for earlier in accepted:
            keys = earlier.writes.keys()
            if not keys.isdisjoint(writes):
                return next(key for key in writes if key in keys), earlier.ts
            if reads is not None and not keys.isdisjoint(reads.keys):
                return next(key for key in keys if key in reads.keys), earlier.ts
            if ranges is not None and (key := ranges.find(keys)) is not None:
                return key, earlier.ts
        return None

    def guard_clash(self, guards: Guards, earlier: Sequence[Request]) -> Clash | None:
        """A guarded key, or a key in a guarded range, that was committed after it was read, or that an ``earlier``
        member of the group writes."""
        for key, seen in guards.keys.items():
            changed = self._versions.changed_at(key)
            if changed is None and seen < self._versions.boundary:  # in this order, see ``visibility``
                changed = self._base.changed_at(key)
            if changed is not None and changed > seen:
                return key, changed
        for each, seen in guards.ranges:
            if (clash := changed_since(self._versions, self._base, each, seen)) is not None:
                return clash
        for request in earlier:
            for key in request.writes:
                if guards.meet(key):
                    return key, request.ts
        return None

    def lone_clash(self, request: Request, statement: Alone, earlier: Sequence[Request]) -> Clash | None:
        """A key that a statement without a snapshot writes or relies on, and that was committed after it was read, or
        that an ``earlier`` member of the group writes. An arbitrary key if this cannot be determined."""
        writes, seen = request.writes, request.seen
        keys = [*writes, *statement.relied_on]
        active, frozen, _ = self._versions.view
        # After the layers were taken: they have what was committed after ``seen``, unless the boundary has passed it.
        if statement.scanned or seen < self._versions.boundary:  # point: validate.boundary
            return keys[0], self._versions.boundary if not statement.scanned else seen + 1
        for layer in (active,) if frozen is None else (active, frozen):
            chains = layer.chains
            for key in () if chains.keys().isdisjoint(keys) else keys:
                chain = chains.get(key)
                if chain is not None and chain[0] > seen:
                    return key, chain[0]
        for each in earlier:
            if not each.writes.keys().isdisjoint(keys):
                return next(key for key in keys if key in each.writes), each.ts
        return None

    def _changed_after(self, key: bytes, since: int) -> int:
        """When a key was changed, or 0 if it was not changed after ``since``."""
        changed = self._versions.changed_at(key)
        if changed is None and since < self._versions.boundary:  # in this order, see ``visibility``
            changed = self._base.changed_at(key)
        return changed if changed is not None and changed > since else 0

    def read_clash(self, reads: ReadSet, since: int, *, joined: bool = False) -> Clash | None:
        """A key that was read, or that is in a range that was read, and that was committed after ``since``. Recent
        commits are remembered only for the transactions of this process, not for those of ``joined`` processes."""
        ranges = reads.compiled()
        if joined or since < self.recent.complete_after:
            return self._read_clash_in_versions(reads, ranges.ranges, since)
        for ts, keys in self.recent.since(since):
            if not keys.isdisjoint(reads.keys):
                return next(iter(keys & reads.keys)), ts
            if (key := ranges.find(keys)) is not None:
                return key, ts
        return None

    def _read_clash_in_versions(self, reads: ReadSet, ranges: list[Range], since: int) -> Clash | None:
        for key in reads.keys:
            if changed := self._changed_after(key, since):
                return key, changed
        for each in ranges:
            if (clash := changed_since(self._versions, self._base, each, since)) is not None:
                return clash
        return None


def _merges(writes: Writes, key: bytes, newest: bytes | None, merging: frozenset[bytes]) -> bool:
    """Whether a request puts the value that the key already has."""
    return newest is not None and newest == writes[key] and key[:KEYSPACE_PREFIX] in merging
