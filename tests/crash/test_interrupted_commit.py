"""KeyboardInterrupt wherever the interpreter can deliver one: all or nothing, and no thread is left waiting (P1)."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.crash.interrupts import Places, interrupted, raising_at
from tests.crash.stores import (
    SMALL,
    Changes,
    Model,
    both,
    child,
    commit,
    content_of,
    in_time,
    killed,
    lines_of,
    reopened,
    wait_until,
)
from tests.support.attack import FULL
from tests.support.parts import parts_of
from tests.support.warm import Started

RESTARTED = 1 if FULL else 4
"""After one in so many interrupts the store is killed and opened again. What an interrupt left in the log stays there
for the next restart to find."""


def fits(number: int) -> Changes:
    return {"left": {b"last": b"%d" % number}, "right": {b"last": b"%d" % number}}


def needs_a_segment(number: int) -> Changes:
    return {"left": {b"last": b"%d" % number + b"x" * 1800}, "right": {b"last": b"%d" % number + b"x" * 1800}}


def needs_a_keyspace(number: int) -> Changes:
    return {f"new {number}": {b"k": b"v"}, **fits(number)}


def needs_nothing(number: int) -> Changes:
    return {"other": {b"last": b"%d" % number}}


@pytest.mark.parametrize("work", [fits, needs_a_segment, needs_a_keyspace])
def test_an_interrupt_anywhere_in_a_commit_leaves_all_of_it_or_nothing(
    work: Callable[[int], Changes], tmp_path: Path
) -> None:
    """And what it left stays so: nothing turns up later, the next commit works, and a restart shows the same."""
    store = lowtide.open(tmp_path / "store", **SMALL, durability="relaxed")
    model = Model()
    try:
        nth, reached, tried = 0, ["somewhere"], Places(visits=2 if work is fits or FULL else 1)
        while reached:
            nth += 1
            changes = work(nth)
            with interrupted(tried, KeyboardInterrupt("pressed by the test")) as reached:
                try:
                    commit(store, changes)
                    acknowledged = True
                except KeyboardInterrupt:
                    acknowledged = False
            where = f"after an interrupt in {reached}"
            if content_of(store) == model.after(changes):
                model.apply(changes)
            assert content_of(store) == model.content, where
            assert not acknowledged or model.content["left"][b"last"] == changes["left"][b"last"], where
            for layer in parts_of(store).versions.layers:
                layer.check()
            later: Changes = {"left": {b"next": b"%d" % nth}}
            in_time(lambda later=later: commit(store, later), where)  # type: ignore[misc]
            model.apply(later)
            assert content_of(store) == model.content, where
            if nth % RESTARTED == 0:
                with lowtide.open(killed(store.path, tmp_path / "killed"), **SMALL) as restarted:
                    assert content_of(restarted) == model.content, where
                shutil.rmtree(tmp_path / "killed")
            if nth % 20 == 0:
                store.checkpoint()
    except BaseException:
        store._finalizer.detach()  # with a lock that is never released, closing it at exit would not return
        raise
    in_time(store.close)
    assert nth > 50, "the commit was hardly traced"
    assert reopened(tmp_path / "store") == model.content


def test_an_interrupt_anywhere_leaves_the_callbacks_of_later_commits_running(open_store: OpenStore) -> None:
    store = open_store(**SMALL)
    tried, reached, called = Places(), ["somewhere"], list[int]()

    def work() -> int:
        with store.transaction() as tx:
            tx.keyspace("k").put(b"a", b"1")
            tx.on_commit(called.append)
        return called[-1]

    while reached:
        with interrupted(tried, KeyboardInterrupt()) as reached, contextlib.suppress(KeyboardInterrupt):
            work()
        assert work() == store.stats().last_commit, f"after an interrupt in {reached}"


def test_a_close_that_is_interrupted_still_gives_the_store_back(open_store: OpenStore) -> None:
    store = open_store(**SMALL)
    commit(store, both(1))
    with raising_at("checkpoint.sampled", KeyboardInterrupt()) as raised, contextlib.suppress(KeyboardInterrupt):
        store.close()
    assert raised
    store.close()
    again = open_store(**SMALL)
    assert content_of(again)["left"] == {b"key 1": b"1."}


def test_an_interrupt_anywhere_in_the_commit_of_a_group_harms_no_other_member(tmp_path: Path) -> None:
    """The other members were not interrupted, so they must not fail: each is committed, or told to retry."""
    store = lowtide.open(tmp_path / "store", **SMALL, durability="relaxed")
    model, tried, nth = Model(), Places(one_in=2), 0
    try:
        reached = ["somewhere"]
        while reached:
            nth += 1
            own, others = fits(nth), needs_nothing(nth)
            outcome = follow(store, others)
            with (
                interrupted(tried, KeyboardInterrupt("pressed by the test")) as reached,
                contextlib.suppress(KeyboardInterrupt),
            ):
                commit(store, own)
            where = f"after an interrupt in {reached}"
            in_time(lambda: wake(store), where)  # an interrupt before the commit had begun leaves the other asleep
            committed = in_time(outcome, where)
            shown = content_of(store)
            if shown.get("other", {}).get(b"last") == b"%d" % nth:
                model.apply(others)
            if shown.get("left", {}).get(b"last") == b"%d" % nth:
                model.apply(own)
            assert shown == model.content, where
            assert committed == (model.content.get("other", {}).get(b"last") == b"%d" % nth), where
            for layer in parts_of(store).versions.layers:
                layer.check()
            later: Changes = {"left": {b"next": b"%d" % nth}}
            in_time(lambda later=later: commit(store, later), where)  # type: ignore[misc]
            model.apply(later)
            if nth % RESTARTED == 0:
                with lowtide.open(killed(store.path, tmp_path / "killed"), **SMALL) as restarted:
                    assert content_of(restarted) == model.content, where
                shutil.rmtree(tmp_path / "killed")
    except BaseException:
        store._finalizer.detach()
        raise
    in_time(store.close)
    assert nth > 50, "the commit was hardly traced"
    assert reopened(tmp_path / "store") == model.content


def follow(store: lowtide.Store, changes: Changes) -> Callable[[], bool]:
    """Have another thread stand in the queue with ``changes``, asleep until a leader commits or wakes it.

    Returns a function that waits for the outcome: whether it was committed, or has to be retried.
    """
    committer = parts_of(store).committer
    outcomes: list[BaseException | int] = []

    def work() -> None:
        try:
            outcomes.append(commit(store, changes))
        except BaseException as error:
            outcomes.append(error)

    thread = threading.Thread(target=work, daemon=True)
    with committer._lock:
        thread.start()
        wait_until(lambda: _waiting(store) == 1)

    def outcome() -> bool:
        thread.join()
        (found,) = outcomes
        assert isinstance(found, int | lowtide.TransientError), found
        return isinstance(found, int)

    return outcome


def wake(store: lowtide.Store) -> None:
    with parts_of(store).committer.exclusive():
        pass


def _waiting(store: lowtide.Store) -> int:
    """How many commits stand in the queue behind a gate of their own."""
    return sum(request.gate is not None and request.gate.locked() for request in list(parts_of(store).committer._queue))


FOLLOWER = """
import json, sys, threading, lowtide

def say(what):
    print(json.dumps(what), flush=True)

def wait_until(condition):
    while not condition():
        threading.Event().wait(0.001)

store = lowtide.open(sys.argv[1], durability="relaxed")
committer = store._backend.committer
held, release = threading.Event(), threading.Event()

def hold():
    with committer.exclusive():
        held.set()
        release.wait()

def third():
    wait_until(lambda: len(committer._queue) == 1)
    store.keyspace("k").put(b"third", b"1")
    say("third is through")

def watch():
    wait_until(lambda: sum(r.gate is not None and r.gate.locked() for r in list(committer._queue)) == 2)
    say("waiting")

for work in (hold, third, watch):
    threading.Thread(target=work, daemon=True).start()
held.wait()
try:
    store.keyspace("k").put(b"interrupted", b"1")
    say("acknowledged")
except KeyboardInterrupt:
    say("interrupted")
shown = store.keyspace("k").get(b"interrupted") is not None
release.set()
sys.stdin.readline()
store.keyspace("k").put(b"later", b"1")
say([shown, sorted(key.decode() for key, _ in store.keyspace("k").scan())])
store.close()
"""


def test_an_interrupted_follower_leaves_nobody_waiting_and_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C in the main thread while it waits for another thread's commit, with a third one behind it."""
    with child(FOLLOWER, tmp_path / "store") as process:
        said = lines_of(process)
        assert next(said) == "waiting"
        process.send_signal(signal.SIGINT)
        assert next(said) == "interrupted"
        assert _next_in_time(process, said) == "third is through", "the third commit was left waiting"
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        shown, keys = next(said)
        assert not shown
        assert keys == ["later", "third"], "a commit that was given up turned up later"


def _next_in_time(process: Started, said: Iterator[object]) -> object:
    """The next line, or a failure if it does not come."""
    timer = threading.Timer(20, process.kill)
    timer.start()
    try:
        return next(said, None)
    finally:
        timer.cancel()
