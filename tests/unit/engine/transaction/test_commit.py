"""The committer: groups, timestamps, one write to the log, and what a failure on the way leaves (P2, P5, G5, C6)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence

import pytest

import lowtide
from lowtide.engine.log.writer import LogWriter
from lowtide.engine.transaction.commit import Committer
from lowtide.engine.transaction.request import Request
from lowtide.engine.versions.layers import VersionStore
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together, wait_until
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE
from tests.support.schedule import Schedule


def committer_of(store: lowtide.Store) -> Committer:
    return parts_of(store).committer


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
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The last timestamp of each write to the log."""
    stamps: list[int] = []
    append, append_group = LogWriter.append, LogWriter.append_group

    def one(log: LogWriter, ts: int, payload: bytes, durably: bool) -> None:
        stamps.append(ts)
        append(log, ts, payload, durably)

    def group(log: LogWriter, first_ts: int, payloads: list[bytes], durably: bool) -> None:
        stamps.append(first_ts + len(payloads) - 1)
        append_group(log, first_ts, payloads, durably)

    monkeypatch.setattr(LogWriter, "append", one)
    monkeypatch.setattr(LogWriter, "append_group", group)
    return stamps


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
    open_store: OpenStore, durability: str, written: list[int]
) -> None:
    store = open_store(durability=durability)
    with Schedule() as schedule:
        leader = schedule.start(lambda: put(store, b"leader"), "commit.log").arrive()
        works = [functools.partial(put, store, key) for key in (b"a", b"b", b"c")]
        commit_behind_a_leader(store, works, leader.resume)
        leader.finish()
    assert written == [1, 4]
    assert [key for key, _ in store.keyspace("k").scan()] == [b"a", b"b", b"c", b"leader"]
    assert store.stats().last_commit == 4


def test_the_group_is_as_durable_as_its_most_careful_member(open_store: OpenStore) -> None:
    """NONE leaves the sync to its commit, but beside a durable commit it is on disk as well."""
    store = open_store(durability="full")
    hasty = store.begin("none")
    log = parts_of(store).log
    with Schedule() as schedule:
        leader = schedule.start(lambda: put(store, b"leader"), "commit.log").arrive()
        works = [lambda: hasty.keyspace("k").put(b"a", b""), lambda: put(store, b"b")]
        commit_behind_a_leader(store, works, leader.resume)
        leader.finish()
    assert log.durable_ts == log.last_ts == 3


def test_nobody_in_a_group_is_told_before_the_log_has_it(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[list[Request]] = []
    told: list[bool] = []
    commit, write = Committer._commit, LogWriter._write

    def committing(committer: Committer, group: list[Request]) -> None:
        groups.append(group)
        commit(committer, group)

    def writing(log: LogWriter, data: bytes, crc: int, ts: int, durably: bool) -> None:
        told.extend(request.done for group in groups for request in group)
        write(log, data, crc, ts, durably)

    monkeypatch.setattr(Committer, "_commit", committing)
    monkeypatch.setattr(LogWriter, "_write", writing)
    with Schedule() as schedule:
        leader = schedule.start(lambda: put(store, b"leader"), "commit.log").arrive()
        works = [functools.partial(put, store, key) for key in (b"a", b"b", b"c")]
        commit_behind_a_leader(store, works, leader.resume)
        leader.finish()
    assert told == [False, False, False]


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


@pytest.mark.parametrize("how", ["exclusive", "try_exclusive"])
def test_a_commit_waits_for_others_who_hold_the_lock_however_often_it_led_itself(
    store: lowtide.Store, how: str
) -> None:
    """The lock of another thread must not be taken for this one's own."""
    led, held, go_on = threading.Event(), threading.Event(), threading.Event()

    def hold() -> int:
        held.set()
        assert go_on.wait(PATIENCE)
        return 1

    def hold_exclusively() -> None:
        assert led.wait(PATIENCE)
        if how == "try_exclusive":
            committer_of(store).try_exclusive(hold)
        else:
            with committer_of(store).exclusive():
                hold()

    def commit_twice() -> None:
        put(store, b"led")
        led.set()
        assert held.wait(PATIENCE)
        try:
            put(store, b"waited")
        finally:
            go_on.set()

    def let_go() -> None:
        wait_until(lambda: len(committer_of(store)._queue) == 1 or go_on.is_set())
        go_on.set()

    run_together(hold_exclusively, commit_twice, let_go)
    assert store.stats().last_commit == 2


def test_a_commit_from_within_the_commit_of_the_same_thread_is_refused(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler or a destructor may run at any moment. A thread that waits for itself would wait for ever."""
    refused: list[str] = []
    append = LogWriter.append

    def commit_again(log: LogWriter, ts: int, payload: bytes, durably: bool) -> None:
        try:
            put(store, b"inner")
        except lowtide.UsageError as error:
            refused.append(str(error))
        append(log, ts, payload, durably)

    put(store, b"outer")
    monkeypatch.setattr(LogWriter, "append", commit_again)
    put(store, b"outer")
    assert refused
    assert "inside a commit" in refused[0]
    monkeypatch.undo()
    put(store, b"after")
    assert [key for key, _ in store.keyspace("k").scan()] == [b"after", b"outer"]


def test_no_wake_up_is_lost(store: lowtide.Store) -> None:
    """Committers, and other threads that take the lock briefly, all at once: a lost wake-up would hang this test."""

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

        write = LogWriter._write

        def failing(log: LogWriter, data: bytes, crc: int, ts: int, durably: bool) -> None:
            if ts == 4:
                raise lowtide.DiskFull("no room")
            write(log, data, crc, ts, durably)

        monkeypatch.setattr(LogWriter, "_write", failing)
        commit_behind_a_leader(store, [work(b"a"), work(b"b")], refuse_the_rest)
    assert [type(error) for error in errors] == [lowtide.DiskFull] * 2
    assert [key for key, _ in store.keyspace("k").scan()] == [b"before", b"leader"]
    put(store, b"after")
    assert store.stats().last_commit == 3, "the timestamps of what failed are given out again"


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
        assert go_on.wait(PATIENCE)
        seen.append("slow")

    def write() -> None:
        with store.transaction() as tx:
            tx.keyspace("k").put(b"x", b"")
            tx.on_commit(slow)

    writer = threading.Thread(target=write)
    writer.start()
    assert entered.wait(PATIENCE)
    with store.transaction(read_only=True) as tx:
        tx.on_commit(lambda ts: seen.append("read-only"))
    assert seen == []
    go_on.set()
    writer.join()
    assert seen == ["slow", "read-only"]


class Owed:
    """A lock that was handed to a thread that does not run yet. ``locked`` returns False, as for a real lock while its
    new owner waits for the GIL."""

    def __init__(self) -> None:
        self.tried = 0
        self._lock = threading.Lock()

    def locked(self) -> bool:
        return self._lock.locked()

    def acquire(self, blocking: bool = True) -> bool:
        assert not blocking, "a commit stands in line for the lock"
        self.tried += 1
        return self.tried > 2 and self._lock.acquire(False)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *arguments: object) -> None:
        self.release()


def test_a_commit_never_stands_in_line_for_the_lock(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is handed a lock while it waits holds it until it has the GIL as well, and so blocks the others."""
    owed = Owed()
    monkeypatch.setattr(parts_of(store).committer, "_lock", owed)
    store.keyspace("k").put(b"a", b"1")
    assert owed.tried == 3
    assert store.keyspace("k").get(b"a") == b"1"
    monkeypatch.undo()


class Taken:
    """A commit lock that another thread has just taken: it was free when it was looked at."""

    def locked(self) -> bool:
        return False

    def acquire(self, blocking: bool = True) -> bool:
        assert not blocking, "it waited for the lock"
        return False

    __enter__ = acquire


def test_who_only_tries_the_commit_lock_never_waits_for_it(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = committer_of(store)
    with monkeypatch.context() as patch:
        patch.setattr(committer, "_lock", Taken())
        assert committer.try_exclusive(lambda: 1) is None
    assert committer.try_exclusive(lambda: 1) == 1
    assert not committer._lock.locked()


def test_who_tries_the_commit_lock_wakes_a_commit_that_came_meanwhile(store: lowtide.Store) -> None:
    committer = committer_of(store)
    other = threading.Thread(target=put, args=(store, b"x"))

    def work() -> int:
        other.start()
        wait_until(lambda: any(request.gate is not None for request in committer._queue))
        return 1

    assert committer.try_exclusive(work) == 1
    other.join(PATIENCE)
    assert not other.is_alive()
