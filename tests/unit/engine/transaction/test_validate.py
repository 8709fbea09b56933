"""Validation: what is remembered of recent commits, and that both methods of validation agree (C4, C7)."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from lowtide.engine.transaction import validate
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.transaction.validate import RecentCommits, Validator
from lowtide.engine.types import Range, Writes
from tests.unit.engine.versions.shelves import PREFIX, Shelves, open_shelves

KEYS = [PREFIX + key for key in (b"a", b"b", b"c", b"d")]


def remembered(recent: RecentCommits) -> list[int]:
    return [ts for ts, _ in recent.commits]


def test_commits_are_remembered_until_the_oldest_serializable_has_seen_them() -> None:
    recent = RecentCommits(3)
    for ts in (4, 5, 6):
        recent.remember(ts, {b"k": b""})
    recent.trim(4)
    assert (remembered(recent), recent.complete_after) == ([5, 6], 4)
    recent.trim(4)
    assert remembered(recent) == [5, 6]
    recent.trim(None)
    assert (remembered(recent), recent.complete_after) == ([], 6)


def test_since_gives_the_later_ones_newest_first() -> None:
    recent = RecentCommits(0)
    for ts in (1, 2, 3):
        recent.remember(ts, {b"%d" % ts: b""})
    assert list(recent.since(1)) == [(3, frozenset({b"3"})), (2, frozenset({b"2"}))]
    assert list(recent.since(3)) == []


def test_what_is_too_much_is_forgotten_from_the_oldest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "_MOST_KEYS", 5)
    recent = RecentCommits(0)
    recent.remember(1, [b"a", b"b"])
    recent.remember(2, [b"c", b"d"])
    assert recent.complete_after == 0
    recent.remember(3, [b"e", b"f"])
    assert (remembered(recent), recent.complete_after) == ([2, 3], 1)
    recent.remember(4, [b"%d" % number for number in range(6)])
    assert (remembered(recent), recent.complete_after) == ([], 4), "also one that is too large by itself"
    recent.remember(5, [b"a"])
    assert (remembered(recent), recent.complete_after) == ([5], 4)


def test_forgetting_all_sends_everyone_the_slower_way() -> None:
    recent = RecentCommits(0)
    recent.remember(1, [b"a"])
    recent.forget_all(2)
    assert (remembered(recent), recent.complete_after) == ([], 2)


writes = st.dictionaries(st.sampled_from(KEYS), st.none() | st.just(b"v"), min_size=1, max_size=3)
moves = st.sampled_from(["freeze", "apply", "drop"])
scripts = st.lists(st.tuples(st.just("commit"), writes) | st.tuples(moves, st.none()), max_size=10)
ranges = st.builds(lambda ends: Range(min(ends), max(ends)), st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)))


def commits_after(shelves: Shelves, since: int) -> Iterator[tuple[int, frozenset[bytes]]]:
    for ts, changed in enumerate(shelves.changes):
        if ts > since:
            yield ts, changed


@settings(max_examples=150)
@given(scripts, st.integers(0, 8), writes, st.sets(st.sampled_from(KEYS), max_size=2), st.lists(ranges, max_size=2))
def test_a_clash_is_found_iff_there_is_one_wherever_the_versions_are(
    script: list[tuple[str, Writes | None]],
    since: int,
    written: Writes,
    read_keys: set[bytes],
    read_ranges: list[Range],
) -> None:
    """A writer at ``since`` lives throughout. The recent commits know, and so do the versions: one verdict."""
    with open_shelves() as shelves:
        shelves.oldest_writer = since
        validator = Validator(shelves.versions, shelves.base, published=0, latest=lambda key: None)
        for verb, change in script:
            if change is None:
                shelves.move(verb)
            else:
                shelves.commit(change)
                validator.recent.remember(shelves.published, change)
        last_change = {key: ts for ts, changed in commits_after(shelves, since) for key in changed}

        clash = validator.write_clash(written, since)
        assert (clash is None) == last_change.keys().isdisjoint(written)
        assert clash is None or last_change[clash[0]] == clash[1]

        reads = ReadSet()
        reads.keys |= read_keys
        reads.ranges += read_ranges
        read = read_keys | {key for key in KEYS for each in read_ranges if each.low <= key < (each.high or b"")}
        by_recent = validator.read_clash(reads, since)
        validator.recent.forget_all(shelves.published + 1)
        by_versions = validator.read_clash(reads, since)
        assert (by_recent is None) == (by_versions is None) == read.isdisjoint(last_change)
        for found in (by_recent, by_versions):
            if found is not None:
                assert found[0] in read
                assert found[0] in dict(commits_after(shelves, since))[found[1]]
