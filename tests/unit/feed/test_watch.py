"""Watching: commits as they come, each once, until the watch is closed."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

import lowtide
from lowtide.feed.watch import Watch
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.support.schedule import Schedule
from tests.unit.feed.stores import SHORT, fill, kept_from, stamps


def wait_for_waiter(store: lowtide.Store, count: int = 1) -> None:
    """Wait until the given number of threads wait for a commit of ``store``."""
    pause = threading.Event()
    for _ in range(30_000):
        if len(parts_of(store).waiters.gates) >= count:
            return
        pause.wait(0.001)
    raise AssertionError("nobody waits")


def test_a_watch_begins_after_the_last_commit_and_shows_what_comes(store: lowtide.Store) -> None:
    fill(store, 2)
    watch = store.watch()
    fill(store, 2)
    assert [next(watch).ts, next(watch).ts] == [3, 4]
    with Schedule() as schedule:
        waiting = schedule.start(lambda: next(watch))
        wait_for_waiter(store)
        fill(store, 1)
        assert waiting.finish().ts == 5


def test_a_watch_with_a_timeout_ends_when_nothing_comes_and_can_be_asked_again(store: lowtide.Store) -> None:
    watch = store.watch(since=0, timeout=0)
    assert stamps(watch) == []
    fill(store, 3)
    assert stamps(watch) == [1, 2, 3]
    assert watch.position == 3


def test_the_position_is_the_last_commit_that_was_shown_whole(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        for key in (b"a", b"b"):
            tx.keyspace("fruit").put(key, b"1")
    fill(store, 1)
    watch = store.watch(since=0, timeout=0)
    assert watch.position == 0
    next(watch)
    assert watch.position == 0
    next(watch)
    assert watch.position == 0, "there might be more of commit 1"
    next(watch)
    assert watch.position == 1
    assert stamps(watch) == []
    assert watch.position == 2
    assert stamps(store.watch(since=watch.position, timeout=0)) == []


def test_commits_that_show_nothing_move_the_position_too(store: lowtide.Store) -> None:
    watch = store.watch(keyspaces=["left"], timeout=0)
    fill(store, 3, "right")
    store.keyspace("left").delete(b"what is not there")
    assert list(watch) == []
    assert watch.position == 4


def test_close_from_another_thread_ends_a_wait(store: lowtide.Store) -> None:
    watch = store.watch()
    with Schedule() as schedule:
        waiting = schedule.start(lambda: list(watch))
        wait_for_waiter(store)
        watch.close()
        assert waiting.finish() == []
    assert list(watch) == []


def test_close_between_the_gate_and_the_look_ends_a_wait(store: lowtide.Store) -> None:
    watch = store.watch()
    with Schedule() as schedule:
        waiting = schedule.start(lambda: list(watch), "wait.added").arrive()
        watch.close()
        assert waiting.finish() == []


def test_close_ends_it_in_the_middle_of_what_is_there(store: lowtide.Store) -> None:
    fill(store, 3)
    with store.watch(since=0) as watch:
        next(watch)
    assert list(watch) == []
    assert watch.position == 0


def test_closing_one_watch_does_not_end_another_that_has_a_timeout(store: lowtide.Store) -> None:
    one, other = store.watch(), store.watch(timeout=600)
    with Schedule() as schedule:
        waiting = schedule.start(lambda: next(other))
        wait_for_waiter(store)
        one.close()
        wait_for_waiter(store)
        fill(store, 1)
        assert waiting.finish().ts == 1


def test_closing_the_store_ends_a_wait_with_words(store: lowtide.Store) -> None:
    watch = store.watch()
    with Schedule() as schedule:
        waiting = schedule.start(lambda: list(watch))
        wait_for_waiter(store)
        store.close()
        with pytest.raises(lowtide.UsageError, match="the store is closed"):
            waiting.finish()
    with pytest.raises(lowtide.UsageError, match="the store is closed"):
        next(watch)


def test_closing_a_store_that_is_only_read_ends_a_wait_with_words(open_store: OpenStore) -> None:
    owner = open_store()
    reader = open_store(read_only=True)
    watch = reader.watch()
    with Schedule() as schedule:
        waiting = schedule.start(lambda: list(watch))
        wait_for_waiter(owner)
        reader.close()
        with pytest.raises(lowtide.UsageError, match="the store is closed"):
            waiting.finish()


def test_a_watch_that_lost_its_place_never_goes_on_behind_the_gap(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    watch = store.watch(since=0, timeout=0)
    for _ in range(3):
        fill(store)
        store.checkpoint()
    for _ in range(3):
        with pytest.raises(lowtide.ChangesLost) as caught:
            next(watch)
        assert (caught.value.since, caught.value.kept) == (0, kept_from(store))
        assert watch.position == 0
    watch.close()
    assert list(watch) == []


def test_a_watch_that_is_refused_values_before_never_goes_on_behind_them(store: lowtide.Store) -> None:
    watch = store.watch(before=True, timeout=0)
    fill(store, 2)
    for _ in range(2):
        with pytest.raises(lowtide.UsageError, match="before_images"):
            next(watch)


def test_keyspaces_given_as_an_iterator_serve_for_every_round(store: lowtide.Store) -> None:
    watch = store.watch(keyspaces=iter(["left"]), timeout=0)
    for _ in range(3):
        fill(store, 1, "left")
        fill(store, 1, "right")
        assert [each.keyspace for each in watch] == ["left"]


def test_every_watch_of_many_sees_every_commit_once_beside_many_writers(store: lowtide.Store) -> None:
    commits, writers = 40, 4

    def follow(watch: Watch) -> list[int]:
        seen = []
        for change in watch:
            seen.append(change.ts)
            if change.ts == commits * writers:
                return seen
        return seen

    def write(number: int) -> None:
        for turn in range(commits):
            store.keyspace("fruit").put(b"%d %d" % (number, turn), b"")

    with Schedule() as schedule:
        watching = [schedule.start(partial(follow, store.watch())) for _ in range(3)]
        writing = [schedule.start(partial(write, number)) for number in range(writers)]
        for step in writing:
            step.finish()
        assert [each.finish() for each in watching] == [list(range(1, commits * writers + 1))] * 3


@pytest.mark.parametrize("timeout", ["1", True, float("nan"), [1]])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(store: lowtide.Store, timeout: Any) -> None:
    with pytest.raises(lowtide.UsageError, match="timeout"):
        store.watch(timeout=timeout)
