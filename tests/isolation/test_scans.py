"""Scans show no phantom, no duplicate and no gap, whatever runs concurrently (I3, I9, P4)."""

from __future__ import annotations

import pytest

from lowtide import Isolation
from tests.isolation.world import BUFFERED, FIRST_COMMITTER_WINS, LEVELS, World, delete, put, rows, scan

ONE_SNAPSHOT = [Isolation.SNAPSHOT_READ, *FIRST_COMMITTER_WINS]
BOTH_WAYS = pytest.mark.parametrize("reverse", [False, True])


def keys(count: int) -> list[str]:
    return [f"k{number:04d}" for number in range(count)]


def in_order(entries: list[tuple[str, int]], reverse: bool) -> list[tuple[str, int]]:
    return sorted(entries, reverse=reverse)


@BOTH_WAYS
@pytest.mark.parametrize("level", ONE_SNAPSHOT)
def test_a_scan_shows_one_instant_while_everything_changes(world: World, level: Isolation, reverse: bool) -> None:
    """Keys before and behind the scan's position are inserted, changed and deleted, with upkeep in between."""
    names = keys(300)
    world.fill(**dict.fromkeys(names, 1))
    tx = world.begin(level)
    expected = in_order(list(rows(tx).items()), reverse)
    seen = []
    for position, entry in enumerate(scan(tx, reverse=reverse)):
        seen.append(entry)
        if position % 60 == 0:
            with world.store.transaction() as other:
                for offset in range(0, 300, 7):
                    name = names[(position + offset) % 300]
                    delete(other, name)
                    put(other, names[(position + offset + 1) % 300], 2)
                    put(other, name + "-new", 3)
            world.meanwhile()
    assert seen == expected


@pytest.mark.usefixtures("tiny_chunks")
@BOTH_WAYS
@pytest.mark.parametrize("level", ONE_SNAPSHOT)
def test_the_rest_of_the_keyspace_vanishes_under_a_scan(world: World, level: Isolation, reverse: bool) -> None:
    world.fill(a=1, b=2, c=3, d=4)
    tx = world.begin(level)
    entries = scan(tx, reverse=reverse)
    seen = [next(entries)]
    for key in "abcd":
        world.delete(key)
    world.meanwhile()
    seen += entries
    assert seen == in_order([("a", 1), ("b", 2), ("c", 3), ("d", 4)], reverse)


@pytest.mark.usefixtures("tiny_chunks")
@BOTH_WAYS
@pytest.mark.parametrize("level", [Isolation.NONE, Isolation.READ_COMMITTED])
def test_below_snapshot_read_a_scan_has_neither_gaps_nor_duplicates(
    world: World, level: Isolation, reverse: bool
) -> None:
    """Its chunks are of different instants, but what was there all the time comes exactly once."""
    world.fill(b=1, d=2, f=3)
    entries = scan(world.begin(level), reverse=reverse)
    seen = [next(entries)]
    for key in "aceg":
        world.put(key, 9)
    world.meanwhile()
    seen += entries
    new_ones = [("c", 9), ("a", 9)] if reverse else [("c", 9), ("e", 9), ("g", 9)]
    assert seen == in_order([("b", 1), ("d", 2), ("f", 3), *new_ones, *([("e", 9)] if reverse else [])], reverse)


@BOTH_WAYS
@pytest.mark.parametrize("level", BUFFERED)
def test_a_scan_does_not_see_own_writes_made_after_it_began_and_the_next_one_does(
    world: World, level: Isolation, reverse: bool
) -> None:
    """P4: a statement that changes what it selects must not select its own changes."""
    world.fill(**dict.fromkeys(keys(200), 1))
    tx = world.begin(level)
    put(tx, "k0000", 5)
    put(tx, "k0100-own", 5)
    delete(tx, "k0199")
    expected = {**dict.fromkeys(keys(199), 1), "k0000": 5, "k0100-own": 5}
    seen = []
    for key, number in scan(tx, reverse=reverse):
        seen.append((key, number))
        put(tx, key + "-copy", number + 1)
        put(tx, key, number + 1)
        if len(seen) % 50 == 0:
            world.meanwhile()
    assert seen == in_order(list(expected.items()), reverse)
    again = rows(tx)
    assert again == {key: number + 1 for name, number in expected.items() for key in (name, name + "-copy")}


@pytest.mark.usefixtures("tiny_chunks")
@BOTH_WAYS
@pytest.mark.parametrize("level", BUFFERED)
def test_own_writes_are_shown_as_they_were_when_the_scan_was_asked_for(
    world: World, level: Isolation, reverse: bool
) -> None:
    """P4: also those that the scan has still to come to, and also before its first entry is taken."""
    world.fill(a=1, g=1)
    tx = world.begin(level)
    for key in "bcde":
        put(tx, key, 2)
    entries = scan(tx, reverse=reverse)
    put(tx, "b", 3)
    put(tx, "bb", 3)
    seen = [next(entries)]
    world.meanwhile()
    put(tx, "c", 3)
    delete(tx, "d")
    put(tx, "dd", 3)
    delete(tx, "a" if reverse else "g")
    seen += entries
    assert seen == in_order([("a", 1), ("b", 2), ("c", 2), ("d", 2), ("e", 2), ("g", 1)], reverse)


@BOTH_WAYS
@pytest.mark.parametrize("level", ONE_SNAPSHOT)
def test_removing_each_result_and_adding_others_while_iterating_yields_exactly_the_results(
    world: World, level: Isolation, reverse: bool
) -> None:
    """I9, with 1,000 results: the other one's commits would be shown by a scan of the latest state."""
    names = keys(1000)
    world.fill(**dict.fromkeys(names, 1))
    tx, seen = world.begin(level), []
    for key, _ in scan(tx, reverse=reverse):
        seen.append(key)
        delete(tx, key)
        put(tx, key + "-own", 2)
        if len(seen) % 250 == 0:
            with world.store.transaction(Isolation.READ_COMMITTED) as other:
                for name in names[::50]:
                    put(other, name + "-other", 3)
            world.meanwhile()
    assert seen == sorted(names, reverse=reverse)
    assert not set(rows(tx)) & set(names)


@BOTH_WAYS
def test_at_none_removing_each_result_while_iterating_misses_none(world: World, reverse: bool) -> None:
    """Each removal is committed at once. What was there when the scan came by is shown, and only once."""
    names = keys(300)
    world.fill(**dict.fromkeys(names, 1))
    tx, seen = world.begin(Isolation.NONE), []
    for key, _ in scan(tx, reverse=reverse):
        seen.append(key)
        delete(tx, key)
        if len(seen) % 100 == 0:
            world.meanwhile()
    assert seen == sorted(names, reverse=reverse)
    assert world.rows() == {}


@pytest.mark.usefixtures("tiny_chunks")
@BOTH_WAYS
@pytest.mark.parametrize("level", LEVELS)
def test_two_scans_of_one_transaction_run_beside_each_other(world: World, level: Isolation, reverse: bool) -> None:
    world.fill(a=1, b=2, c=3)
    tx = world.begin(level)
    pairs = []
    for first in scan(tx, reverse=reverse):
        world.meanwhile()
        pairs += [(first, second) for second in scan(tx, reverse=not reverse)]
    expected = in_order([("a", 1), ("b", 2), ("c", 3)], reverse)
    assert pairs == [(first, second) for first in expected for second in reversed(expected)]


@pytest.mark.usefixtures("tiny_chunks")
@BOTH_WAYS
def test_a_range_is_bounded_at_both_ends_wherever_its_keys_are(world: World, reverse: bool) -> None:
    world.fill(a=1, b=2, c=3, d=4)
    world.put("b", 20)
    world.put("bb", 21)
    world.meanwhile()
    world.delete("c")
    tx = world.begin()
    put(tx, "a", 10)
    put(tx, "bc", 22)
    put(tx, "d", 40)
    assert list(scan(tx, "b", "d", reverse)) == in_order([("b", 20), ("bb", 21), ("bc", 22)], reverse)
    assert list(scan(tx, "c", "d", reverse)) == []
    assert list(scan(tx, "b", "b", reverse)) == []
    assert list(scan(tx, "c", "b", reverse)) == []
    assert list(scan(tx, None, "b", reverse)) == [("a", 10)]
    assert list(scan(tx, "bb\0", None, reverse)) == in_order([("bc", 22), ("d", 40)], reverse)
