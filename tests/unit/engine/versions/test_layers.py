"""The version store keeps exact counts, knows the keys with more than one version, and moves whole layers (G4, G6,
K1)."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lowtide.engine.garbage.horizon import make_horizon
from lowtide.engine.garbage.prune import prune
from lowtide.engine.types import Writes
from lowtide.engine.versions.chain import chain_of, versions_of
from lowtide.engine.versions.layers import LARGEST_CACHED, VersionStore, slices_of
from lowtide.errors import UsageError

keys = st.sampled_from([b"a", b"b", b"c", b"dd"])
values = st.none() | st.binary(max_size=3)
few = st.dictionaries(keys, values, min_size=1, max_size=4)
many = st.fixed_dictionaries({b"%d" % number: values for number in range(12)}, optional=dict.fromkeys([b"a"], values))
writes = few | many


class Versions(RuleBasedStateMachine):
    """Commits, collections and checkpoints in any order; the layer's own check must hold after each."""

    def __init__(self) -> None:
        super().__init__()
        self.store = VersionStore(0)
        self.ts = 0
        self.live: set[int] = set()

    @rule(change=writes)
    def commit(self, change: Writes) -> None:
        self.ts += 1
        had_one = {key for key in change if key in self.store.active.chains}
        grown = self.store.publish(self.ts, change)
        assert set(grown) == had_one
        horizon = make_horizon("exact", self.live, self.ts)
        before = self.store.active.versions
        if self.live:
            dropped = self.store.drop_superseded(grown, horizon.needs, partial(prune, horizon=horizon))
        else:
            dropped = self.store.keep_newest(grown)
        assert self.store.active.versions == before - dropped

    @rule()
    def begin(self) -> None:
        self.live.add(self.ts)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.live.remove(data.draw(st.sampled_from(sorted(self.live))))

    @rule()
    def collect(self) -> None:
        horizon = make_horizon("exact", self.live, self.ts)
        held = list(self.store.active.held)
        before = self.store.active.versions
        dropped = self.store.prune(held, lambda chain: prune(chain, horizon))
        assert self.store.active.versions == before - dropped
        assert self.store.prune(held, lambda chain: prune(chain, horizon)) == 0, "collecting twice drops nothing more"
        for chain in self.store.active.chains.values():
            assert len(list(versions_of(chain))) <= len(self.live) + 1

    @precondition(lambda self: self.store.frozen is None)
    @rule()
    def freeze(self) -> None:
        chains = self.store.active.chains
        frozen = self.store.freeze(self.ts)
        assert frozen.chains is chains
        assert self.store.active.versions == 0
        assert self.store.boundary <= self.ts

    @precondition(lambda self: self.store.frozen is not None)
    @rule()
    def drop(self) -> None:
        upto = self.store.frozen_upto
        self.store.drop_frozen()
        assert self.store.boundary == upto
        assert self.store.layers == [self.store.active]

    @invariant()
    def the_counts_are_exact(self) -> None:
        for layer in self.store.layers:
            layer.check()


TestVersions = Versions.TestCase
TestVersions.settings = settings(max_examples=60)


def test_publishing_returns_the_keys_that_had_a_version() -> None:
    store = VersionStore(0)
    assert store.publish(1, {b"a": b"1", b"b": b"1"}) == []
    assert store.publish(2, {b"b": b"2", b"c": b"2"}) == [b"b"]
    assert list(versions_of(store.active.chains[b"b"])) == [(2, b"2"), (1, b"1")]
    assert store.active.keys.between(b"", None, 9, False) == [b"a", b"b", b"c"]


@given(writes, writes)
def test_publishing_a_commit_again_changes_nothing(first: Writes, second: Writes) -> None:
    """An interrupt may have cut the publication short anywhere. It is repeated as a whole, and counted again."""
    store = VersionStore(0)
    store.publish(1, first)
    store.publish(2, second)
    chains, keys_in_order = dict(store.active.chains), store.active.keys.between(b"", None, 9, False)
    grown = store.publish(2, second)
    assert {key for key in second if key in first} <= set(grown)
    store.active.recount()
    assert store.active.chains == chains
    store.keep_newest(grown)
    store.active.check()
    assert store.active.keys.between(b"", None, 9, False) == keys_in_order


@given(st.lists(writes, min_size=1, max_size=4), st.integers(0, 3))
@example([{b"a": b"1"}, {b"a": b"2"}], 0)
def test_publishing_again_from_an_earlier_commit_on_changes_nothing(commits: list[Writes], published: int) -> None:
    """Commits that become visible together, and were cut short by an interrupt, are published again from the first."""
    expected, store = VersionStore(0), VersionStore(0)
    for ts, each in enumerate(commits, 1):
        expected.publish(ts, each)
        store.publish(ts, each)
    for ts, each in enumerate(commits, 1):
        if ts > published:
            store.publish(ts, each)
    store.active.recount()
    assert store.active.chains == expected.active.chains
    assert (store.active.versions, store.active.bytes) == (expected.active.versions, expected.active.bytes)


def test_pruning_holds_exactly_the_chains_that_keep_more_than_one() -> None:
    store = VersionStore(0)
    store.publish(1, {b"a": b"1", b"b": b"1"})
    grown = store.publish(2, {b"a": b"2", b"b": b"2"})
    assert store.drop_superseded(grown, lambda begin, end: True, lambda chain: chain) == 0
    assert list(store.active.held) == [b"a", b"b"]
    store.prune([b"a"], lambda chain: (chain[0], chain[1], None))
    assert list(store.active.held) == [b"b"]
    assert store.active.versions == 3
    store.keep_newest([b"b"])
    assert not store.active.held
    store.active.check()


def test_changed_at_looks_through_both_layers() -> None:
    store = VersionStore(0)
    store.publish(1, {b"a": b"1", b"b": b"1"})
    store.freeze(1)
    store.publish(2, {b"b": None})
    assert [store.changed_at(key) for key in (b"a", b"b", b"c")] == [1, 2, None]
    store.drop_frozen()
    assert [store.changed_at(key) for key in (b"a", b"b", b"c")] == [None, 2, None]


def test_a_reader_that_took_a_view_keeps_it_over_freeze_and_drop() -> None:
    store = VersionStore(0)
    store.publish(1, {b"a": b"1"})
    active, frozen, _ = store.view
    assert frozen is None
    store.freeze(1)
    store.publish(2, {b"a": b"2"})
    store.drop_frozen()
    assert active.chains == {b"a": chain_of([(1, b"1")])}
    assert store.view[0] is not active


def test_the_cache_of_rows_is_replaced_together_with_the_layer() -> None:
    """Rows that were read before the base changed must not serve a reader that no longer has the layer. Rows that did
    not change may. A reader of the old view keeps the old cache."""
    store = VersionStore(0)
    store.publish(1, {b"a": b"1", b"deleted": None, b"large": bytes(LARGEST_CACHED + 1), b"not read": b"1"})
    cache = store.view[2]
    cache.update(dict.fromkeys((b"a", b"deleted", b"large"), (0, b"stale")))
    cache[b"other"] = (0, b"right")
    store.freeze(1)
    store.drop_frozen()
    assert store.view[2] == {b"a": (1, b"1"), b"other": (0, b"right")}
    assert store.view[2] is not cache


def test_only_one_checkpoint_freezes_at_a_time() -> None:
    store = VersionStore(0)
    store.freeze(0)
    with pytest.raises(AssertionError):
        store.freeze(0)


def test_a_closed_store_has_neither_chains_nor_cached_rows() -> None:
    """Reads are refused where they turn to the base, see ``Reader``."""
    store = VersionStore(0)
    store.publish(1, {b"a": b"1"})
    store.close("the store is closed")
    active, frozen, cache = store.view
    assert (dict(active.chains), frozen, cache) == ({}, None, {})
    assert store.closed == "the store is closed"
    with pytest.raises(UsageError, match="closed"):
        active.keys.between(b"", None, 1, False)


def test_a_layer_that_was_dropped_is_freed_in_slices() -> None:
    """No other thread runs while a dict is freed with all that it alone refers to."""
    freed = 0

    class Value(bytes):
        def __del__(self) -> None:
            nonlocal freed
            freed += 1

    store = VersionStore(0)
    store.publish(1, {b"%d" % number: Value(b"%d" % number) for number in range(5_000)})
    layer = store.freeze(1)
    store.drop_frozen()
    slices = slices_of(layer)
    del layer
    assert freed == 0
    counts = []
    while slices:
        slices.pop()
        counts.append(freed)
    assert counts[-1] == 5_000
    assert max(after - before for before, after in pairwise([0, *counts])) <= 2_000
