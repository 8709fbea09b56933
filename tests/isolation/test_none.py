"""NONE: each write is its own commit, visible to all at once. A rollback warns that it undoes nothing (I10)."""

from __future__ import annotations

import warnings

import pytest

import lowtide
from lowtide import Isolation
from tests.conftest import OpenStore
from tests.isolation.world import LEVELS, World, delete, get, put, rows
from tests.support.parts import parts_of


def test_changes_are_readable_at_once_by_oneself_and_by_others(world: World) -> None:
    world.fill(x=1, y=2)
    tx = world.begin(Isolation.NONE)
    put(tx, "x", 10)
    delete(tx, "y")
    world.meanwhile()
    for level in LEVELS:
        assert rows(world.begin(level, read_only=True)) == {"x": 10}
    assert rows(tx) == {"x": 10}
    assert world.store.keyspace("k").get(b"x") == b"10"


def test_each_write_is_a_commit_and_the_last_is_what_commit_returns(world: World) -> None:
    world.fill(x=1)
    last = world.store.stats().last_commit
    tx = world.begin(Isolation.NONE)
    put(tx, "x", 2)
    put(tx, "x", 3)
    world.meanwhile()
    assert tx.commit() == last + 2 == world.store.stats().last_commit


def test_a_rollback_undoes_nothing_and_says_so(world: World) -> None:
    world.fill(x=1)
    tx = world.begin(Isolation.NONE)
    put(tx, "x", 2)
    world.meanwhile()
    with pytest.warns(UserWarning, match="this rollback undid nothing"):
        tx.rollback()
    assert world.get("x") == 2


def test_an_error_in_a_with_statement_undoes_nothing_and_says_so(plain: World) -> None:
    def fail() -> None:
        with plain.store.transaction("none") as tx:
            put(tx, "x", 1)
            raise ZeroDivisionError

    with pytest.warns(UserWarning, match="undid nothing"), pytest.raises(ZeroDivisionError):
        fail()
    assert plain.get("x") == 1


def test_a_rollback_that_had_nothing_to_undo_says_nothing(plain: World) -> None:
    plain.fill(x=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tx = plain.begin(Isolation.NONE)
        assert get(tx, "x") == 1
        tx.rollback()


def test_two_that_write_the_same_keys_never_conflict(world: World) -> None:
    world.fill(x=1)
    t1, t2 = world.begin(Isolation.NONE), world.begin(Isolation.NONE)
    for number, tx in enumerate((t1, t2, t1, t2), 10):
        put(tx, "x", number)
        world.meanwhile()
    t2.commit()
    t1.commit()
    assert world.get("x") == 13


def test_it_has_no_savepoints_since_it_could_not_undo_them(plain: World) -> None:
    with pytest.raises(lowtide.UsageError, match="NONE"):
        plain.begin(Isolation.NONE).savepoint()


def test_it_holds_back_nothing_while_it_is_open(world: World) -> None:
    world.fill(x=1)
    tx = world.begin(Isolation.NONE)
    assert get(tx, "x") == 1
    for number in range(10):
        put(tx, "x", number)
    world.meanwhile()
    stats = world.store.stats()
    assert stats.snapshots == []
    assert stats.low_water_mark == stats.last_commit


def test_its_writes_conflict_with_those_who_promise_more(world: World) -> None:
    """A level that promises no lost updates loses none to NONE either."""
    world.fill(x=1)
    careful = world.begin(Isolation.SNAPSHOT)
    put(careful, "x", (get(careful, "x") or 0) + 1)
    put(world.begin(Isolation.NONE), "x", 50)
    world.meanwhile()
    with pytest.raises(lowtide.ConflictError):
        careful.commit()
    assert world.get("x") == 50


def test_with_full_durability_the_commit_is_what_waits_for_the_disk(open_store: OpenStore) -> None:
    store = open_store(durability="full")
    log = parts_of(store).log
    store.keyspace("k").put(b"w", b"0")
    assert log.durable_ts == log.last_ts
    tx = store.begin(Isolation.NONE)
    for number in range(5):
        put(tx, "x", number)
    assert log.durable_ts < log.last_ts
    tx.commit()
    assert log.durable_ts == log.last_ts
