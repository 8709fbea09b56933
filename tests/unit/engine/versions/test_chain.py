"""Chains: newest first, immutable, and a snapshot sees the first version that is not newer than itself (G4)."""

from __future__ import annotations

import gc

import hypothesis.strategies as st
from hypothesis import given

from lowtide.engine.versions.chain import Version, chain_of, versions_of, visible

versions = st.lists(
    st.tuples(st.integers(1, 50), st.none() | st.binary(max_size=2)), max_size=8, unique_by=lambda version: version[0]
).map(lambda each: sorted(each, key=lambda version: version[0], reverse=True))


@given(versions)
def test_a_chain_holds_the_versions_it_was_made_of(given_versions: list[Version]) -> None:
    assert list(versions_of(chain_of(given_versions))) == given_versions


@given(versions, st.integers(0, 51))
def test_a_snapshot_sees_the_newest_version_that_is_not_newer(given_versions: list[Version], ts: int) -> None:
    seen = [version for version in given_versions if version[0] <= ts]
    assert list(versions_of(visible(chain_of(given_versions), ts))) == seen


def test_the_commit_at_the_very_timestamp_is_seen_and_the_next_is_not() -> None:
    chain = chain_of([(7, b"7"), (5, b"5")])
    assert [(visible(chain, ts) or (None,))[0] for ts in (4, 5, 6, 7, 8)] == [None, 5, 5, 7, 7]


def test_a_tombstone_is_a_version_like_any_other() -> None:
    chain = chain_of([(7, None), (5, b"5")])
    seen = visible(chain, 7)
    assert seen is not None
    assert seen[1] is None


def test_no_chain_shows_nothing() -> None:
    assert visible(None, 10) is None
    assert list(versions_of(None)) == []


def test_chains_are_invisible_to_the_cyclic_collector() -> None:
    """A million of them must not make Python's garbage collection longer."""
    chain = chain_of([(2, b"b"), (1, b"a")])
    for _ in versions_of(chain):
        gc.collect()  # each collection lets go of one more, from the oldest on
    assert not gc.is_tracked(chain)
