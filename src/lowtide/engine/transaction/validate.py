"""Whether a transaction may commit: first committer wins, and for SERIALIZABLE precision locking.

Called under the commit lock by the leader of a commit group, so nothing is committed meanwhile except the earlier
members of the group, whose keys are passed along.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from lowtide.engine.base.environment import Base
from lowtide.engine.transaction.guards import Guards
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.transaction.request import Request
from lowtide.engine.types import Range
from lowtide.engine.versions.changed import changed_since
from lowtide.engine.versions.layers import VersionStore

_MOST_KEYS = 200_000
"""Keys of recent commits that are remembered for validation before the slower way is taken."""

Clash = tuple[bytes, int]
"""A full key, and the commit that changed it first."""


class RecentCommits:
    """The keys of the commits that live serializable transactions did not see.

    Written under the commit lock only. It is bounded: when a transaction stays open for very long, the oldest commits
    are forgotten, and its validation asks the versions themselves, which is exact as well, but takes longer.
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
        """Forget everything up to ``upto``: older transactions are validated the slower way."""
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
    """The checks of a commit against what was committed since its snapshot."""

    def __init__(self, versions: VersionStore, base: Base, *, published: int) -> None:
        self._versions = versions
        self._base = base
        self.recent = RecentCommits(published)

    def write_clash(self, writes: Iterable[bytes], since: int) -> Clash | None:
        """The first of the written keys that was committed after ``since``."""
        active, frozen, _ = self._versions.view
        chains = active.chains
        below = since < self._versions.boundary  # point: validate.boundary
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

    def clash(self, request: Request, earlier: Sequence[Request]) -> Clash | None:
        """Why a request that was read at a snapshot may not commit after ``earlier``, the accepted members of its
        group: the rules of SNAPSHOT for what it writes, and of SERIALIZABLE for what it reads."""
        clash = self.write_clash(request.writes, request.seen)
        if clash is None and request.reads is not None:
            clash = self.read_clash(request.reads, request.seen)
        if clash is None and earlier:
            clash = self.group_clash(request, earlier)
        return clash

    def group_clash(self, request: Request, accepted: Sequence[Request]) -> Clash | None:
        """A clash of what was written or read with an earlier member of the group."""
        writes, reads = request.writes, request.reads
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
        """One of the guarded keys, or of the keys in the guarded ranges, that was committed after it was seen, or that
        an ``earlier`` member of the group writes."""
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

    def _changed_at(self, key: bytes) -> int:
        changed = self._versions.changed_at(key)
        return changed if changed is not None else self._base.changed_at(key)

    def read_clash(self, reads: ReadSet, since: int) -> Clash | None:
        """One of the read keys, or of the keys in the read ranges, that was committed after ``since``."""
        ranges = reads.compiled()
        if since < self.recent.complete_after:
            return self._read_clash_in_versions(reads, ranges.ranges, since)
        for ts, keys in self.recent.since(since):
            if not keys.isdisjoint(reads.keys):
                return next(iter(keys & reads.keys)), ts
            if (key := ranges.find(keys)) is not None:
                return key, ts
        return None

    def _read_clash_in_versions(self, reads: ReadSet, ranges: list[Range], since: int) -> Clash | None:
        for key in reads.keys:
            if (changed := self._changed_at(key)) > since:
                return key, changed
        for each in ranges:
            if (clash := changed_since(self._versions, self._base, each, since)) is not None:
                return clash
        return None
