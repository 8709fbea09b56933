"""The history is bounded by what live snapshots and pins see (invariant 4). Whenever the background thread has done
what it was woken for, the history holds at most twice that, plus ``collect_threshold``. No test calls
``collect_garbage``."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lowtide
from lowtide.engine.garbage import collector as collecting
from lowtide.engine.garbage.living import with_pins
from tests.garbage.background import settle
from tests.property.profile import whole_store
from tests.support.parts import parts_of
from tests.unit.engine.base.bases import kept_by

KEYS = [b"%d" % number for number in range(6)]
SPACES = ["one", "two"]
THRESHOLD = 3
BUDGET = 4
"""Versions that one sweep looks at: nearly every sweep has to be resumed."""


class HistoryBound(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="lowtide-bound-"))
        self.budget, collecting._HISTORY_BUDGET = collecting._HISTORY_BUDGET, BUDGET
        self.live: list[lowtide.Snapshot] = []
        self.pins: list[str] = []
        self.names = 0

    @initialize(collector=st.sampled_from(["exact", "exact", "watermark"]))
    def open(self, collector: str) -> None:
        self.collector = collector
        self.store = lowtide.open(
            self.directory / "store",
            durability="relaxed",
            checkpointer="thread",
            collector=collector,  # type: ignore[arg-type]
            collect_threshold=THRESHOLD,
            monitor_interval=3600,
            map_size=1 << 20,
        )

    @rule(space=st.sampled_from(SPACES), first=st.integers(0, 3), count=st.integers(1, 6), deletes=st.booleans())
    def write(self, space: str, first: int, count: int, deletes: bool) -> None:
        with self.store.transaction() as tx:
            for key in KEYS[first : first + count]:
                if deletes:
                    tx.keyspace(space).delete(key)
                else:
                    tx.keyspace(space).put(key, b"value")

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def snapshot(self) -> None:
        self.live.append(self.store.snapshot())

    @precondition(lambda self: self._whole())
    @rule(data=st.data())
    def snapshot_beside_another(self, data: st.DataObject) -> None:
        self.live.append(self.store.snapshot(at=data.draw(st.sampled_from(self._whole())).ts))

    def _whole(self) -> list[lowtide.Snapshot]:
        """Those that hold all keyspaces: another snapshot can be taken at their commit."""
        return [each for each in self.live if each.keyspaces is None]

    @rule(scope=st.none() | st.sampled_from(SPACES))
    def pin(self, scope: str | None) -> None:
        self.names += 1
        self.pins.append(self.store.pin(f"pin {self.names}", keyspaces=scope).name)

    @precondition(lambda self: self.pins)
    @rule(data=st.data())
    def snapshot_of_a_pin(self, data: st.DataObject) -> None:
        self.live.append(self.store.snapshot(at=data.draw(st.sampled_from(self.pins))))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), drops=st.booleans())
    def end(self, data: st.DataObject, drops: bool) -> None:
        ended = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        if not drops:
            ended.close()
        del ended

    @precondition(lambda self: self.pins)
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        assert self.store.unpin(self.pins.pop(data.draw(st.integers(0, len(self.pins) - 1))))

    def seen(self) -> int:
        """How many versions of the history someone needs, by a look at each."""
        parts = parts_of(self.store)
        living = with_pins(parts._sample(), (row for _, row in parts.pinning.leases.all()))
        return sum(living.of(each.full_key).needs(each.begin, each.end) for each in kept_by(parts.base))

    @invariant()
    def the_history_is_bounded(self) -> None:
        if not hasattr(self, "store"):
            return
        parts = parts_of(self.store)
        while parts.collector.wanted:
            settle(self.store)
        history, seen = self.store.stats().history, self.seen()
        assert history <= 2 * seen + THRESHOLD, (history, seen)
        ledger = parts.collector._ledger
        assert ledger.total + sum(sum(each.cells.values()) for each in parts.collector._kept) == history

    def teardown(self) -> None:
        collecting._HISTORY_BUDGET = self.budget
        ends: list[Callable[[], object]] = [each.close for each in self.live]
        for end in [*ends, self.store.close] if hasattr(self, "store") else []:
            end()
        shutil.rmtree(self.directory, ignore_errors=True)


TestHistoryBound = HistoryBound.TestCase
TestHistoryBound.settings = settings(
    whole_store, max_examples=max(1, whole_store.max_examples // 3), stateful_step_count=30
)
