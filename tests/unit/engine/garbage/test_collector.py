"""When garbage is collected: a little at once, the rest in the background, without blocking other threads (G3, G5)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval
from lowtide.engine.garbage import collector as module
from lowtide.engine.garbage.collector import Collector
from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.garbage.ledger import Cell, Kept
from lowtide.engine.garbage.prune import prune
from lowtide.engine.versions.layers import VersionStore
from lowtide.errors import Error
from tests.support.patience import PATIENCE
from tests.unit.engine.base.bases import PREFIX, fill, kept_by, new_base, tombstones_of


class Around:
    """What a collector is given by its store. ``busy`` is whether a commit holds the lock."""

    def __init__(self, base: Base, threshold: int) -> None:
        self.base = base
        self.versions = VersionStore(0)
        self.live: set[int] = set()
        self.writers: set[int] = set()
        self.published = 0
        self.busy = False
        self.woken = 0
        self.pruned: list[tuple[int, bool]] = []
        self.collector = Collector(
            versions=self.versions,
            base=base,
            threshold=threshold,
            prune=self._prune,
            sample=self._sample,
            oldest_writer=self._oldest_writer,
            wake=self._wake,
        )

    def _prune(self, budget: int, wait: bool) -> int | None:
        self.pruned.append((budget, wait))
        if self.busy and not wait:
            return None
        horizon = self._sample()
        keys = list(self.versions.active.held)[:budget]
        return self.versions.prune(keys, lambda chain: prune(chain, horizon))

    def _sample(self) -> Exact:
        return make_horizon("exact", self.live, self.published)

    def _oldest_writer(self) -> int | None:
        return min(self.writers, default=None)

    def _wake(self) -> None:
        self.woken += 1

    def commit(self, *keys: bytes) -> None:
        self.published += 1
        grown = self.versions.publish(self.published, {PREFIX + key: b"x" for key in keys})
        horizon = self._sample()
        self.versions.prune(grown, lambda chain: prune(chain, horizon))

    def release(self, ts: int) -> None:
        """The end of a snapshot, as the store tells it."""
        self.live.discard(ts)
        self.collector.released(ts, self.published, min(self.live, default=ts) >= ts)

    def keep(self, *intervals: tuple[int, int]) -> None:
        """Put versions into the history, and the boundary behind them."""
        fill(self.base, {}, [(Interval(begin, end, PREFIX + b"%d" % begin), b"x") for begin, end in intervals])
        self.published = max(self.published, self.base.history_below)


@pytest.fixture
def around() -> Iterator[Around]:
    with new_base() as base:
        yield Around(base, threshold=3)


def test_the_end_of_a_snapshot_drops_what_it_held_at_once(around: Around) -> None:
    around.commit(b"a", b"b")
    around.live = {1}
    around.commit(b"a", b"b")
    assert around.versions.active.versions == 4
    around.release(1)
    assert around.versions.active.versions == 2
    assert around.woken == 0
    around.versions.active.check()


def test_where_nothing_is_held_the_end_of_a_snapshot_costs_nothing(around: Around) -> None:
    around.commit(b"a")
    around.live = {1}
    around.release(1)
    assert around.pruned == []
    assert around.woken == 0


def test_a_snapshot_of_the_last_commit_held_nothing(around: Around) -> None:
    around.commit(b"a")
    around.live = {1, 2}
    around.commit(b"a")
    around.release(2)
    assert around.pruned == []


def test_what_cannot_be_pruned_at_once_is_left_to_the_background(around: Around) -> None:
    around.commit(b"a")
    around.live = {1}
    around.commit(b"a")
    around.busy = True
    around.release(1)
    assert around.collector.wanted
    assert around.woken == 1
    assert around.collector.collect() == 1
    assert around.versions.active.versions == 1
    assert not around.collector.wanted


@pytest.mark.parametrize("oldest", [True, False])
def test_of_many_held_chains_a_few_are_pruned_at_once_and_the_rest_in_the_background(
    around: Around, oldest: bool
) -> None:
    keys = [b"%03d" % number for number in range(module._AT_ONCE + 5)]
    around.commit(*keys)
    around.live = {1} if oldest else {0, 1}
    around.commit(*keys)
    around.release(1)
    assert around.versions.active.versions == len(keys) + 5
    assert around.collector.wanted
    assert around.collector.collect() == 5
    assert around.versions.active.versions == len(keys)


def test_a_little_garbage_is_not_worth_a_pass(around: Around) -> None:
    keys = [b"%03d" % number for number in range(module._AT_ONCE + 2)]
    around.commit(*keys)
    around.live = {1}
    around.commit(*keys)
    around.release(1)
    assert around.versions.active.versions == len(keys) + 2, "fewer than the threshold"
    assert not around.collector.wanted


def test_a_pass_that_found_little_is_not_repeated_at_once(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long transaction holds many chains; the short ones beside it must not look at all of them each time. As many
    have to end as chains were looked at, unless it is the oldest that ends."""
    monkeypatch.setattr(module, "_AT_ONCE", 0)
    around.commit(b"a", b"b", b"c", b"d")
    around.live = {1}
    around.commit(b"a", b"b", b"c", b"d")
    around.live = {1, 2}
    around.commit(b"e")
    around.release(2)
    assert around.collector.collect() == 0
    woken = around.woken
    for _ in range(3):
        around.live.add(2)
        around.release(2)
    assert around.woken == woken
    around.live.add(2)
    around.release(2)
    assert around.woken == woken + 1
    assert around.collector.collect() == 0
    around.release(1)
    assert around.woken == woken + 2, "the oldest always counts"
    assert around.collector.collect() == 4


def test_a_pass_over_many_chains_lets_commits_in_between(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLICE", 2)
    around.commit(*[b"%d" % number for number in range(5)])
    around.live = {1}
    around.commit(*[b"%d" % number for number in range(5)])
    around.live = set()
    assert around.collector.collect() == 5
    assert around.pruned == [(2, True), (2, True), (1, True)]


# The history


def test_the_history_is_swept_when_enough_have_ended_or_the_oldest(around: Around) -> None:
    around.keep((1, 2), (3, 4), (5, 6), (7, 8))
    around.live = {1, 3, 5, 7}
    for ts in (7, 5):
        around.release(ts)
        assert not around.collector.wanted
    around.release(3)
    assert around.collector.wanted
    assert around.collector.collect() == 3
    around.release(1)
    assert around.collector.wanted
    assert around.collector.collect() == 1
    assert around.collector.swept == 4


def test_a_snapshot_above_the_history_is_no_reason_to_sweep(around: Around) -> None:
    around.keep((1, 2))
    around.live = {1, 5}
    around.published = 5
    for _ in range(5):
        around.release(5)
    assert not around.collector.wanted


def test_a_dropped_snapshot_is_noted_and_the_background_woken(around: Around) -> None:
    """In a destructor no lock may be taken, so nothing is pruned there and then (invariant 5)."""
    around.keep((1, 2))
    around.collector.dropped(1)
    assert around.woken == 1
    assert around.pruned == []
    assert around.collector.collect() == 1


def test_a_sweep_that_ran_out_of_budget_goes_on_later(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HISTORY_BUDGET", 2)
    around.keep(*[(ts, ts + 1) for ts in range(5)], (5, 9))
    around.live = {5}
    for ts in range(5):
        around.collector.dropped(ts)
    found = []
    while around.collector.wanted:
        found.append(around.collector.collect())
    assert sum(found) == 5
    assert max(found) <= 2
    assert list(kept_by(around.base)) == [Interval(5, 9, PREFIX + b"5")]


def test_a_thorough_collection_looks_at_everything(around: Around) -> None:
    """Also at versions that were never reported to it."""
    around.keep((1, 2), (3, 4), (5, 6))
    around.live = {3}
    assert around.collector.collect() == 0
    assert around.collector.collect(thorough=True) == 2
    assert list(kept_by(around.base)) == [Interval(3, 4, PREFIX + b"3")]


def test_tombstones_go_up_to_the_oldest_writer(around: Around) -> None:
    """Without a writer, up to what was published before the writers were sampled (C4)."""
    fill(around.base, {PREFIX + b"%d" % ts: (ts, None) for ts in (2, 4, 6)})
    around.published = 6
    around.writers = {3}
    around.collector.collect()
    assert [ts for ts, _ in tombstones_of(around.base)] == [4, 6]
    around.writers = set()
    around.published = 5
    around.collector.collect()
    assert [ts for ts, _ in tombstones_of(around.base)] == [6]


# The history, by rows


def checkpointed(around: Around, *intervals: tuple[int, int]) -> None:
    """Put versions into the history as a checkpoint does, and tell of them."""
    before = around.base.count_history()
    kept = [
        (Interval(begin, end, PREFIX + b"%d %d" % (begin, number)), b"x")
        for number, (begin, end) in enumerate(intervals)
    ]
    fill(around.base, {}, kept)
    around.published = max(around.published, around.base.history_below)
    cells: Counter[Cell] = Counter()
    for begin, end in intervals:
        seers = around._sample().seers(begin, end)
        assert seers is not None
        cells[PREFIX, *seers] += 1
    around.collector.kept(Kept(around.published, cells))
    assert around.base.count_history() == before + len(intervals)


def settle(around: Around) -> list[int]:
    """What each pass of the background drops, until it wants no more."""
    dropped = []
    while around.collector.wanted:
        dropped.append(around.collector.collect())
    return dropped


def test_reports_beside_an_old_reader_leave_at_most_twice_what_is_seen(around: Around) -> None:
    """The oldest lives on, and few have ended: it is by rows that the background knows what to do."""
    around.live = {1}
    checkpointed(around, *[(1, 2)] * 4)
    highest = 0
    for ts in range(2, 40):
        around.live = {1, ts}
        checkpointed(around, *[(ts, ts + 1)] * 4)
        around.release(ts)
        settle(around)
        highest = max(highest, around.base.count_history())
    assert highest <= 2 * 4 + 3
    assert around.base.count_history() >= 4


def test_what_another_one_sees_too_is_no_reason_to_walk(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of many end one after the other, and each was the last that saw all of it: nothing is looked at."""
    around.live = set(range(1, 9))
    checkpointed(around, *[(1, 10)] * 20)
    monkeypatch.setattr(module, "sweep_history", lambda *_: pytest.fail("there is nothing to sweep"))
    for ts in range(8, 1, -1):
        around.release(ts)
        settle(around)
    assert around.collector._ledger.seen == 20


def test_a_look_at_the_history_leaves_the_chains_alone(around: Around) -> None:
    around.live = {1, 2}
    checkpointed(around, (1, 3), *[(2, 3)] * 9)
    around.commit(b"a")
    around.live = {1, 2, around.published}
    around.commit(b"a")
    around.pruned.clear()
    around.live.discard(2)
    around.collector._versions = VersionStore(0)  # nothing is held for the one that ends
    around.release(2)
    around.collector._versions = around.versions
    assert settle(around) == [9]
    assert around.pruned == []


def test_what_nobody_has_counted_is_counted_by_a_sweep_of_everything(
    around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of a helper process was lost: what it kept is found out, a budget at a time."""
    monkeypatch.setattr(module, "_HISTORY_BUDGET", 2)
    around.keep((1, 2), (3, 4), (5, 6), (5, 7))
    around.live = {1, 5}
    around.collector.kept(None)
    assert sum(settle(around)) == 1
    assert (around.collector._ledger.seen, around.collector._ledger.unseen) == (3, 0)
    assert around.collector._last_seers == {1: 1, 5: 2}


def test_counts_that_are_wrong_are_made_again(around: Around) -> None:
    around.live = {1, 2}
    checkpointed(around, (1, 3))
    around.collector.kept(Kept(around.published + 1, {(PREFIX, 2, 2): 100}))
    around.release(2)
    assert sum(settle(around)) == 0
    assert around.collector._ledger.total == 1


def test_the_counts_of_many_checkpoints_do_not_pile_up(around: Around) -> None:
    around.live = {1}
    for ts in range(2, 2 + module._MOST_KEPT):
        assert not around.collector.wanted
        checkpointed(around, (1, ts))
    assert around.collector.wanted
    settle(around)
    assert around.collector._ledger.seen == module._MOST_KEPT
    assert not around.collector._kept


# Never in the way


def test_a_busy_collector_is_skipped_and_a_thorough_one_waits(around: Around) -> None:
    around.keep((1, 2))
    around.collector.dropped(1)
    with around.collector._busy:
        assert around.collector.collect() == 0
        thorough = threading.Thread(target=lambda: around.collector.collect(thorough=True), daemon=True)
        thorough.start()
        assert base_is_untouched(around)
    thorough.join(PATIENCE)
    assert not thorough.is_alive()
    assert around.base.count_history() == 0


def base_is_untouched(around: Around) -> bool:
    return around.base.count_history() == 1


def test_what_is_released_while_a_collection_runs_is_not_forgotten(around: Around) -> None:
    """The background thread is woken for it, finds the collector busy and sleeps again. The running collection must
    wake it once more."""
    around.keep((1, 2))
    with around.collector._busy:
        around.collector.dropped(1)
        assert around.collector.collect() == 0, "the background's attempt, which is skipped"
        woken = around.woken
    around.collector.collect(thorough=True)
    around.keep((3, 4))
    around.collector.dropped(3)
    assert around.woken > woken
    assert around.collector.collect() == 1


def test_a_wish_that_came_while_a_collection_ran_wakes_the_background_again(
    around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    around.keep((1, 2), (5, 6))
    around.live = {1, 5}

    def release_meanwhile(*arguments: object) -> int:
        around.live = {5}
        around.collector.dropped(1)
        assert around.collector.collect() == 0, "the background's attempt, which is skipped"
        around.woken = 0
        return 0

    monkeypatch.setattr(module, "sweep_tombstones", release_meanwhile)
    around.collector.collect(thorough=True)
    assert around.base.count_history() == 2
    assert around.woken > 0, "nobody would come for what ended meanwhile"


def test_an_error_is_counted_and_the_next_pass_makes_up_for_it(
    around: Around, caplog: pytest.LogCaptureFixture
) -> None:
    """Ended snapshots are not forgotten with the pass that failed. Another snapshot lives, so nothing is dropped
    without them."""
    around.keep((1, 2), (5, 6))
    around.live = {5}
    around.collector.dropped(1)
    write = around.base.write

    def failing(change: object) -> object:
        raise Error("no room")

    around.base.write = failing  # type: ignore[method-assign, assignment]
    assert around.collector.collect() == 0
    assert around.collector.failures == 1
    assert "no room" in caplog.text
    around.base.write = write  # type: ignore[method-assign]
    assert around.collector.collect() == 1
    assert list(kept_by(around.base)) == [Interval(5, 6, PREFIX + b"5")]
