"""``store.run`` gets every caller through, however hot the key, and delays no other transaction (I11)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import lowtide
from lowtide.engine.transaction.line import Footprint, Place
from lowtide.engine.transaction.read_set import RangeSet
from lowtide.engine.transaction.retry import PATIENCE as FAILURES
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE

COUNTER = {"_id": "counter"}


@pytest.fixture
def hot(store: lowtide.Store) -> lowtide.Store:
    store["c"].insert_one({**COUNTER, "n": 0})
    return store


def increment(tx: lowtide.Transaction, seconds: float = 0.0) -> None:
    """Read, think, write: for so long that another commit comes in between."""
    found = tx["c"].find_one(COUNTER)
    assert found is not None
    time.sleep(seconds)
    tx["c"].update_one(COUNTER, {"$set": {"n": found["n"] + 1}})


def counted(store: lowtide.Store) -> int:
    found = store["c"].find_one(COUNTER)
    assert found is not None
    return int(found["n"])


@contextmanager
def beside(*works: Callable[[], object]) -> Iterator[None]:
    """Repeat each of ``works`` in a thread of its own meanwhile. What one of them raises is raised at the end."""
    ended, raised = threading.Event(), list[BaseException]()

    def repeat(work: Callable[[], object]) -> None:
        try:
            while not ended.is_set():
                work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=repeat, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert raised == []


@contextmanager
def turn_of_another(store: lowtide.Store, key: bytes) -> Iterator[Place]:
    """Another thread's turn, at a key of keyspace ``k``."""
    line = parts_of(store).engine.line
    full_key = store.keyspace("k").prefix + key
    place = Place(Footprint({full_key: None}.keys(), [], RangeSet(())), 1e6)
    place.thread = -1
    line.enter(place)
    line.wait(place, time.monotonic() + PATIENCE)
    try:
        yield place
    finally:
        line.leave(place)


@pytest.mark.parametrize("level", ["snapshot", "serializable"])
@pytest.mark.parametrize("threads", [2, 8])
def test_every_caller_gets_through_a_hot_document(hot: lowtide.Store, threads: int, level: str) -> None:
    calls, errors = 6, list[BaseException]()

    def work() -> None:
        try:
            for _ in range(calls):
                hot.run(partial(increment, seconds=0.01), level)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert errors == []
    assert counted(hot) == threads * calls
    assert parts_of(hot).engine.line.places == ()


@pytest.mark.parametrize(
    "quick",
    [
        lambda store: store.run(increment),
        lambda store: store["c"].update_one(COUNTER, {"$inc": {"n": 1}}),
        lambda store: store["c"].bulk_write([lowtide.UpdateOne(COUNTER, {"$inc": {"n": 1}})]),
    ],
    ids=["run", "update_one", "bulk_write"],
)
def test_a_slow_caller_gets_through_beside_quick_ones(
    hot: lowtide.Store, quick: Callable[[lowtide.Store], object]
) -> None:
    """Without turns it would lose to each of them: they commit many times while it thinks."""
    with beside(partial(quick, hot), partial(quick, hot)):
        for _ in range(3):
            hot.run(partial(increment, seconds=0.05))


def test_a_slow_query_of_a_range_gets_through_beside_inserts(store: lowtide.Store) -> None:
    """Each conflict names another key: what the turn covers is the range that was read."""
    store["c"].insert_one({"_id": 0})

    def count(tx: lowtide.Transaction) -> None:
        found = tx["c"].count_documents({"_id": {"$gte": 0}})
        time.sleep(0.05)
        tx["totals"].replace_one({"_id": 1}, {"found": found}, upsert=True)

    def insert(tx: lowtide.Transaction) -> None:
        tx["c"].insert_one({"_id": time.monotonic_ns()})

    with beside(lambda: store.run(insert)):
        for _ in range(3):
            store.run(count, "serializable")


def test_the_loser_of_a_unique_value_is_told_of_the_duplicate(store: lowtide.Store) -> None:
    store["c"].create_index("name", unique=True)
    outcomes: list[type[BaseException] | None] = []
    together = threading.Barrier(4)

    def insert(tx: lowtide.Transaction) -> None:
        tx["c"].insert_one({"name": "one"})

    def work() -> None:
        together.wait()
        try:
            store.run(insert)
            outcomes.append(None)
        except lowtide.Error as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == sorted(map(str, [None, *[lowtide.DuplicateKeyError] * 3]))


def test_who_is_not_retried_never_waits_for_a_turn(store: lowtide.Store) -> None:
    keyspace = store.keyspace("k")
    keyspace.put(b"hot", b"0")
    with turn_of_another(store, b"hot"):
        keyspace.put(b"hot", b"1")
        with store.transaction() as tx:
            tx.keyspace("k").put(b"hot", b"2")
        one, other = store.begin(), store.begin()
        one.keyspace("k").put(b"hot", b"3")
        other.keyspace("k").put(b"cold", b"3")
        one.commit()
        other.commit()
        assert dict(keyspace.scan()) == {b"cold": b"3", b"hot": b"3"}


def test_a_retried_commit_of_other_keys_never_waits_for_a_turn(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"hot", b"0")
    with turn_of_another(store, b"hot"):
        store.run(lambda tx: tx.keyspace("k").put(b"cold", (tx.keyspace("k").get(b"hot") or b"") + b"!"))
    assert store.keyspace("k").get(b"cold") == b"0!"


def test_a_retried_commit_of_the_same_key_waits_for_the_end_of_the_turn(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"hot", b"0")
    done = threading.Event()

    def work() -> None:
        store.run(lambda tx: tx.keyspace("k").put(b"hot", b"1"))
        done.set()

    with turn_of_another(store, b"hot"):
        thread = threading.Thread(target=work)
        thread.start()
        assert not done.wait(0.1)
        assert store.keyspace("k").get(b"hot") == b"0"
    thread.join(PATIENCE)
    assert store.keyspace("k").get(b"hot") == b"1"


def losing(store: lowtide.Store, times: int) -> Callable[[lowtide.Transaction], None]:
    """Work whose first ``times`` attempts meet a conflict."""
    tried = 0

    def work(tx: lowtide.Transaction) -> None:
        nonlocal tried
        tried += 1
        tx.keyspace("k").put(b"own", b"%d" % tried)
        if tried <= times:
            store.keyspace("k").put(b"own", b"theirs")

    return work


def test_a_retry_inside_a_retry_waits_for_nobody(store: lowtide.Store) -> None:
    """The outer one has its turn, so the inner one gives way to no other: the two could wait for each other."""
    outer = losing(store, FAILURES)
    had_a_place: list[bool] = []

    def work(tx: lowtide.Transaction) -> None:
        outer(tx)
        had_a_place.append(parts_of(store).engine.line.has_place())
        if had_a_place[-1]:
            store.run(lambda inner: inner.keyspace("k").put(b"hot", b"inner"))
            store.run(losing(store, 0))

    with turn_of_another(store, b"hot"), pytest.raises(lowtide.ConflictError):
        store.run(work, attempts=FAILURES + 2)
    assert had_a_place[-1]
    assert store.keyspace("k").get(b"hot") == b"inner"
    assert parts_of(store).engine.line.places == ()


def test_a_holder_that_hangs_is_passed_over(hot: lowtide.Store) -> None:
    line, hung, go_on = parts_of(hot).engine.line, threading.Event(), threading.Event()

    def hang(tx: lowtide.Transaction) -> None:
        if line.has_place():
            hung.set()
            assert go_on.wait(PATIENCE)
        increment(tx)
        if not hung.is_set():
            hot["c"].update_one(COUNTER, {"$inc": {"n": 1}})

    holder = threading.Thread(target=lambda: hot.run(hang))
    holder.start()
    assert hung.wait(PATIENCE)
    before = counted(hot)
    for _ in range(3):
        hot.run(increment)
    assert counted(hot) == before + 3
    go_on.set()
    holder.join(PATIENCE)
    assert counted(hot) == before + 4


def test_the_bound_is_time_and_the_error_says_so(open_store: OpenStore) -> None:
    clock = ManualClock()
    store = open_store(clock=clock)
    lose = losing(store, 1 << 30)
    tried: list[float] = []

    def work(tx: lowtide.Transaction) -> None:
        tried.append(clock.monotonic())
        lose(tx)
        clock.advance(10)

    with pytest.raises(lowtide.ConflictError, match=r"nothing was written; given up after 6 attempts in 60\.\d s$"):
        store.run(work)
    assert len(tried) == 6
    assert parts_of(store).engine.line.places == ()


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_the_number_of_attempts_bounds_if_it_is_given(store: lowtide.Store, attempts: int) -> None:
    lose, tried = losing(store, 1 << 30), list[int]()

    def work(tx: lowtide.Transaction) -> None:
        tried.append(1)
        lose(tx)

    with pytest.raises(lowtide.ConflictError) as caught:
        store.run(work, "snapshot", attempts)
    assert len(tried) == attempts
    told = "retry the transaction" if attempts == 1 else f"given up after {attempts} attempts"
    assert told in str(caught.value)


def test_even_with_no_time_an_attempt_is_made_in_turn(store: lowtide.Store) -> None:
    """Else work that takes longer than the time would fail for good beside quicker writers."""
    store.run(losing(store, FAILURES), timeout=0)
    assert store.keyspace("k").get(b"own") == b"%d" % (FAILURES + 1)


@pytest.mark.parametrize(
    "wrong", [{"attempts": 0}, {"attempts": True}, {"attempts": 1.5}, {"timeout": -1}, {"timeout": "1"}]
)
def test_bounds_that_mean_nothing_are_refused(store: lowtide.Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(lowtide.UsageError, match=next(iter(wrong))):
        store.run(lambda tx: None, **wrong)
