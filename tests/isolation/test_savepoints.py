"""A failing part of a transaction undoes only itself (P3). What it undid is not visible and causes no conflict."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import lowtide
from lowtide import Isolation
from tests.isolation.world import BUFFERED, FIRST_COMMITTER_WINS, World, commits, delete, get, put, rows, scan

LEVEL = pytest.mark.parametrize("level", BUFFERED)


class Mishap(Exception):
    """What goes wrong inside a savepoint."""


@contextlib.contextmanager
def failing(tx: lowtide.Transaction) -> Iterator[None]:
    """A savepoint whose last statement fails."""
    arrived = False
    try:
        with tx.savepoint():
            yield
            raise Mishap
    except Mishap:
        arrived = True
    assert arrived, "the error did not reach the caller"


@LEVEL
def test_an_error_undoes_what_was_written_inside_and_nothing_else(world: World, level: Isolation) -> None:
    world.fill(x=1, y=2)
    tx = world.begin(level)
    put(tx, "x", 10)
    with failing(tx):
        put(tx, "x", 11)
        delete(tx, "y")
        put(tx, "z", 13)
        world.meanwhile()
        assert rows(tx) == {"x": 11, "z": 13}
    assert rows(tx) == {"x": 10, "y": 2}
    assert [get(tx, key) for key in "xyz"] == [10, 2, None]
    tx.commit()
    world.meanwhile()
    assert world.rows() == {"x": 10, "y": 2}


@LEVEL
def test_savepoints_nest_and_a_finished_inner_one_belongs_to_the_outer_one(world: World, level: Isolation) -> None:
    world.fill(a=0)
    tx = world.begin(level)
    with tx.savepoint():
        put(tx, "b", 1)
        with failing(tx):
            put(tx, "b", 2)
            put(tx, "c", 2)
        assert rows(tx) == {"a": 0, "b": 1}
        with failing(tx):
            put(tx, "d", 3)
            with tx.savepoint():
                put(tx, "d", 4)
                delete(tx, "a")
            assert rows(tx) == {"b": 1, "d": 4}
        assert rows(tx) == {"a": 0, "b": 1}
        world.meanwhile()
    tx.commit()
    assert world.rows() == {"a": 0, "b": 1}


@LEVEL
def test_what_a_finished_savepoint_wrote_is_committed(world: World, level: Isolation) -> None:
    world.fill(a=0)
    with world.store.transaction(level) as tx:
        with tx.savepoint():
            put(tx, "a", 1)
            with tx.savepoint():
                put(tx, "b", 2)
        world.meanwhile()
        put(tx, "c", 3)
    assert world.rows() == {"a": 1, "b": 2, "c": 3}


@LEVEL
def test_a_savepoint_that_is_rolled_back_by_hand_goes_on(world: World, level: Isolation) -> None:
    world.fill(a=0)
    with world.store.transaction(level) as tx, tx.savepoint() as savepoint:
        for number in range(3):
            put(tx, "a", number)
            put(tx, f"b{number}", number)
            savepoint.rollback()
            assert rows(tx) == {"a": 0}
        put(tx, "c", 3)
    assert world.rows() == {"a": 0, "c": 3}


@LEVEL
def test_a_scan_that_began_inside_shows_what_was_there_when_it_began(world: World, level: Isolation) -> None:
    world.fill(a=0, c=0)
    tx = world.begin(level)
    with tx.savepoint() as savepoint:
        put(tx, "b", 1)
        entries = scan(tx)
        assert next(entries) == ("a", 0)
        savepoint.rollback()
        world.meanwhile()
        assert list(entries) == [("b", 1), ("c", 0)]
    assert rows(tx) == {"a": 0, "c": 0}


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_what_was_undone_is_no_conflict(world: World, level: Isolation) -> None:
    world.fill(x=1, y=1)
    tx = world.begin(level)
    with failing(tx):
        put(tx, "x", 2)
    put(tx, "y", 2)
    world.put("x", 50)
    world.meanwhile()
    assert commits(tx)
    assert world.rows() == {"x": 50, "y": 2}


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_what_was_written_before_and_inside_still_conflicts(world: World, level: Isolation) -> None:
    world.fill(x=1)
    tx = world.begin(level)
    put(tx, "x", 2)
    with failing(tx):
        put(tx, "x", 3)
    world.put("x", 50)
    world.meanwhile()
    assert not commits(tx)


@LEVEL
def test_a_transaction_of_nothing_but_undone_work_commits_nothing(world: World, level: Isolation) -> None:
    world.fill(x=1)
    last = world.store.stats().last_commit
    tx = world.begin(level)
    with tx.savepoint() as savepoint:
        put(tx, "x", 2)
        savepoint.rollback()
    assert tx.commit() == tx.ts
    assert world.store.stats().last_commit == last
