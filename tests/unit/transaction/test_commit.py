"""The committer: groups, timestamps, one write to the log, and what a failure on the way leaves (P2, P5, G5, C6)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence

import pytest

import lowtide
from lowtide.log.writer import LogWriter
from lowtide.transaction.commit import Committer
from lowtide.versions.layers import VersionStore
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together, wait_until
from tests.support.schedule import Schedule


def committer_of(store: lowtide.Store) -> Committer:
    return store._parts.committer


def put(store: lowtide.Store, key: bytes, value: bytes = b"") -> None:
    store.keyspace("k").put(key, value)


def commit_behind_a_leader(
    store: lowtide.Store, works: Sequence[Callable[[], None]], release: Callable[[], None]
) -> None:
    """Queue ``works`` in order behind a commit that is held, then ``release`` it and wait for all."""
    threads = [threading.Thread(target=work) for work in works]
    for number, thread in enumerate(threads):
        thread.start()
        wait_until(lambda expected=number + 1: len(committer_of(store)._queue) == expected)  # type: ignore[misc]
    release()
    for thread in threads:
        thread.join()


@pytest.fixture
def appended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commits each write to the log carried."""
    counts: list[int] = []
    append = LogWriter.append

    def counting(log: LogWriter, first_ts: int, payloads: list[bytes], *, durably: bool) -> None:
        counts.append(len(payloads))
        append(log, first_ts, payloads, durably=durably)

    monkeypatch.setattr(LogWriter, "append", counting)
    return counts


def test_commits_are_numbered_without_gaps(store: lowtide.Store) -> None:
    assert [store.begin().ts]
    stamps = []
    for number in range(5):
        tx = store.begin()
        tx.keyspace("k").put(b"%d" % number, b"")
        stamps.append(tx.commit())
    assert stamps == [1, 2, 3, 4, 5]


def test_a_refused_commit_takes_no_number(store: lowtide.Store) -> None:
    put(store, b"x")
    refused = store.begin()
    refused.keyspace("k").put(b"x", b"1")
    put(store, b"x")
    with pytest.raises(lowtide.ConflictError):
        refused.commit()
    put(store, b"y")
    assert store.stats().last_commit == 3


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_those_who_wait_together_are_logged_together(
    open_store: OpenStore, durability: str, appended: list[int]
) -> None:
    store = open_store(durability=durability)
    with Schedule() as schedule:
        leader = schedule.start(lambda: put(store, b"leader"), "commit.log").arrive()
        works = [functools.partial(put, store, key) for key in (b"a", b"b", b"c")]
        commit_behind_a_leader(store, works, leader.resume)
        leader.finish()
    assert appended == [1, 3]
    assert [key for key, _ in store.keyspace("k").scan()] == [b"a", b"b", b"c", b"leader"]
    assert store.stats().last_commit == 4


def test_the_group_is_as_durable_as_its_most_careful_member(open_store: OpenStore) -> None:
    """NONE leaves the sync to its commit, but beside a durable commit it is on disk as well."""
    store = open_store(durability="full")
    hasty = store.begin("none")
    log = store._parts.log
    with Schedule() as schedule:
        leader = schedule.start(lambda: put(store, b"leader"), "commit.log").arrive()
        works = [lambda: hasty.keyspace("k").put(b"a", b""), lambda: put(store, b"b")]
        commit_behind_a_leader(store, works, leader.resume)
        leader.finish()
    assert log.durable_ts == log.last_ts == 3


def test_commits_wait_while_somebody_is_exclusive_and_all_go_on_after(store: lowtide.Store) -> None:
    done: list[bytes] = []

    def work(key: bytes) -> Callable[[], None]:
        def run() -> None:
            put(store, key)
            done.append(key)

        return run

    with committer_of(store).exclusive():
        threads = [threading.Thread(target=work(b"%d" % number)) for number in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(committer_of(store)._queue) == 3)
        assert committer_of(store).try_exclusive(lambda: 1) is None
        assert done == []
    for thread in threads:
        thread.join()
    assert sorted(done) == [b"0", b"1", b"2"]
    assert committer_of(store).try_exclusive(lambda: 1) == 1


def test_no_wake_up_is_lost(store: lowtide.Store) -> None:
    """Committers, and others who take the lock for a moment, all at once: a lost wake-up would hang this test."""

    def commit(name: int) -> Callable[[], None]:
        def run() -> None:
            for number in range(150):
                put(store, b"%d-%d" % (name, number))

        return run

    def disturb() -> None:
        for _ in range(150):
            with committer_of(store).exclusive():
                pass
            committer_of(store).try_exclusive(lambda: 1)

    run_together(*(commit(name) for name in range(4)), disturb, disturb)
    assert store.stats().last_commit == 600
    assert not committer_of(store)._queue


def test_an_error_of_the_log_fails_all_of_the_group_and_shows_nothing_of_it(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    put(store, b"before")
    errors: list[lowtide.Error] = []

    def work(key: bytes) -> Callable[[], None]:
        def run() -> None:
            try:
                put(store, key)
            except lowtide.Error as error:
                errors.append(error)

        return run

    with Schedule() as schedule:
        leader = schedule.start(lambda: put(store, b"leader"), "commit.log").arrive()

        def refuse_the_rest() -> None:
            leader.finish()

        append = LogWriter.append

        def failing(log: LogWriter, first_ts: int, payloads: list[bytes], *, durably: bool) -> None:
            if len(payloads) > 1:
                raise lowtide.DiskFull("no room")
            append(log, first_ts, payloads, durably=durably)

        monkeypatch.setattr(LogWriter, "append", failing)
        commit_behind_a_leader(store, [work(b"a"), work(b"b")], refuse_the_rest)
    assert [type(error) for error in errors] == [lowtide.DiskFull] * 2
    assert [key for key, _ in store.keyspace("k").scan()] == [b"before", b"leader"]
    put(store, b"after")
    assert store.stats().last_commit == 3


def test_a_collector_that_fails_leaves_the_commit_successful_and_is_counted(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, b"x", b"0")
    holder = store.snapshot()

    def fail(*arguments: object) -> int:
        raise ZeroDivisionError("in the collector")

    monkeypatch.setattr(VersionStore, "drop_superseded", fail)
    put(store, b"x", b"1")
    assert store.keyspace("k").get(b"x") == b"1"
    assert holder.keyspace("k").get(b"x") == b"0"
    assert store.stats().collect_failures == 1
    assert "the commit stands" in caplog.text


def test_a_closed_committer_refuses_with_the_reason(store: lowtide.Store) -> None:
    tx = store.begin()
    tx.keyspace("k").put(b"x", b"")
    store.close()
    with pytest.raises(lowtide.UsageError, match="closed"):
        tx.commit()


def test_the_callbacks_of_a_commit_that_wrote_nothing_follow_those_of_commits_before_it(store: lowtide.Store) -> None:
    """Also when another thread is still calling back: it takes them over."""
    seen: list[str] = []
    entered, go_on = threading.Event(), threading.Event()

    def slow(ts: int) -> None:
        entered.set()
        assert go_on.wait(30)
        seen.append("slow")

    def write() -> None:
        with store.transaction() as tx:
            tx.keyspace("k").put(b"x", b"")
            tx.on_commit(slow)

    writer = threading.Thread(target=write)
    writer.start()
    assert entered.wait(30)
    with store.transaction(read_only=True) as tx:
        tx.on_commit(lambda ts: seen.append("read-only"))
    assert seen == []
    go_on.set()
    writer.join()
    assert seen == ["slow", "read-only"]
