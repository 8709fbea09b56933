"""A commit becomes visible to all readers at once, and the members of a group are validated one by one (scenarios I5,
C6)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import lowtide
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE
from tests.support.schedule import Schedule

KEYS = [b"%03d" % number for number in range(300)]
OLD = dict.fromkeys(KEYS[::2], b"old")
NEW = dict.fromkeys(KEYS, b"new")

BEFORE_PUBLICATION = pytest.mark.parametrize("place", ["commit.log", "commit.publish", "commit.visible"])
WHERE_THE_OLD_ONES_ARE = pytest.mark.parametrize("checkpointed", [False, True])


def commit(store: lowtide.Store, entries: dict[bytes, bytes]) -> int:
    tx = store.begin()
    for key, value in entries.items():
        tx.keyspace("k").put(key, value)
    return tx.commit()


def seen(store: lowtide.Store) -> list[dict[bytes, bytes]]:
    """The content by every way there is to read it."""
    found = []
    keyspace = store.keyspace("k")
    single = {key: value for key in KEYS if (value := keyspace.get(key)) is not None}
    found += [single, dict(keyspace.scan()), dict(keyspace.scan(reverse=True))]
    with store.snapshot() as snapshot:
        by_key = {key: value for key in KEYS if (value := snapshot.keyspace("k").get(key)) is not None}
        found += [by_key, dict(snapshot.keyspace("k").scan())]
    with store.transaction(read_only=True) as tx:
        found.append(dict(tx.keyspace("k").scan()))
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.001)


@BEFORE_PUBLICATION
@WHERE_THE_OLD_ONES_ARE
def test_a_commit_is_seen_by_nobody_before_it_is_visible_and_by_everybody_after(
    store: lowtide.Store, place: str, checkpointed: bool
) -> None:
    """Versions that are on their chains already, and read without regard to what is published, would show as a part
    or the whole of a commit that has not happened; a timestamp that is published before they are, as a part of it."""
    commit(store, OLD)
    if checkpointed:
        store.checkpoint()
    with Schedule() as schedule:
        step = schedule.start(lambda: commit(store, NEW), place).arrive()
        assert all(each == OLD for each in seen(store))
        with store.snapshot() as early:
            assert step.finish() == early.ts + 1
            assert all(each == NEW for each in seen(store))
            assert dict(early.keyspace("k").scan()) == OLD


@BEFORE_PUBLICATION
def test_deletions_are_published_with_the_rest_of_their_commit(store: lowtide.Store, place: str) -> None:
    """A deletion that shows before the insertion of the same commit would leave a moment with neither."""
    commit(store, {b"000": b"here"})

    def move() -> None:
        with store.transaction() as tx:
            tx.keyspace("k").delete(b"000")
            tx.keyspace("k").put(b"001", b"here")

    with Schedule() as schedule:
        step = schedule.start(move, place).arrive()
        assert all(each == {b"000": b"here"} for each in seen(store))
        step.finish()
        assert all(each == {b"001": b"here"} for each in seen(store))


def test_a_snapshot_that_begins_during_a_publication_never_changes(store: lowtide.Store) -> None:
    """A snapshot whose timestamp were that of the unpublished commit would see it come into being."""
    commit(store, OLD)
    with Schedule() as schedule:
        step = schedule.start(lambda: commit(store, NEW), "commit.publish", "commit.visible").arrive()
        first = store.snapshot()
        step.resume()
        step.arrive()
        second = store.snapshot()
        step.finish()
        commit(store, dict.fromkeys(KEYS, b"newer"))
        store.collect_garbage()
        store.checkpoint()
        for snapshot in (first, second):
            assert dict(snapshot.keyspace("k").scan()) == OLD
            snapshot.close()


def test_a_transaction_that_begins_before_visibility_conflicts_with_the_commit(store: lowtide.Store) -> None:
    """It did not see the commit, so it must not overwrite it. A draw that counted the unpublished commit as seen would
    lose that update."""
    commit(store, OLD)
    with Schedule() as schedule:
        step = schedule.start(lambda: commit(store, NEW), "commit.visible").arrive()
        tx = store.begin()
        assert tx.keyspace("k").get(b"000") == b"old"
        tx.keyspace("k").put(b"000", b"mine")
        step.finish()
        with pytest.raises(lowtide.ConflictError):
            tx.commit()


@pytest.mark.parametrize("place", ["commit.log", "commit.publish", "commit.visible"])
def test_those_who_queue_behind_a_leader_are_one_group_and_are_judged_one_by_one(
    store: lowtide.Store, place: str
) -> None:
    """C6. The one that wrote the leader's key is refused, the other is not: a group that failed or was accepted as a
    whole would refuse a commit for nothing, or lose the leader's update."""
    commit(store, OLD)
    queue = parts_of(store).committer._queue
    loser, winner = store.begin(), store.begin()
    loser.keyspace("k").put(b"000", b"loser")
    loser.keyspace("k").put(b"002", b"loser")
    winner.keyspace("k").put(b"004", b"winner")
    with Schedule() as schedule:
        leader = schedule.start(lambda: commit(store, {b"000": b"leader"}), place).arrive()
        refused = schedule.start(loser.commit)
        wait_until(lambda: len(queue) == 1)
        accepted = schedule.start(winner.commit)
        wait_until(lambda: len(queue) == 2)
        assert all(each == OLD for each in seen(store))
        led = leader.finish()
        with pytest.raises(lowtide.ConflictError):
            refused.finish()
        assert accepted.finish() == led + 1, "the refused one took no timestamp"
    expected = OLD | {b"000": b"leader", b"004": b"winner"}
    assert all(each == expected for each in seen(store))


def test_two_of_one_group_that_write_the_same_key_do_not_both_commit(store: lowtide.Store) -> None:
    """The members of a group are not on the chains yet when they are judged: validation against the chains alone would
    accept both, and the first one's update would be lost."""
    commit(store, OLD)
    queue = parts_of(store).committer._queue
    first, second = store.begin(), store.begin()
    first.keyspace("k").put(b"000", b"first")
    second.keyspace("k").put(b"000", b"second")
    with Schedule() as schedule:
        leader = schedule.start(lambda: commit(store, {b"001": b"leader"}), "commit.log").arrive()
        accepted = schedule.start(first.commit)
        wait_until(lambda: len(queue) == 1)
        refused = schedule.start(second.commit)
        wait_until(lambda: len(queue) == 2)
        leader.finish()
        accepted.finish()
        with pytest.raises(lowtide.ConflictError):
            refused.finish()
    assert store.keyspace("k").get(b"000") == b"first"
