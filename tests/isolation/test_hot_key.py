"""Many threads on one key: no update is lost, and other transactions are unaffected (C6)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import lowtide
from lowtide import Isolation
from tests.conftest import OpenStore
from tests.isolation.crowd import run_beside, run_together, wait_until
from tests.isolation.world import FIRST_COMMITTER_WINS, LAST_COMMITTER_WINS, World, commits, get, put
from tests.support.parts import parts_of
from tests.support.schedule import Schedule

THREADS = 4
INCREMENTS = 60


def increment(tx: lowtide.Transaction) -> None:
    put(tx, "hot", (get(tx, "hot") or 0) + 1)


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
@pytest.mark.parametrize("upkeep", [False, True])
def test_the_counter_equals_the_successful_commits(open_store: OpenStore, level: Isolation, upkeep: bool) -> None:
    store = open_store(checkpointer="thread", collect_threshold=1)
    store.run(increment)
    committed = []

    def count() -> None:
        for turn in range(INCREMENTS):
            try:
                store.run(increment, level, attempts=3 if turn % 2 else 1000)
            except lowtide.ConflictError:
                continue  # given up: it must not have been counted either
            committed.append(1)
            if upkeep and turn % 10 == 0:
                store.checkpoint()

    last_seen = [0, 0]

    def look(reader: int) -> Callable[[], None]:
        def read() -> None:
            value = store.keyspace("k").get(b"hot")
            assert value is not None, "a reader saw the key missing"
            with store.snapshot() as snapshot:
                seen = get(snapshot, "hot")
                assert seen is not None, "a snapshot saw the key missing"
                assert dict(snapshot.keyspace("k").scan()) == {b"hot": b"%d" % seen}
            assert last_seen[reader] <= int(value) <= seen, "time ran backwards"
            last_seen[reader] = seen

        return read

    run_beside(lambda: run_together(*[count] * THREADS), [look(0), look(1)])
    assert store.keyspace("k").get(b"hot") == b"%d" % (1 + len(committed))
    assert store.stats().last_commit == 1 + len(committed)
    assert len(committed) >= THREADS * INCREMENTS // 2


@pytest.mark.parametrize("level", LAST_COMMITTER_WINS)
def test_below_snapshot_increments_are_lost_but_the_key_is_never_missing(
    open_store: OpenStore, level: Isolation
) -> None:
    store = open_store()
    store.run(increment)

    def count() -> None:
        for _ in range(INCREMENTS):
            store.run(increment, level, attempts=1)

    def look() -> None:
        assert store.keyspace("k").get(b"hot") is not None

    run_beside(lambda: run_together(*[count] * THREADS), [look])
    assert store.stats().last_commit == 1 + THREADS * INCREMENTS, "nobody is ever refused"


def commit_as_one_group(store: lowtide.Store, open_ones: list[lowtide.Transaction]) -> list[bool]:
    """Commit in the given order, all in the group that follows a leader that is held before the log."""
    queue = parts_of(store).committer._queue
    accepted: dict[int, bool] = {}

    def commit(number: int, tx: lowtide.Transaction) -> None:
        accepted[number] = commits(tx)

    threads = []
    with Schedule() as schedule:
        leader = schedule.start(lambda: store.keyspace("leader").put(b"x", b"1"), "commit.log").arrive()
        for number, tx in enumerate(open_ones):
            threads.append(threading.Thread(target=commit, args=(number, tx)))
            threads[-1].start()
            wait_until(lambda expected=number + 1: len(queue) == expected)  # type: ignore[misc]
        first = store.stats().last_commit + 2
        leader.finish()
    for thread in threads:
        thread.join()
    stamps = list(range(first, first + sum(accepted.values())))
    assert store.stats().last_commit == (stamps[-1] if stamps else first - 1)
    return [accepted[number] for number in range(len(open_ones))]


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_losers_on_a_hot_key_never_fail_others_in_their_group(world: World, level: Isolation) -> None:
    """Decided per transaction, in queue order, although all share one write to the log."""
    world.fill(hot=0, **{f"private-{number}": 0 for number in range(4)})
    open_ones = [world.begin(level) for _ in range(8)]
    for number, tx in enumerate(open_ones):
        if number % 2 == 0:
            increment(tx)
        else:
            put(tx, f"private-{number // 2}", 1)
    world.meanwhile()
    outcome = commit_as_one_group(world.store, open_ones)
    assert outcome == [True, True, False, True, False, True, False, True]
    assert world.rows() == {"hot": 1, **{f"private-{number}": 1 for number in range(4)}}


@pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)
def test_a_member_of_a_group_conflicts_with_the_leader_that_it_waited_for(plain: World, level: Isolation) -> None:
    plain.fill(hot=0)
    tx = plain.begin(level)
    increment(tx)
    with Schedule() as schedule:
        leader = schedule.start(lambda: plain.put("hot", 50), "commit.publish").arrive()
        outcome: list[bool] = []
        thread = threading.Thread(target=lambda: outcome.append(commits(tx)))
        thread.start()
        wait_until(lambda: len(parts_of(plain.store).committer._queue) == 1)
        leader.finish()
    thread.join()
    assert (outcome, plain.get("hot")) == ([False], 50)


def test_in_a_group_a_serializable_reader_conflicts_with_members_before_it_only(world: World) -> None:
    """By key, by range and by absence. A reader is accepted if no member of the group wrote what it read."""
    world.fill(a=0, b=0, m=0)
    by_key, by_range, by_absence, early, apart = (world.begin(Isolation.SERIALIZABLE) for _ in range(5))
    get(early, "a")
    get(by_key, "a")
    list(by_range.keyspace("k").scan(b"a", b"c"))
    get(by_absence, "new")
    get(apart, "m")
    for number, tx in enumerate((early, by_key, by_range, by_absence, apart)):
        put(tx, f"z{number}", 1)
    writer = world.begin()
    put(writer, "a", 1)
    put(writer, "new", 1)
    world.meanwhile()
    outcome = commit_as_one_group(world.store, [early, writer, by_key, by_range, by_absence, apart])
    assert outcome == [True, True, False, False, False, True]


def test_a_serializable_transaction_conflicts_with_any_member_of_a_group_that_committed_meanwhile(world: World) -> None:
    world.fill(a=0, b=0, c=0)
    readers = {name: world.begin(Isolation.SERIALIZABLE) for name in "abc"}
    for name, tx in readers.items():
        get(tx, name)
        put(tx, f"by-{name}", 1)
    writers = [world.begin(), world.begin()]
    put(writers[0], "a", 1)
    put(writers[1], "b", 1)
    assert commit_as_one_group(world.store, writers) == [True, True]
    world.meanwhile()
    assert {name: commits(tx) for name, tx in readers.items()} == {"a": False, "b": False, "c": True}


def test_in_a_group_the_weaker_levels_are_always_accepted(world: World) -> None:
    world.fill(hot=0)
    open_ones = [world.begin(level) for level in (Isolation.READ_COMMITTED, Isolation.SNAPSHOT_READ) * 2]
    careful = world.begin(Isolation.SNAPSHOT)
    for number, tx in enumerate([*open_ones, careful]):
        put(tx, "hot", number)
    world.meanwhile()
    assert commit_as_one_group(world.store, [*open_ones, careful]) == [True] * 4 + [False]
    assert world.get("hot") == 3
    assert world.store.stats().versions == sum(len(layer.chains) for layer in parts_of(world.store).versions.layers)
