"""The gaps of a store: what is noted, what puts cut out, and that no thread waits."""

from __future__ import annotations

import pytest

from lowtide.engine.types import Range, after_prefix
from lowtide.engine.versions import gap_map
from lowtide.engine.versions.gap_map import GapMap
from lowtide.engine.versions.gaps import Gap

K = b"\x00\x00\x00\x01"
OTHER = b"\x00\x00\x00\x02"
END = after_prefix(K)
ALL = Range(K, END)


def nobody() -> list[int]:
    return []


def note(gaps: GapMap, low: bytes, high: bytes, since: int = 1) -> None:
    watch = gaps.watch()
    gaps.note(watch, Range(low, high), since, nobody)
    gaps.unwatch(watch)
    gaps.check()


@pytest.fixture
def gaps() -> GapMap:
    return GapMap()


def test_a_put_cuts_its_key_out_and_a_deletion_does_not(gaps: GapMap) -> None:
    note(gaps, K, K + b"m")
    gaps.put({K + b"c": None, OTHER + b"c": b"1"})
    assert gaps.past(ALL, 1) == Range(K + b"m", END)
    gaps.put({K + b"c": b"1"})
    assert gaps.past(ALL, 1) == Range(K + b"c", END)
    assert gaps.past(Range(K + b"c\x00", END), 1) == Range(K + b"m", END)


def test_what_is_put_while_a_scan_watches_is_cut_out_of_what_it_notes(gaps: GapMap) -> None:
    watch = gaps.watch()
    gaps.put({K + b"c": b"1", K + b"x": b"1"})
    gaps.note(watch, Range(K, K + b"m"), 1, nobody)
    assert gaps.of[K] == (Gap(K, K + b"c", 1), Gap(K + b"c\x00", K + b"m", 1))


def test_a_watch_that_was_told_of_too_many_puts_notes_nothing_and_is_left(
    gaps: GapMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that an interrupt left behind goes so, and costs no more than that."""
    monkeypatch.setattr(gap_map, "MOST_PUTS", 3)
    watch = gaps.watch()
    gaps.put({K + b"%d" % number: b"" for number in range(2)})
    gaps.put({K + b"%d" % number: b"" for number in range(2)})
    assert watch.lost
    assert gaps.watches == []
    gaps.note(watch, Range(K + b"a", K + b"m"), 1, nobody)
    assert gaps.of == {}
    gaps.unwatch(watch)


def test_a_put_that_meets_a_scan_noting_forgets_everything_and_does_not_wait(gaps: GapMap) -> None:
    for watched in (False, True):
        note(gaps, K, K + b"m")
        before = gaps.of
        if watched:
            gaps.watch()
        with gaps._lock:
            gaps.put({(OTHER if watched else K) + b"c": b"1"})
        assert gaps.of == {}
        assert gaps.of is not before, "what the scan notes goes into the old table"


def test_a_put_beside_the_gaps_takes_no_lock_where_nobody_watches(gaps: GapMap) -> None:
    note(gaps, K, K + b"m")
    with gaps._lock:
        gaps.put({K + b"m": b"1", OTHER + b"c": b"1"})
    assert gaps.of == {K: (Gap(K, K + b"m", 1),)}


def test_a_scan_that_meets_another_noting_gives_up(gaps: GapMap) -> None:
    with gaps._lock:
        note(gaps, K, K + b"m")
    assert gaps.of == {}


@pytest.mark.parametrize(
    "dead", [Range(K, None), Range(K, K), Range(K, OTHER + b"a"), Range(b"", K), Range(K[:2], K[:3])]
)
def test_what_is_not_inside_of_one_keyspace_is_not_noted(gaps: GapMap, dead: Range) -> None:
    gaps.note(gaps.watch(), dead, 1, nobody)
    assert gaps.of == {}


def test_a_whole_keyspace_is(gaps: GapMap) -> None:
    gaps.note(gaps.watch(), ALL, 1, nobody)
    assert gaps.past(ALL, 1) is None
    assert gaps.past(Range(OTHER, None), 1) == Range(OTHER, None)


def test_the_number_of_gaps_is_bounded(gaps: GapMap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gap_map, "MOST_GAPS", 3)
    monkeypatch.setattr(gap_map, "MOST_KEYSPACES", 2)
    for keyspace in range(5):
        prefix = keyspace.to_bytes(4, "big")
        for number in range(5):
            note(gaps, prefix + b"%d" % number, prefix + b"%da" % number, number)
    assert len(gaps.of) == 2
    assert max(map(len, gaps.of.values())) == 3


def test_neighbours_are_kept_apart_for_a_snapshot_that_lives_between_them(gaps: GapMap) -> None:
    gaps.note(gaps.watch(), Range(K, K + b"c"), 3, lambda: [5])
    gaps.note(gaps.watch(), Range(K + b"c", K + b"e"), 7, lambda: [5])
    assert gaps.past(ALL, 5) == Range(K + b"c", END)
    assert gaps.past(ALL, 7) == Range(K + b"e", END)
    gaps.note(gaps.watch(), Range(K + b"e", K + b"f"), 8, nobody)
    assert gaps.of[K] == (Gap(K, K + b"c", 3), Gap(K + b"c", K + b"f", 8))
    gaps.note(gaps.watch(), Range(K + b"b", K + b"g"), 9, nobody)
    assert gaps.of[K] == (Gap(K, K + b"g", 9),)


def test_a_store_that_is_closed_has_no_gaps(gaps: GapMap) -> None:
    """A scan there is to say that it is closed, not that there is nothing."""
    note(gaps, K, K + b"m")
    watch = gaps.watch()
    gaps.close()
    gaps.note(watch, Range(K, K + b"m"), 1, nobody)
    assert gaps.of == {}


def test_puts_cost_nothing_where_nobody_watches_and_there_is_no_gap(gaps: GapMap) -> None:
    """Not even a look at what is written."""
    gaps.put(None)  # type: ignore[arg-type]
