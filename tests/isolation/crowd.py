"""Threads for tests: some do a fixed amount of work, others observe until it is done."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from tests.support.patience import PATIENCE


class _Worker(threading.Thread):
    """A thread that keeps the error it ended with."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        self.join(PATIENCE)
        assert not self.is_alive(), "a thread did not end"
        if self.error is not None:
            raise self.error


@contextlib.contextmanager
def quick_turns() -> Iterator[None]:
    """Let threads take turns ten times as often as Python does by itself. There are more interleavings, and a thread
    that comes back from the disk does not wait for each of the others to use up its 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 10)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_together(*works: Callable[[], None]) -> None:
    """Run all of ``works`` at once, each in a thread of its own; raises the first error."""
    for worker in [_Worker(work) for work in works]:
        worker.finish()


def run_beside(work: Callable[[], None], onlookers: Sequence[Callable[[], None]]) -> None:
    """Run ``work``, and repeat each of ``onlookers`` in a thread of its own until it is done, at least twice."""
    with quick_turns():
        _run_beside(work, onlookers)


def _run_beside(work: Callable[[], None], onlookers: Sequence[Callable[[], None]]) -> None:
    done = threading.Event()

    def look_on(look: Callable[[], None]) -> None:
        look()
        while not done.is_set():
            look()
        look()

    workers = [_Worker(lambda look=look: look_on(look)) for look in onlookers]  # type: ignore[misc]
    try:
        work()
    finally:
        done.set()
    for worker in workers:
        worker.finish()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for another thread to make ``condition`` true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.001)
