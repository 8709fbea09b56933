"""What a checkpoint does with one key, case by case (G6, K1, K2, C4)."""

from __future__ import annotations

import pytest

from lowtide.engine.base.codec import encode_row, encode_tombstone
from lowtide.engine.base.history import Interval
from lowtide.engine.checkpoint.plan import KeyPlan, plan_key
from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.versions.chain import Chain, Version, chain_of

KEY = b"\x00\x00\x00\x01k"
UPTO = 20


def plan(
    newest_first: list[Version],
    old_row: bytes | None = None,
    live: tuple[int, ...] = (),
    oldest_writer: int | None = None,
    collector: str = "exact",
) -> KeyPlan:
    chain: Chain | None = chain_of(newest_first)
    assert chain is not None
    return plan_key(KEY, chain, old_row, make_horizon(collector, live, UPTO), oldest_writer)


def intervals(found: KeyPlan) -> dict[tuple[int, int], bytes]:
    assert all(interval.full_key == KEY for interval, _ in found.keep)
    return {(interval.begin, interval.end): value for interval, value in found.keep}


def test_the_newest_version_becomes_the_row() -> None:
    assert plan([(9, b"new"), (5, b"old")]) == KeyPlan(encode_row(9, b"new"), None, [])


def test_what_nobody_sees_goes() -> None:
    """Readers before all of it, between two versions that are there, and after all of it need none of the rest."""
    assert plan([(9, b"new"), (5, b"old")], encode_row(3, b"base"), live=(2, 9, 15)).keep == []


@pytest.mark.parametrize(
    ("live", "kept"),
    [
        ((3,), {(3, 5): b"base"}),
        ((4,), {(3, 5): b"base"}),
        ((5,), {(5, 9): b"old"}),
        ((8,), {(5, 9): b"old"}),
        ((4, 8), {(3, 5): b"base", (5, 9): b"old"}),
        ((2, 9), {}),
    ],
)
def test_what_a_live_snapshot_sees_moves_to_the_history(
    live: tuple[int, ...], kept: dict[tuple[int, int], bytes]
) -> None:
    assert intervals(plan([(9, b"new"), (5, b"old")], encode_row(3, b"base"), live)) == kept


def test_where_the_chain_was_pruned_the_interval_ends_at_the_next_version_that_is_left() -> None:
    """The version at 5 went because no snapshot lives in [5, 9), and none ever will. So the interval may end at 9."""
    assert intervals(plan([(9, b"new")], encode_row(3, b"base"), live=(4,))) == {(3, 9): b"base"}


def test_an_absence_in_between_is_kept_by_keeping_nothing() -> None:
    found = plan([(9, b"new"), (7, None), (5, b"old")], encode_row(3, b"base"), live=(3, 5, 7))
    assert intervals(found) == {(3, 5): b"base", (5, 7): b"old"}


def test_a_deletion_removes_the_row_where_no_writer_is_older() -> None:
    assert plan([(9, None)], encode_row(3, b"base")) == KeyPlan(None, None, [])
    assert plan([(9, None)], encode_row(3, b"base"), oldest_writer=9) == KeyPlan(None, None, [])


def test_a_deletion_leaves_a_tombstone_for_an_older_writer_to_conflict_with() -> None:
    """C4: the writer at 8 must learn that the key was changed at 9, though nothing of it is left."""
    assert plan([(9, None)], encode_row(3, b"base"), oldest_writer=8) == KeyPlan(encode_tombstone(9), 9, [])


def test_a_tombstone_in_the_base_was_no_version_to_keep() -> None:
    found = plan([(9, b"again")], encode_tombstone(5), live=(3, 5, 7), oldest_writer=3)
    assert found == KeyPlan(encode_row(9, b"again"), None, [])


def test_a_key_that_came_and_went_leaves_nothing() -> None:
    assert plan([(9, None), (5, b"short-lived")]) == KeyPlan(None, None, [])
    assert intervals(plan([(9, None), (5, b"short-lived")], live=(6,))) == {(5, 9): b"short-lived"}


def test_what_ended_after_the_sample_is_kept() -> None:
    """Not reached by a checkpoint, whose bound is its own target; the rule holds all the same (G2)."""
    found = plan_key(KEY, (9, b"new", (5, b"old", None)), None, Exact((), 7), None)
    assert intervals(found) == {(5, 9): b"old"}


def test_the_watermark_keeps_all_above_the_oldest_snapshot() -> None:
    found = plan([(9, b"new"), (7, b"b"), (5, b"a")], encode_row(3, b"base"), live=(4,), collector="watermark")
    assert intervals(found) == {(3, 5): b"base", (5, 7): b"a", (7, 9): b"b"}


def test_the_history_is_told_the_full_key() -> None:
    assert plan([(9, b"new")], encode_row(3, b"base"), live=(4,)).keep == [(Interval(3, 9, KEY), b"base")]
