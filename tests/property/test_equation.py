"""The equation of garbage, for the pure functions (design decision 5; G1, G2, G4, C4, K1, K2).

For every live or future snapshot, ``read(chain', base', history') == read(chain, base, history)``. And nothing is kept
without a reason: a version that stays is the newest, or is seen by a live snapshot, or ended after the bound. The
low-water-mark collector satisfies the equation as well, but not the second part.
"""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
from hypothesis import example, find, given

from lowtide.engine.base.codec import is_tombstone, row_ts
from lowtide.engine.checkpoint.apply import changes_of
from lowtide.engine.checkpoint.plan import plan_key
from lowtide.engine.garbage.horizon import make_horizon
from lowtide.engine.garbage.prune import prune
from lowtide.engine.log.frame import Commit
from lowtide.engine.versions.chain import Version, chain_of, versions_of
from tests.property.profile import thorough
from tests.property.versions import KEY, LAST, Shelf, histories, live_sets, shelves, snapshots, true_value

bounds = st.integers(0, LAST + 1)
collectors = st.sampled_from(["exact", "watermark"])
Laid = tuple[Shelf, list[Version], int]


@thorough
@given(shelves())
def test_the_reader_of_this_test_sees_the_whole_history(laid: Laid) -> None:
    """Before anything is collected every instant can be read: the ground on which the equation stands."""
    shelf, versions, _ = laid
    for ts in range(LAST + 2):
        assert shelf.read(ts) == true_value(versions, ts)


# Pruning a chain


@thorough
@given(shelves(), live_sets, bounds, collectors)
def test_pruning_is_invisible_to_all_who_live_or_are_to_come(laid: Laid, live: set[int], bound: int, kind: str) -> None:
    shelf, versions, boundary = laid
    if shelf.chain is None:
        return
    horizon = make_horizon(kind, live, bound)
    pruned = Shelf(prune(shelf.chain, horizon), shelf.row, shelf.history)
    to_come = set(range(bound, LAST + 2)) if kind == "exact" else set()  # the exact one keeps for all above the bound
    for ts in {*snapshots(live, bound), *to_come}:
        assert pruned.read(ts) == shelf.read(ts) == true_value(versions, ts)
    assert pruned.changed_at() == shelf.changed_at()
    assert boundary < row_or_chain_start(pruned)


def row_or_chain_start(shelf: Shelf) -> int:
    """The oldest timestamp in the chain: what lies above the boundary stays above it."""
    return min(ts for ts, _ in versions_of(shelf.chain))


@thorough
@given(histories().filter(bool), live_sets, bounds)
def test_pruning_leaves_nothing_without_a_reason(versions: list[Version], live: set[int], bound: int) -> None:
    chain = chain_of(versions)
    assert chain is not None
    left = list(versions_of(prune(chain, make_horizon("exact", live, bound))))
    ends = {begin: end for (end, _), (begin, _) in itertools.pairwise(versions)}
    for begin, _ in left[1:]:
        end = ends[begin]
        assert end > bound or any(begin <= ts < end for ts in live)


@thorough
@given(histories().filter(bool), st.lists(st.tuples(live_sets, st.integers(0, LAST)), max_size=4))
def test_pruning_step_by_step_comes_to_the_same_as_pruning_once(
    versions: list[Version], steps: list[tuple[set[int], int]]
) -> None:
    """Live snapshots only end, or begin at the bound; none comes back. If an intermediate version went first, the
    interval of the one before it seems longer, but no snapshot lives in the difference."""
    chain = chain_of(versions)
    assert chain is not None
    stepwise, live, bound = chain, set(range(LAST + 1)), 0
    for survivors, ahead in steps:
        bound = max(bound, ahead)
        live = (live & survivors) | {ts for ts in live if ts >= bound}
        stepwise = prune(stepwise, make_horizon("exact", live, bound))
    assert stepwise == prune(chain, make_horizon("exact", live, bound))


def test_the_watermark_does_leave_something_without_a_reason() -> None:
    """Else it would be no different; one old reader and a few updates are enough."""

    def wasteful(case: tuple[list[Version], set[int]]) -> bool:
        versions, live = case
        chain = chain_of(versions)
        if chain is None:
            return False
        exact = prune(chain, make_horizon("exact", live, LAST + 1))
        return prune(chain, make_horizon("watermark", live, LAST + 1)) != exact

    versions, live = find(st.tuples(histories(), live_sets), wasteful)
    assert len(versions) == 2
    assert len(live) == 1


# A checkpoint of one key


@thorough
@given(shelves(), live_sets, st.none() | st.integers(0, LAST), collectors)
@example((Shelf((10, None, None)), [(10, None)], 5), set(), 5, "exact")
def test_a_checkpoint_is_invisible_to_all_who_live_or_are_to_come(
    laid: Laid, live: set[int], oldest_writer: int | None, kind: str
) -> None:
    shelf, versions, _ = laid
    if shelf.chain is None:
        return
    upto = shelf.chain[0]
    horizon = make_horizon(kind, live, upto)
    plan = plan_key(KEY, shelf.chain, shelf.row, horizon, oldest_writer)
    after = Shelf(None, plan.row, shelf.history + plan.keep)
    for ts in snapshots(live, upto):
        assert after.read(ts) == shelf.read(ts) == true_value(versions, ts)
    writers = range(oldest_writer if oldest_writer is not None else upto, LAST + 2)
    for ts in writers:
        assert (after.changed_at() > ts) == (shelf.changed_at() > ts), "a writer must learn of the same conflict"
    assert (plan.tombstone is not None) == (plan.row is not None and is_tombstone(plan.row))
    if plan.tombstone is not None:
        assert plan.row is not None
        assert plan.tombstone == row_ts(plan.row) == upto


@thorough
@given(shelves(), live_sets, st.none() | st.integers(0, LAST))
def test_a_checkpoint_keeps_nothing_without_a_reason(laid: Laid, live: set[int], oldest_writer: int | None) -> None:
    shelf, versions, _ = laid
    if shelf.chain is None:
        return
    upto = shelf.chain[0]
    plan = plan_key(KEY, shelf.chain, shelf.row, make_horizon("exact", live, upto), oldest_writer)
    for interval, value in plan.keep:
        assert any(interval.begin <= ts < interval.end for ts in live)
        assert (interval.begin, value) in versions
    if plan.row is not None and is_tombstone(plan.row):
        assert oldest_writer is not None
        assert oldest_writer < upto


@thorough
@given(shelves(), live_sets, live_sets, bounds, collectors)
def test_pruning_before_the_checkpoint_comes_to_the_same_as_not_pruning(
    laid: Laid, live: set[int], ended: set[int], bound: int, kind: str
) -> None:
    """The chain that a checkpoint gets was pruned while more snapshots lived; the helper's comes from the log."""
    shelf, versions, _ = laid
    if shelf.chain is None:
        return
    upto = shelf.chain[0]
    bound = min(bound, upto)
    survivors = {ts for ts in live if ts <= upto}
    before = survivors | {ts for ts in ended if ts < bound}
    chain = prune(shelf.chain, make_horizon(kind, before, bound))
    horizon = make_horizon(kind, survivors, upto)
    whole = plan_key(KEY, shelf.chain, shelf.row, horizon, None)
    pruned = plan_key(KEY, chain, shelf.row, horizon, None)
    for ts in snapshots(survivors, upto):
        reads = [Shelf(None, plan.row, shelf.history + plan.keep).read(ts) for plan in (whole, pruned)]
        assert reads == [true_value(versions, ts)] * 2
    if kind == "exact":
        assert {value for _, value in pruned.keep} == {value for _, value in whole.keep}
        assert len(pruned.keep) == len(whole.keep)


# The same from the log


@thorough
@given(histories(), live_sets, collectors)
def test_what_the_helper_makes_of_the_log_is_the_pruned_chain(
    versions: list[Version], live: set[int], kind: str
) -> None:
    if not versions:
        return
    upto = versions[0][0]
    horizon = make_horizon(kind, live, upto)
    commits = [Commit(ts, 0.0, {KEY: value}) for ts, value in reversed(versions)]
    chain = changes_of(commits, horizon).chains[KEY]
    whole = chain_of(versions)
    assert whole is not None
    assert chain == prune(whole, horizon)
