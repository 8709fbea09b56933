"""The queue of callbacks: they run in order, in one thread at a time, and none is left behind (P5)."""

from __future__ import annotations

import logging
import threading

import pytest

from lowtide.engine.transaction.callbacks import Callbacks
from tests.isolation.crowd import run_together


def test_they_run_in_the_order_in_which_they_were_lined_up() -> None:
    callbacks, seen = Callbacks(), list[str]()
    callbacks.line_up(1, [lambda ts: seen.append(f"a{ts}"), lambda ts: seen.append(f"b{ts}")])
    callbacks.line_up(2, [lambda ts: seen.append(f"c{ts}")])
    assert seen == []
    callbacks.run()
    assert seen == ["a1", "b1", "c2"]
    callbacks.run()
    assert not callbacks.due
    assert len(seen) == 3, "each of them once"


def test_one_that_raises_is_reported_and_the_others_run(caplog: pytest.LogCaptureFixture) -> None:
    callbacks, seen = Callbacks(), list[int]()

    def fail(ts: int) -> None:
        raise KeyError(ts)

    callbacks.line_up(7, [fail, seen.append])
    with caplog.at_level(logging.ERROR, logger="lowtide"):
        callbacks.run()
    assert seen == [7]
    assert "commit 7" in caplog.text


def test_one_that_lines_up_more_has_them_run_after_all_that_were_there() -> None:
    callbacks, seen = Callbacks(), list[str]()

    def more(ts: int) -> None:
        callbacks.line_up(ts + 10, [lambda ts: seen.append(f"more {ts}")])
        callbacks.run()  # as a commit inside a callback does
        seen.append(f"first {ts}")

    callbacks.line_up(1, [more, lambda ts: seen.append(f"second {ts}")])
    callbacks.run()
    assert seen == ["first 1", "second 1", "more 11"]


def test_after_an_interrupt_the_rest_is_still_due_and_may_be_run() -> None:
    callbacks, seen = Callbacks(), list[int]()

    def interrupt(ts: int) -> None:
        raise KeyboardInterrupt

    callbacks.line_up(1, [interrupt, seen.append])
    with pytest.raises(KeyboardInterrupt):
        callbacks.run()
    assert seen == []
    callbacks.run()
    assert seen == [1]


def test_many_threads_that_line_up_and_run_leave_none_behind_and_never_run_two_at_once() -> None:
    callbacks, seen = Callbacks(), list[int]()
    lock, at_once = threading.Lock(), list[bool]()

    def note(ts: int) -> None:
        at_once.append(not lock.acquire(blocking=False))
        seen.append(ts)
        lock.release()

    def work() -> None:
        for number in range(300):
            callbacks.line_up(number, [note])
            callbacks.run()

    run_together(work, work, work, work)
    assert len(seen) == 1200
    assert not any(at_once)
    assert not callbacks.due
