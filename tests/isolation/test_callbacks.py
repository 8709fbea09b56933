"""Callbacks run after publication, in commit order. One that raises affects no other transaction (P5)."""

from __future__ import annotations

import logging
import threading

import pytest

import lowtide
from lowtide import Isolation
from tests.isolation.crowd import run_together, wait_until
from tests.isolation.world import BUFFERED, FIRST_COMMITTER_WINS, LEVELS, World, commits, get, put
from tests.support.parts import parts_of
from tests.support.schedule import Schedule


@pytest.mark.parametrize("level", LEVELS)
def test_a_callback_sees_its_own_commit_published(world: World, level: Isolation) -> None:
    seen: list[tuple[int, int | None, int]] = []
    tx = world.begin(level)
    put(tx, "x", 1)
    tx.on_commit(lambda ts: seen.append((ts, world.get("x"), world.store.stats().last_commit)))
    world.meanwhile()
    assert seen == []
    ts = tx.commit()
    assert seen == [(ts, 1, ts)]


@pytest.mark.parametrize("level", BUFFERED)
def test_callbacks_of_one_commit_run_in_the_order_they_were_given(plain: World, level: Isolation) -> None:
    seen: list[int] = []
    with plain.store.transaction(level) as tx:
        for number in range(5):
            tx.on_commit(lambda ts, number=number: seen.append(number))  # type: ignore[misc]
        put(tx, "x", 1)
    assert seen == [0, 1, 2, 3, 4]


def test_callbacks_run_in_commit_order_over_all_threads(plain: World) -> None:
    seen: list[int] = []

    def work(name: str) -> None:
        for number in range(50):
            with plain.store.transaction() as tx:
                put(tx, name, number)
                tx.on_commit(seen.append)

    run_together(*(lambda name=name: work(name) for name in "abcd"))
    assert seen == list(range(1, 201))


def test_the_callbacks_of_a_group_run_in_commit_order_each_after_all_of_the_group_is_visible(plain: World) -> None:
    seen: list[tuple[int, int]] = []
    open_ones = [plain.begin() for _ in range(4)]
    for number, tx in enumerate(open_ones):
        put(tx, f"x{number}", number)
        tx.on_commit(lambda ts: seen.append((ts, plain.store.stats().last_commit)))
    queue = parts_of(plain.store).committer._queue
    with Schedule() as schedule:
        leader = schedule.start(lambda: plain.store.keyspace("leader").put(b"x", b""), "commit.log").arrive()
        threads = [threading.Thread(target=tx.commit) for tx in open_ones]
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(lambda expected=number + 1: len(queue) == expected)  # type: ignore[misc]
        leader.finish()
    for thread in threads:
        thread.join()
    assert seen == [(2, 5), (3, 5), (4, 5), (5, 5)]


def test_a_callback_that_raises_harms_nobody(plain: World, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    def fail(ts: int) -> None:
        raise ZeroDivisionError(f"in the callback of {ts}")

    with caplog.at_level(logging.ERROR, logger="lowtide"), plain.store.transaction() as tx:
        put(tx, "x", 1)
        tx.on_commit(lambda ts: seen.append("before"))
        tx.on_commit(fail)
        tx.on_commit(lambda ts: seen.append("after"))
    assert seen == ["before", "after"]
    assert plain.get("x") == 1
    assert "the commit itself succeeded" in caplog.text
    [raised] = [record.exc_info for record in caplog.records if "the commit itself succeeded" in record.getMessage()]
    assert raised is not None
    assert repr(raised[1]) == "ZeroDivisionError('in the callback of 1')"
    plain.put("x", 2)
    assert plain.get("x") == 2


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_callback_of_what_was_refused_or_rolled_back_never_runs(plain: World, level: Isolation) -> None:
    plain.fill(x=0)
    seen: list[int] = []
    refused, rolled_back = plain.begin(level), plain.begin(level)
    for tx in (refused, rolled_back):
        put(tx, "x", 1)
        tx.on_commit(seen.append)
    rolled_back.rollback()
    plain.put("x", 2)
    assert not commits(refused)
    plain.put("y", 1)
    assert seen == []


def test_a_callback_may_itself_commit_and_its_callbacks_follow(plain: World) -> None:
    seen: list[tuple[str, int]] = []

    def commit_more(ts: int) -> None:
        seen.append(("first", ts))
        with plain.store.transaction() as tx:
            put(tx, "second", (get(tx, "first") or 0) + 1)
            tx.on_commit(lambda ts: seen.append(("second", ts)))
        seen.append(("first is over", ts))

    with plain.store.transaction() as tx:
        put(tx, "first", 1)
        tx.on_commit(commit_more)
        tx.on_commit(lambda ts: seen.append(("first again", ts)))
    assert seen == [("first", 1), ("first is over", 1), ("first again", 1), ("second", 2)]
    assert plain.rows() == {"first": 1, "second": 2}


def test_a_callback_that_commits_beside_other_threads_stops_nobody(plain: World) -> None:
    followed: list[int] = []

    def follow(ts: int) -> None:
        plain.store.keyspace("audit").put(b"%05d" % ts, b"")
        followed.append(ts)

    def work(name: str) -> None:
        for number in range(30):
            with plain.store.transaction() as tx:
                put(tx, name, number)
                tx.on_commit(follow)

    run_together(*(lambda name=name: work(name) for name in "abc"))
    wait_until(lambda: len(followed) == 90)
    assert followed == sorted(followed)
    assert len(list(plain.store.keyspace("audit").scan())) == 90


def test_a_transaction_that_wrote_nothing_calls_back_with_the_instant_it_read(plain: World) -> None:
    plain.fill(x=0)
    seen: list[int] = []
    with plain.store.transaction(read_only=True) as tx:
        tx.on_commit(seen.append)
        plain.put("x", 1)
    assert seen == [tx.ts]


def test_a_callback_given_inside_a_savepoint_that_was_rolled_back_never_runs(plain: World) -> None:
    seen: list[str] = []
    with plain.store.transaction() as tx:
        put(tx, "x", 1)
        tx.on_commit(lambda ts: seen.append("outside"))
        with tx.savepoint() as savepoint:
            tx.on_commit(lambda ts: seen.append("undone"))
            savepoint.rollback()
            tx.on_commit(lambda ts: seen.append("inside"))
    assert seen == ["outside", "inside"]


def test_a_callback_cannot_be_given_to_a_transaction_that_has_ended(plain: World) -> None:
    tx = plain.begin()
    tx.commit()
    with pytest.raises(lowtide.UsageError):
        tx.on_commit(lambda ts: None)
