"""A transaction reads its own writes, and no other transaction sees them before its commit (I6)."""

from __future__ import annotations

import pytest

from lowtide import Isolation
from tests.isolation.world import BUFFERED, LEVELS, World, delete, get, put, roll_back, rows, scan

BOTH_WAYS = pytest.mark.parametrize("reverse", [False, True])


@pytest.mark.parametrize("level", LEVELS)
def test_insert_update_and_delete_are_read_back_at_once(world: World, level: Isolation) -> None:
    world.fill(old=1, gone=2)
    tx = world.begin(level)
    put(tx, "new", 3)
    put(tx, "old", 4)
    delete(tx, "gone")
    world.meanwhile()
    assert [get(tx, key) for key in ("new", "old", "gone")] == [3, 4, None]
    assert rows(tx) == {"new": 3, "old": 4}
    tx.commit()
    world.meanwhile()
    assert world.rows() == {"new": 3, "old": 4}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("existed", [False, True])
def test_insert_delete_insert_of_one_key_in_one_transaction(world: World, level: Isolation, existed: bool) -> None:
    world.fill(other=0, **({"x": 1} if existed else {}))
    tx = world.begin(level)
    for number in (2, None, 3, None, 4):
        if number is None:
            delete(tx, "x")
        else:
            put(tx, "x", number)
        world.meanwhile()
        assert get(tx, "x") == number
        assert list(scan(tx, "x")) == ([] if number is None else [("x", number)])
    tx.commit()
    world.meanwhile()
    assert world.rows() == {"other": 0, "x": 4}


@pytest.mark.parametrize("level", LEVELS)
def test_a_value_that_goes_to_another_and_back_is_the_first_one(world: World, level: Isolation) -> None:
    """Foo > Bar > Foo, in one transaction and over several, seen by key and by scan."""
    world.fill(x=1)
    with world.store.transaction(level) as tx:
        put(tx, "x", 2)
        put(tx, "x", 1)
        assert rows(tx) == {"x": 1}
    for number in (2, 1):
        with world.store.transaction(level) as tx:
            put(tx, "x", number)
        world.meanwhile()
        assert (world.get("x"), world.rows()) == (number, {"x": number})


@pytest.mark.parametrize("level", BUFFERED)
def test_nobody_sees_the_writes_of_an_open_transaction(world: World, level: Isolation) -> None:
    world.fill(x=1, y=2)
    tx = world.begin(level)
    put(tx, "x", 10)
    delete(tx, "y")
    put(tx, "z", 30)
    world.meanwhile()
    for other_level in LEVELS:
        other = world.begin(other_level, read_only=True)
        assert rows(other) == {"x": 1, "y": 2}
        assert [get(other, key) for key in "xyz"] == [1, 2, None]
    assert world.store.keyspace("k").get(b"x") == b"1"
    tx.commit()
    assert world.rows() == {"x": 10, "z": 30}


@BOTH_WAYS
@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("level", LEVELS)
def test_a_scan_lays_own_writes_over_what_is_committed(world: World, level: Isolation, reverse: bool) -> None:
    """Before the first committed key, between two, over one, behind the last; and deletions of each."""
    world.fill(b=1, d=1, f=1, h=1)
    world.put("d", 2)
    world.delete("h")
    world.meanwhile()
    tx = world.begin(level)
    for key, number in {"a": 5, "c": 5, "d": 5, "h": 5, "z": 5}.items():
        put(tx, key, number)
    delete(tx, "f")
    delete(tx, "never-there")
    expected = [("a", 5), ("b", 1), ("c", 5), ("d", 5), ("h", 5), ("z", 5)]
    assert list(scan(tx, reverse=reverse)) == (expected[::-1] if reverse else expected)
    assert list(scan(tx, "c", "h", reverse)) == ([("d", 5), ("c", 5)] if reverse else [("c", 5), ("d", 5)])


@pytest.mark.parametrize("level", BUFFERED)
def test_a_rollback_leaves_no_trace(world: World, level: Isolation) -> None:
    world.fill(x=1, y=2)
    last = world.store.stats().last_commit
    tx = world.begin(level)
    put(tx, "x", 10)
    delete(tx, "y")
    put(tx, "z", 30)
    roll_back(tx)
    world.meanwhile()
    assert world.rows() == {"x": 1, "y": 2}
    stats = world.store.stats()
    assert stats.last_commit == last
    assert stats.snapshots == []
