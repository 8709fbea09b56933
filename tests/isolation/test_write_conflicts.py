"""First committer wins: if two transactions write the same key, the second to commit fails (C1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lowtide
from lowtide import Isolation
from tests.isolation.world import (
    FIRST_COMMITTER_WINS,
    LAST_COMMITTER_WINS,
    World,
    commits,
    delete,
    get,
    put,
    rows,
)

Change = Callable[[lowtide.Transaction, str], None]


def update(tx: lowtide.Transaction, key: str) -> None:
    put(tx, key, (get(tx, key) or 0) + 1)


def overwrite(tx: lowtide.Transaction, key: str) -> None:
    """Written without being read."""
    put(tx, key, 77)


def insert_and_delete(tx: lowtide.Transaction, key: str) -> None:
    put(tx, key, 1)
    delete(tx, key)


ON_A_ROW: list[tuple[Change, Change]] = [
    (update, update),
    (update, delete),
    (delete, update),
    (delete, delete),
    (overwrite, overwrite),
    (insert_and_delete, update),
    (update, insert_and_delete),
]
ON_NOTHING: list[tuple[Change, Change]] = [
    (overwrite, overwrite),
    (overwrite, delete),
    (delete, overwrite),
    (insert_and_delete, overwrite),
]
CASES = [
    pytest.param(first, second, existed, id=f"{first.__name__}-{second.__name__}-{'row' if existed else 'nothing'}")
    for pairs, existed in ((ON_A_ROW, True), (ON_NOTHING, False))
    for first, second in pairs
]


def begin_two(world: World, level: Isolation, existed: bool) -> tuple[lowtide.Transaction, lowtide.Transaction]:
    world.fill(neighbour=0, **({"x": 5} if existed else {}))
    return world.begin(level), world.begin(level)


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
@pytest.mark.parametrize(("first", "second", "existed"), CASES)
def test_the_second_committer_fails_and_the_first_succeeds(
    world: World, level: Isolation, first: Change, second: Change, existed: bool
) -> None:
    t1, t2 = begin_two(world, level, existed)
    second(t2, "x")
    first(t1, "x")
    put(t2, "y", 9)
    committed = t1.commit()
    after = world.rows()
    world.meanwhile()
    with pytest.raises(lowtide.ConflictError) as caught:
        t2.commit()
    error = caught.value
    assert (error.keyspace, error.key, error.snapshot_ts, error.committed_ts) == ("k", b"x", t2.ts, committed)
    assert world.rows() == after, "what was refused left something behind"


@pytest.mark.parametrize("level", LAST_COMMITTER_WINS)
@pytest.mark.parametrize(("first", "second", "existed"), CASES)
def test_below_snapshot_the_last_committer_wins(
    world: World, level: Isolation, first: Change, second: Change, existed: bool
) -> None:
    t1, t2 = begin_two(world, level, existed)
    first(t1, "x")
    second(t2, "x")
    t1.commit()
    world.meanwhile()
    t2.commit()
    world.meanwhile()
    wanted = {"overwrite": 77, "delete": None, "insert_and_delete": None}
    if level is Isolation.NONE:  # the second one read what the first had done
        wanted["update"] = 7 if first is update else 1
    assert world.get("x") == wanted.get(second.__name__, 6)


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_disjoint_keys_never_conflict(world: World, level: Isolation) -> None:
    """Neighbours in order, the same key in two keyspaces, and a key that is the other's prefix."""
    world.fill(a=1, b=1, c=1)
    open_ones = [world.begin(level) for _ in range(6)]
    put(open_ones[0], "a", 2)
    put(open_ones[1], "b", 2)
    delete(open_ones[2], "c")
    open_ones[3].keyspace("other").put(b"a", b"2")
    put(open_ones[4], "a\0", 2)
    put(open_ones[5], "", 2)
    for tx in reversed(open_ones):
        tx.commit()
        world.meanwhile()
    assert world.rows() == {"": 2, "a": 2, "a\0": 2, "b": 2}


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_reads_of_the_same_keys_never_conflict(world: World, level: Isolation) -> None:
    world.fill(a=1, b=1)
    t1, t2 = world.begin(level), world.begin(level)
    for tx, key in ((t1, "c"), (t2, "d")):
        assert (get(tx, "a"), get(tx, "b")) == (1, 1)
        put(tx, key, 1)
    assert commits(t1)
    world.meanwhile()
    assert commits(t2)


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_what_was_committed_before_begin_is_no_conflict(world: World, level: Isolation) -> None:
    """Also the commit right before begin: the snapshot's own timestamp was seen."""
    world.fill(x=0)
    for number in range(1, 6):
        with world.store.transaction(level) as tx:
            update(tx, "x")
        world.meanwhile()
        assert world.get("x") == number


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_write_that_was_rolled_back_is_no_conflict(world: World, level: Isolation) -> None:
    world.fill(x=1)
    t1, t2 = world.begin(level), world.begin(level)
    put(t1, "x", 2)
    put(t2, "x", 3)
    t1.rollback()
    world.meanwhile()
    assert commits(t2)
    assert world.get("x") == 3


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_refused_write_is_no_conflict_for_others(world: World, level: Isolation) -> None:
    world.fill(x=1, y=1)
    t1, t2, t3 = world.begin(level), world.begin(level), world.begin(level)
    put(t1, "x", 2)
    put(t2, "x", 3)
    put(t2, "y", 3)
    put(t3, "y", 4)
    t1.commit()
    assert not commits(t2)
    world.meanwhile()
    assert commits(t3)
    assert world.rows() == {"x": 2, "y": 4}


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
@pytest.mark.parametrize("weaker", LAST_COMMITTER_WINS)
def test_commits_of_weaker_levels_and_of_the_fast_path_count_as_well(
    world: World, level: Isolation, weaker: Isolation
) -> None:
    world.fill(x=1, y=1)
    t1, t2 = world.begin(level), world.begin(level)
    for tx, key in ((t1, "x"), (t2, "y")):
        update(tx, key)
    with world.store.transaction(weaker) as other:
        put(other, "x", 50)
    world.store.keyspace("k").put(b"y", b"60")
    world.meanwhile()
    assert not commits(t1)
    assert not commits(t2)
    assert world.rows() == {"x": 50, "y": 60}


def test_run_repeats_the_work_until_it_is_accepted(world: World) -> None:
    world.fill(x=0)
    seen = []

    def work(tx: lowtide.Transaction) -> int:
        seen.append(get(tx, "x"))
        put(tx, "x", (seen[-1] or 0) + 100)
        if len(seen) < 4:
            world.put("x", len(seen))
            world.meanwhile()
        return len(seen)

    assert world.store.run(work) == 4
    assert seen == [0, 1, 2, 3]
    assert world.rows() == {"x": 103}


def test_run_gives_up_after_its_attempts_with_the_last_error(plain: World) -> None:
    plain.fill(x=0)
    tries = 0

    def work(tx: lowtide.Transaction) -> None:
        nonlocal tries
        tries += 1
        put(tx, "x", -1)
        plain.put("x", tries)

    with pytest.raises(lowtide.ConflictError):
        plain.store.run(work, attempts=3)
    assert (tries, rows(plain.begin())) == (3, {"x": 3})
