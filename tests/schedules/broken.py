"""Deliberately broken engines, each at one seam, that the scheduler must convict.

Each breaks one of the orders that a concurrency argument of the engine relies on. The points in this module are like
those of the engine: a schedule can stop there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lowtide.engine.checkpoint.checkpointer import Checkpointer
from lowtide.engine.transaction.commit import Committer
from lowtide.engine.transaction.read_set import RangeSet
from lowtide.engine.transaction.registration import Registration
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.transaction.validate import Validator
from lowtide.engine.versions.chain import visible
from lowtide.engine.versions.gap_map import GapMap, ScanWatch
from lowtide.engine.versions.gaps import Gap, noted, without
from lowtide.engine.versions.layers import VersionStore
from lowtide.engine.versions.ordered import OrderedKeys
from lowtide.engine.versions.visibility import Reader
from lowtide.sharing.pins.owner import OwnerPins
from lowtide.sharing.pins.pins import PinRequest
from tests.support.points import POINTS, PointsOfCode, find_points

WITH_BROKEN = PointsOfCode(POINTS | find_points([Path(__file__)]))
"""The points of the engine, and of the faults in this module."""

Break = Callable[[pytest.MonkeyPatch], None]


def draw_without_a_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A begin that does not check for a commit between draw and registration."""

    def register(self: Any, details: Any, tracks_reads: bool = False) -> Registration:
        registration, ts = Registration(self), self.published
        registration.token = token = next(self.tokens)
        self.details[token] = (details, registration.ref)
        if tracks_reads:
            self.serializable[token] = ts
        self.live[token] = ts  # point: begin.drawn
        registration.ts = ts
        return registration

    monkeypatch.setattr(Registry, "register", register)


def visible_before_the_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit whose timestamp is published before all of its versions are on their chains."""

    def publish(self: Any, accepted: list[Any]) -> None:
        self._registry.published = accepted[-1].ts
        grown = []
        for request in accepted:
            for key, value in request.writes.items():
                grown += self._versions.publish(request.ts, {key: value})  # point: commit.publish
            if request.names is not None:
                self._name(request.names)
        self._collect_safely(grown)

    monkeypatch.setattr(Committer, "_publish", publish)
    monkeypatch.setattr(Committer, "commit_alone", lambda self, request: self._commit([request]))
    monkeypatch.setattr(Committer, "_commit_unchanged", lambda self, *given: 0)


def layer_dropped_before_the_base_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that drops the layer before LMDB has committed it."""
    apply = Checkpointer._apply

    def drop_and_apply(self: Any, layer: Any, target: Any) -> Any:
        self._versions.view = (self._versions.active, None, {})
        return apply(self, layer, target)  # point: checkpoint.apply

    monkeypatch.setattr(Checkpointer, "_apply", drop_and_apply)


def base_before_the_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that reads the base first and the chains second."""

    def get(self: Any, full_key: bytes, ts: int) -> Any:
        row = self._base.row(full_key)
        for layer in self._versions.layers:  # point: read.chains
            chain = visible(layer.chains.get(full_key), ts)
            if chain is not None:
                return chain[1]
        if row is not None and int.from_bytes(row[:8], "big") <= ts:
            return row[8:]
        return self._base.read_history(full_key, ts)

    monkeypatch.setattr(Reader, "get", get)


def cache_that_outlives_its_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row cache that is kept when a checkpoint drops the layer that hid its stale rows."""

    def drop_frozen(self: Any) -> None:
        self.boundary = self.frozen_upto
        self.view = (self.active, None, self.view[2])
        self.frozen = None

    monkeypatch.setattr(VersionStore, "drop_frozen", drop_frozen)


def cache_of_another_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that puts its row into the cache of the newest view, not of the view that it began with."""
    row_of = Reader._row

    def row(self: Any, full_key: bytes, cache: Any) -> Any:
        found = row_of(self, full_key, {})
        if found is not None:
            self._versions.view[2][full_key] = found  # point: read.fill
        return found

    monkeypatch.setattr(Reader, "_row", row)


def group_that_is_not_judged_within(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit group whose members are validated against committed data, but not against each other."""
    monkeypatch.setattr(Validator, "group_clash", lambda self, *arguments: None)


def no_phantoms_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A validation that forgets the ranges that were scanned."""
    monkeypatch.setattr(RangeSet, "find", lambda self, keys: None)


def waiters_stay_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit lock that is released without waking the threads that wait for it."""
    monkeypatch.setattr(Committer, "_pass_on", lambda self: None)


def pin_that_nothing_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pin whose timestamp is released before its row is in the base."""

    def take(self: Any, request: PinRequest, at: Any) -> Any:
        with self.snapshot(at) as held:
            self._checkpoint(held.ts)
        more = {"keyspaces": request.keyspaces, "where": request.where}
        return self.leases.take(request.name, request.ttl, at=held.ts, **more)  # point: pin.take

    monkeypatch.setattr(OwnerPins, "_take", take)


def keys_that_are_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan that takes new keys out of one list before it has put them into the other, while another scan reads both
    without a lock."""

    def between(self: Any, low: bytes, high: bytes | None, limit: int, reverse: bool) -> list[bytes]:
        if not self._fresh and not self._parts:
            return []
        with self._lock:
            fresh = self._fresh[:]
            del self._fresh[: len(fresh)]
            put_back = self._fresh.extend
            put_back(fresh)  # point: scan.drain
            keys = self._within(low, high, reverse)
            return [key for each in keys for key in each.between(low, high, limit, reverse)][:limit]

    monkeypatch.setattr(OrderedKeys, "between", between)


def gap_noted_unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan that records a gap without being notified of concurrent puts."""
    monkeypatch.setattr(GapMap, "watch", lambda self: ScanWatch())


def gaps_looked_for_before_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher that misses a scan that records its gap and ends its watch between the two checks."""
    put = GapMap.put

    def look_and_put(self: Any, writes: Any) -> None:
        if not self.of:
            if not self.watches:  # point: gaps.watches
                return
            put(self, writes)
            return
        put(self, writes)

    monkeypatch.setattr(GapMap, "put", look_and_put)


def nothing_cut_where_no_gap_is_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher that skips the lock because there is no gap, while a scan that was not notified yet holds it."""
    put = GapMap.put

    def put_unless_empty(self: Any, writes: Any) -> None:
        if self.of:
            put(self, writes)
            return
        for watch in self.watches[:]:
            watch.puts += [key for key, value in writes.items() if value is not None]

    monkeypatch.setattr(GapMap, "put", put_unless_empty)


def table_taken_after_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan that reads its notifications before it takes the table, which a publisher may drop in between."""

    def note(self: Any, watch: Any, gap: Gap, live: Any) -> None:
        puts = watch.puts[:]
        of, prefix = self.of, gap.low[:4]  # point: gaps.note
        of[prefix] = without(noted(of.get(prefix, ()), gap, lambda low, high: False), puts)  # point: gaps.noted

    monkeypatch.setattr(GapMap, "_note", note)
