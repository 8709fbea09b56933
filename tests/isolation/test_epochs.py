"""A snapshot sees exactly the commits at or below its timestamp, until it ends (I1, I2, I4)."""

from __future__ import annotations

import pytest

import lowtide
from lowtide import Isolation
from tests.isolation.world import FIRST_COMMITTER_WINS, LAST_COMMITTER_WINS, LEVELS, World, get, put, rows, scan


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_transaction_reads_the_old_value_again_while_others_see_the_new_one(world: World, level: Isolation) -> None:
    world.fill(x=1)
    t1 = world.begin(level)
    assert get(t1, "x") == 1
    world.put("x", 2)
    world.meanwhile()
    t3 = world.begin(level)
    assert (get(t3, "x"), get(t1, "x")) == (2, 1)
    assert (rows(t3), rows(t1)) == ({"x": 2}, {"x": 1})


@pytest.mark.parametrize("level", LAST_COMMITTER_WINS)
def test_below_snapshot_a_transaction_reads_what_was_committed_last(world: World, level: Isolation) -> None:
    world.fill(x=1)
    t1 = world.begin(level)
    assert get(t1, "x") == 1
    world.put("x", 2)
    world.meanwhile()
    assert (get(t1, "x"), rows(t1)) == (2, {"x": 2})


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_readers_at_four_epochs_see_four_states(world: World, level: Isolation) -> None:
    """One of the epochs is a deletion, one is from before the key existed."""
    readers: list[tuple[lowtide.Transaction, int | None]] = [(world.begin(level), None)]
    for number in (1, 2, None):
        if number is None:
            world.delete("x")
        else:
            world.put("x", number)
        world.meanwhile()
        readers.append((world.begin(level), number))
    world.put("x", 9)
    for _ in range(2):
        world.meanwhile()
        for tx, number in readers:
            assert get(tx, "x") == number
            assert rows(tx) == ({} if number is None else {"x": number})


def test_snapshots_at_every_epoch_of_a_long_history_see_their_own(world: World) -> None:
    world.fill(a=0, b=0)
    expected = []
    for number in range(1, 25):
        world.put("a" if number % 2 else "b", number)
        if number % 5 == 0:
            world.delete("a")
        if number % 3 == 0:
            world.meanwhile()
        expected.append((world.store.snapshot(), world.rows()))
    world.meanwhile()
    for snapshot, state in expected:
        assert rows(snapshot) == state
        assert {key: get(snapshot, key) for key in ("a", "b")} == {"a": None, "b": None} | state


@pytest.mark.parametrize("level", LEVELS)
def test_a_row_that_is_deleted_and_created_again_is_there_once(world: World, level: Isolation) -> None:
    """I2; at the levels that see the new one it is there once as well."""
    world.fill(w=0, x=1, y=2)
    tx = world.begin(level)
    assert get(tx, "x") == 1
    world.delete("x")
    world.meanwhile()
    world.put("x", 1)
    world.meanwhile()
    assert get(tx, "x") == 1
    assert list(scan(tx)) == [("w", 0), ("x", 1), ("y", 2)]
    assert list(scan(tx, reverse=True)) == [("y", 2), ("x", 1), ("w", 0)]


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_deletion_between_two_lives_of_a_key_is_seen_as_one(world: World, level: Isolation) -> None:
    """The history must check both ends of an interval: the key was absent between its versions."""
    world.fill(x=1)
    before = world.begin(level)
    world.delete("x")
    world.meanwhile()
    between = world.begin(level)
    world.put("x", 3)
    world.meanwhile()
    after = world.begin(level)
    world.put("x", 4)
    world.meanwhile()
    assert [get(tx, "x") for tx in (before, between, after)] == [1, None, 3]
    assert [rows(tx) for tx in (before, between, after)] == [{"x": 1}, {}, {"x": 3}]


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_scan_skips_brand_new_keys(world: World, level: Isolation, reverse: bool) -> None:
    """I4: before, between and behind the visible ones, and where there are no visible ones at all."""
    world.fill(b=1, d=2)
    tx = world.begin(level)
    for key in ("a", "c", "e", "f", "g"):
        world.put(key, 99)
    world.meanwhile()
    expected = [("b", 1), ("d", 2)]
    assert list(scan(tx, reverse=reverse)) == (expected[::-1] if reverse else expected)
    assert list(scan(tx, "e", reverse=reverse)) == []
    assert [get(tx, key) for key in "abcde"] == [None, 1, None, 2, None]


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_keyspace_that_did_not_exist_at_begin_is_empty(world: World, level: Isolation) -> None:
    tx = world.begin(level)
    world.store.keyspace("later").put(b"x", b"1")
    world.meanwhile()
    assert tx.keyspace("later").get(b"x") is None
    assert list(tx.keyspace("later").scan()) == []


def test_keyspaces_are_separate_worlds_with_one_snapshot(world: World) -> None:
    first, second = world.store.keyspace("first"), world.store.keyspace("second")
    first.put(b"x", b"1")
    second.put(b"x", b"2")
    world.settle()
    tx = world.begin()
    with world.store.transaction() as other:
        other.keyspace("first").put(b"x", b"3")
        other.keyspace("second").delete(b"x")
        other.keyspace("second").put(b"y", b"4")
    world.meanwhile()
    assert list(tx.keyspace("first").scan()) == [(b"x", b"1")]
    assert list(tx.keyspace("second").scan(reverse=True)) == [(b"x", b"2")]
    assert list(first.scan()) == [(b"x", b"3")]
    assert list(second.scan()) == [(b"y", b"4")]


def test_a_read_only_transaction_at_any_level_refuses_to_write(plain: World) -> None:
    plain.fill(x=1)
    for level in LEVELS:
        tx = plain.begin(level, read_only=True)
        with pytest.raises(Exception, match="read-only"):
            put(tx, "x", 2)
        assert get(tx, "x") == 1
        assert tx.commit() == tx.ts
