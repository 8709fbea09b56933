"""The equation of garbage over chains, base and history together, with a real LMDB (G2, G4, G6, K1, K2, C4).

The test drives the parts itself, in the steps of the committer, the checkpointer and the collector, in any order that
the locks of the store allow. Every live snapshot must read the same after every step, and every transaction that may
still commit must meet the same conflicts.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from functools import partial

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lowtide.engine.base.codec import is_tombstone, row_ts
from lowtide.engine.checkpoint.apply import Changes, CheckpointTarget, apply_checkpoint, changes_of
from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.garbage.prune import prune
from lowtide.engine.garbage.sweep import EVERYTHING, Stretch, stretches, sweep_history, sweep_tombstones
from lowtide.engine.log.frame import Commit
from lowtide.engine.types import Range, Writes, after_prefix
from lowtide.engine.versions.chain import versions_of
from lowtide.engine.versions.layers import VersionStore
from lowtide.engine.versions.published import Published
from lowtide.engine.versions.visibility import Reader
from tests.property.profile import with_files
from tests.unit.engine.base.bases import PREFIX, kept_by, new_base, rows_of, tombstones_of

KEYS = [PREFIX + name for name in (b"a", b"b", b"c")]
writes = st.dictionaries(st.sampled_from(KEYS), st.sampled_from([None, b"", b"x", b"y"]), min_size=1)


class Shelving(RuleBasedStateMachine):
    """All the places where a version can be. ``registry`` is the reader's."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.base = self._stack.enter_context(new_base())
        self.versions = VersionStore(0, 3)
        self.registry = Published(0)
        self.reader = Reader(self.versions, self.base, self.registry, 3)
        self.reader.sparse.add(PREFIX)
        self.reader.first_chunk = self.reader.least_run = 1  # so that one deleted key is worth a gap
        self.collector = "exact"
        self.log: list[Commit] = []
        self.live: list[tuple[int, bool]] = []
        """The timestamps of live snapshots, and whether they may commit."""
        self.ended: list[int] = []
        self.rest: list[Stretch] = []
        self.target: CheckpointTarget | None = None
        self.sampled: tuple[Exact, int | None] = (make_horizon("exact", (), 0), None)
        self.applied = False

    def teardown(self) -> None:
        self._stack.close()

    @initialize(collector=st.sampled_from(["exact", "exact", "watermark"]))
    def choose(self, collector: str) -> None:
        self.collector = collector

    # The model

    def value_at(self, key: bytes, ts: int) -> bytes | None:
        return next((each.writes[key] for each in reversed(self.log) if each.ts <= ts and key in each.writes), None)

    def last_change(self, key: bytes) -> int:
        return next((each.ts for each in reversed(self.log) if key in each.writes), 0)

    # The parts at work

    @property
    def published(self) -> int:
        return self.registry.published

    def horizon(self, bound: int) -> Exact:
        return make_horizon(self.collector, (ts for ts, _ in self.live), bound)

    def oldest_writer(self) -> int | None:
        return min((ts for ts, writer in self.live if writer), default=None)

    @rule(changes=st.lists(writes, min_size=1, max_size=4), prunes=st.booleans())
    def commit(self, changes: list[Writes], prunes: bool) -> None:
        """Pruning may fail or be postponed. No reader may notice."""
        for change in changes:
            ts = self.published + 1
            grown = self.versions.publish(ts, change)
            self.everybody_reads_an_instant()  # which this commit is not yet part of
            self.registry.published = ts
            self.log.append(Commit(ts, 0.0, change))
            self.versions.active.held.update(dict.fromkeys(grown))
            if prunes:
                horizon = self.horizon(ts)
                self.versions.prune(grown, partial(prune, horizon=horizon))

    @rule(writer=st.booleans(), change=writes)
    def begin(self, writer: bool, change: Writes) -> None:
        """A snapshot, and a commit that it does not see."""
        self.live.append((self.published, writer))
        self.registry.live = dict(enumerate(ts for ts, _ in self.live))
        self.commit([change], True)

    @precondition(lambda self: self.live)
    @rule(index=st.integers(0, 100))
    def end(self, index: int) -> None:
        self.ended.append(self.live.pop(index % len(self.live))[0])
        self.registry.live = dict(enumerate(ts for ts, _ in self.live))

    @rule(by_helper=st.booleans())
    def checkpoint_goes_on(self, by_helper: bool) -> None:
        """The next of its steps: freeze, sample, apply, drop. Anything may happen in between."""
        if self.versions.frozen is None:
            self.versions.freeze(self.published)
        elif self.target is None:
            self.sample()
        elif not self.applied:
            self.apply(by_helper)
        else:
            self.drop()

    @rule(by_helper=st.booleans())
    def checkpoint(self, by_helper: bool) -> None:
        """All that is left of it."""
        self.checkpoint_goes_on(by_helper)
        while self.versions.frozen is not None:
            self.everybody_reads_an_instant()
            self.checkpoint_goes_on(by_helper)

    def sample(self) -> None:
        """A snapshot that begins after this is not in the sample. One that ends after this may leave garbage in the
        history."""
        upto = self.versions.frozen_upto
        self.sampled = self.horizon(upto), self.oldest_writer()
        self.target = CheckpointTarget(self.versions.boundary, upto, lambda: self.sampled)
        self.base.history_below = max(self.base.history_below, upto)

    def apply(self, by_helper: bool) -> None:
        """From the frozen chains, or as the helper does from the log."""
        assert self.target is not None
        assert self.versions.frozen is not None
        changes = Changes(self.versions.frozen.chains, {})
        if by_helper:
            commits = [each for each in self.log if self.target.boundary < each.ts <= self.target.upto]
            changes = changes_of(commits, self.sampled[0])
        apply_checkpoint(self.base, changes, self.target)
        self.applied = True

    def drop(self) -> None:
        """Snapshots that ended while it ran are reported once more: it kept versions for them."""
        assert self.target is not None
        self.versions.drop_frozen()
        self.ended += set(self.sampled[0].live) - {ts for ts, _ in self.live}
        self.target, self.applied = None, False

    @rule(budget=st.integers(1, 3))
    def collect(self, budget: int) -> None:
        """As the background does: a few chains, what the ended ones may have left in the history, tombstones."""
        horizon = self.horizon(self.published)
        self.versions.prune(list(self.versions.active.held)[:budget], partial(prune, horizon=horizon))
        wanted = self.rest + stretches(self.ended, self.horizon(self.published).live)
        self.ended.clear()
        self.rest = sweep_history(self.base, lambda: self.horizon(self.published), wanted, budget).rest
        oldest = self.oldest_writer()
        sweep_tombstones(self.base, self.published if oldest is None else oldest, budget)

    # What must hold

    @invariant()
    def everybody_reads_an_instant(self) -> None:
        """Every live snapshot its own, and one that would begin now the last one that is published."""
        for ts in {self.published, *(ts for ts, _ in self.live)}:
            expected = {key: value for key in KEYS if (value := self.value_at(key, ts)) is not None}
            found = {key: value for key in KEYS if (value := self.reader.get(key, ts)) is not None}
            assert found == expected
            for reverse in (False, True):
                scan = self.reader.scan(Range(PREFIX, after_prefix(PREFIX), reverse), partial(int, ts), None)
                in_order = sorted(expected.items(), reverse=reverse)
                assert [entry for chunk in scan for entry in chunk] == [
                    (key[len(PREFIX) :], value) for key, value in in_order
                ]

    @rule(low=st.sampled_from(KEYS), reverse=st.booleans(), newest=st.booleans())
    def somebody_scans_a_part(self, low: bytes, reverse: bool, newest: bool) -> None:
        """Which may note another gap than a scan of everything does."""
        ts = self.published if newest or not self.live else self.live[0][0]
        for chunk in self.reader.scan(Range(low, KEYS[-1], reverse), partial(int, ts), None):
            assert all(value == self.value_at(PREFIX + key, ts) for key, value in chunk)

    @invariant()
    def the_gaps_are_in_order(self) -> None:
        self.versions.gaps.check()

    @invariant()
    def the_counters_are_exact(self) -> None:
        for layer in self.versions.layers:
            layer.check()

    @invariant()
    def every_writer_learns_of_its_conflicts(self) -> None:
        for ts in {self.published, *(ts for ts, writer in self.live if writer)}:
            for key in KEYS:
                changed = self.versions.changed_at(key)
                changed = self.base.changed_at(key) if changed is None else changed
                assert (changed > ts) == (self.last_change(key) > ts), "a conflict was lost or invented"

    @rule()
    def collect_everything(self) -> None:
        """After a thorough collection exactly the versions that a snapshot sees are left. For the history it is enough
        to sweep the stretches, once all ended snapshots were reported."""
        horizon = self.horizon(self.published)
        self.versions.prune(list(self.versions.active.held), partial(prune, horizon=horizon))
        wanted = self.rest + stretches(self.ended, horizon.live)
        self.ended, self.rest = [], []
        sweep_history(self.base, lambda: horizon, wanted, 1 << 62)
        found_more = sweep_history(self.base, lambda: horizon, [EVERYTHING], 1 << 62).dropped
        assert found_more == 0 or self.target is not None
        oldest = self.oldest_writer()
        sweep_tombstones(self.base, self.published if oldest is None else oldest, 1 << 62)
        if self.collector == "exact":
            self.expect_exactly_what_is_seen()
        for key, row in rows_of(self.base).items():
            if is_tombstone(row):
                assert oldest is not None
                assert oldest < row_ts(row)
                assert (row_ts(row), key) in tombstones_of(self.base)

    def expect_exactly_what_is_seen(self) -> None:
        live = {ts for ts, _ in self.live}
        for chain in self.versions.active.chains.values():
            versions = list(versions_of(chain))
            for (end, _), (begin, _) in itertools.pairwise(versions):
                assert any(begin <= ts < end for ts in live), (versions, live)
        for interval in kept_by(self.base):
            assert any(interval.begin <= ts < interval.end for ts in live), (interval, live)


TestShelving = Shelving.TestCase
TestShelving.settings = with_files
