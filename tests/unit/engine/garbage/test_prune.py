"""Pruning a chain: what goes, what stays, and that nothing is copied needlessly (G1, G4)."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.engine.garbage.horizon import Exact, make_horizon
from lowtide.engine.garbage.prune import prune
from lowtide.engine.versions.chain import Chain, chain_of, versions_of

stamps = st.sets(st.integers(1, 12), min_size=1, max_size=8).map(lambda found: sorted(found, reverse=True))


def chain(*newest_first: int) -> Chain:
    made = chain_of([(ts, b"%d" % ts) for ts in newest_first])
    assert made is not None
    return made


def stamps_of(pruned: Chain) -> list[int]:
    return [ts for ts, _ in versions_of(pruned)]


@pytest.mark.parametrize(
    ("live", "left"),
    [
        ((), [9]),
        ((9,), [9]),
        ((4,), [9, 3]),
        ((3,), [9, 3]),
        ((2,), [9]),
        ((5, 6), [9, 5]),
        ((3, 5, 7), [9, 7, 5, 3]),
        ((8, 12), [9, 7]),
    ],
)
def test_of_each_interval_a_version_is_left_iff_a_snapshot_lies_in_it(live: tuple[int, ...], left: list[int]) -> None:
    assert stamps_of(prune(chain(9, 7, 5, 3), Exact(live, 20))) == left


def test_nothing_that_ended_after_the_bound_goes() -> None:
    assert stamps_of(prune(chain(9, 7, 5, 3), Exact((), 7))) == [9, 7]
    assert stamps_of(prune(chain(9, 7, 5, 3), Exact((), 6))) == [9, 7, 5]


def test_a_chain_of_which_all_is_needed_is_the_very_same_object() -> None:
    whole = chain(9, 7, 5)
    assert prune(whole, Exact((5, 7), 20)) is whole
    single = chain(9)
    assert prune(single, Exact((), 20)) is single


def test_a_tombstone_counts_as_a_version() -> None:
    """The newest stays until the base has it, an older one as long as a live snapshot must not see the key."""
    deleted: Chain = (9, None, (7, b"x", (5, None, (3, b"y", None))))
    assert prune(deleted, Exact((), 20)) == (9, None, None)
    assert prune(deleted, Exact((5,), 20)) == (9, None, (5, None, None))
    assert prune(deleted, Exact((3,), 20)) == (9, None, (3, b"y", None))


@given(stamps, st.sets(st.integers(0, 14), max_size=4), st.integers(0, 14), st.sampled_from(["exact", "watermark"]))
def test_pruning_twice_changes_nothing_more_and_never_adds(
    newest_first: list[int], live: set[int], bound: int, kind: str
) -> None:
    horizon = make_horizon(kind, live, bound)
    whole = chain(*newest_first)
    once = prune(whole, horizon)
    assert prune(once, horizon) is once
    assert set(versions_of(once)) <= set(versions_of(whole))
    assert once[:2] == whole[:2]


@given(stamps, st.sets(st.integers(0, 14), max_size=4))
def test_a_chain_has_at_most_one_version_more_than_there_are_snapshots(newest_first: list[int], live: set[int]) -> None:
    assert len(stamps_of(prune(chain(*newest_first), make_horizon("exact", live, 14)))) <= len(live) + 1
