"""A commit is seen whole or not at all, however many keys it has (I5)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import lowtide
from lowtide import Isolation
from tests.conftest import OpenStore
from tests.isolation.crowd import run_beside
from tests.isolation.world import World
from tests.support.schedule import Schedule

READERS = 4


def count_by_scan(store: lowtide.Store, level: Isolation, reverse: bool) -> tuple[int, set[bytes]]:
    with store.transaction(level, read_only=True) as tx:
        entries = list(tx.keyspace("k").scan(reverse=reverse))
    return len(entries), {value for _, value in entries}


def count_by_keys(store: lowtide.Store, size: int) -> tuple[int, set[bytes]]:
    with store.snapshot() as snapshot:
        values = [snapshot.keyspace("k").get(b"%05d" % number) for number in range(size)]
    return sum(value is not None for value in values), {value for value in values if value is not None}


def write_and_remove(store: lowtide.Store, size: int, rounds: int, upkeep: Callable[[], None]) -> None:
    """Batches of one value come, are replaced by another, and go again."""
    for turn in range(rounds):
        for value in (b"%d" % turn, b"%d-again" % turn, None):
            with store.transaction() as tx:
                keyspace = tx.keyspace("k")
                for number in range(size):
                    if value is None:
                        keyspace.delete(b"%05d" % number)
                    else:
                        keyspace.put(b"%05d" % number, value)
            upkeep()


@pytest.mark.parametrize(
    ("size", "rounds", "checkpoints"), [(50, 40, False), (50, 5, True), (5000, 2, False), (5000, 1, True)]
)
def test_four_readers_see_a_batch_whole_or_not_at_all(
    open_store: OpenStore, size: int, rounds: int, checkpoints: bool
) -> None:
    """With checkpoints, there is one after every commit, in a thread that contends with the readers."""
    store = open_store(checkpointer="thread", collect_threshold=1)
    levels = [Isolation.SNAPSHOT_READ, Isolation.SNAPSHOT, Isolation.SERIALIZABLE]

    def read(number: int) -> Callable[[], None]:
        def look() -> None:
            if number == READERS - 1 and size <= 50:
                found, values = count_by_keys(store, size)
            else:
                found, values = count_by_scan(store, levels[number % len(levels)], reverse=number % 2 == 1)
            assert found in (0, size)
            assert len(values) <= 1, values

        return look

    def upkeep() -> None:
        if checkpoints:
            store.checkpoint()

    run_beside(lambda: write_and_remove(store, size, rounds, upkeep), [read(number) for number in range(READERS)])
    assert store.stats().last_commit == 3 * rounds


def test_a_commit_that_is_half_published_is_not_seen_at_all(world: World) -> None:
    """All its versions are on their chains, and the timestamp is not yet published: every level must pass over them."""
    world.fill(a=1, b=2)
    world.meanwhile()
    before = {"a": 1, "b": 2}

    def write() -> None:
        with world.store.transaction() as tx:
            for key in ("a", "b", "c"):
                tx.keyspace("k").put(key.encode(), b"9")

    with Schedule() as schedule:
        writer = schedule.start(write, "commit.visible").arrive()
        for level in Isolation:
            with world.store.transaction(level, read_only=True) as tx:
                assert [tx.keyspace("k").get(key) for key in (b"a", b"b", b"c")] == [b"1", b"2", None]
                assert {key.decode(): int(value) for key, value in tx.keyspace("k").scan()} == before
        assert world.store.keyspace("k").get(b"a") == b"1"
        assert world.rows() == before
        writer.finish()
    assert world.rows() == {"a": 9, "b": 9, "c": 9}


def test_a_group_of_commits_is_published_at_once(plain: World) -> None:
    """A new transaction sees all of a group or nothing of it. Seeing one is not required, but timestamps must fit."""
    seen: list[tuple[int, dict[str, int]]] = []
    stop = threading.Event()

    def look() -> None:
        with plain.store.snapshot() as snapshot:
            rows = dict(snapshot.keyspace("k").scan())
            seen.append((snapshot.ts, {key.decode(): int(value) for key, value in rows.items()}))

    def write(name: str) -> None:
        for number in range(1, 60):
            plain.put(name, number)

    def writers() -> None:
        threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()

    run_beside(writers, [look, look])
    assert stop.is_set()
    for ts, rows in seen:
        assert sum(rows.values()) == ts, "a snapshot at ts holds exactly ts single increments"
