"""The background thread: any thread may wake it, jobs never overlap, and no wake-up is lost (G5, G8)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from lowtide.engine.maintenance import Maintenance
from tests.support.patience import PATIENCE


class Work:
    """Work that counts its runs, and can be made to wait or to fail."""

    def __init__(self) -> None:
        self.runs = 0
        self.at_once = 0
        self.most_at_once = 0
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.holds = False
        self.error: BaseException | None = None

    def __call__(self) -> None:
        self.runs += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.begun.release()
            if self.holds:
                assert self.may_end.acquire(timeout=PATIENCE)
            if self.error is not None:
                raise self.error
        finally:
            self.at_once -= 1

    def wait(self) -> None:
        """Wait for the next run to begin."""
        assert self.begun.acquire(timeout=PATIENCE)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def maintenance(work: Work) -> Iterator[Maintenance]:
    made = Maintenance(work)
    made.start()
    yield made
    work.holds = False
    for _ in range(10):
        work.may_end.release()
    made.close()


def test_nothing_is_done_until_it_is_woken(maintenance: Maintenance, work: Work) -> None:
    maintenance.close()
    assert work.runs == 0


def test_being_woken_makes_it_work_in_a_thread_of_its_own(maintenance: Maintenance, work: Work) -> None:
    maintenance.wake()
    work.wait()
    maintenance.close()
    assert work.runs == 1
    assert not maintenance._thread.is_alive()


def test_a_wake_up_while_it_works_makes_it_work_once_more(maintenance: Maintenance, work: Work) -> None:
    """What came to be due in the middle may have been missed by the run that was under way."""
    work.holds = True
    maintenance.wake()
    work.wait()
    for _ in range(5):
        maintenance.wake()
    work.holds = False
    work.may_end.release()
    work.wait()
    maintenance.close()
    assert work.runs == 2
    assert work.most_at_once == 1


def test_work_that_fails_is_reported_and_tried_again(
    maintenance: Maintenance, work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    work.error = ValueError("a bad day")
    maintenance.wake()
    work.wait()
    while not caplog.records:
        threading.Event().wait(0.001)
    work.error = None
    maintenance.wake()
    work.wait()
    maintenance.close()
    assert work.runs == 2
    assert "background work failed" in caplog.text
    assert "a bad day" in caplog.text


def test_closing_lets_running_work_finish(maintenance: Maintenance, work: Work) -> None:
    work.holds = True
    maintenance.wake()
    work.wait()
    closing = threading.Thread(target=maintenance.close, daemon=True)
    closing.start()
    assert closing.is_alive()
    work.may_end.release()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert work.at_once == 0


def test_it_may_be_woken_by_a_destructor_in_the_middle_of_waking(maintenance: Maintenance, work: Work) -> None:
    """The cyclic collector may run a destructor in any thread at any allocation, also inside ``wake`` (I12)."""

    class Waker:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            maintenance.wake()

    for _ in range(200):
        Waker()
        maintenance.wake()
        gc.collect(0)
    maintenance.close()
    assert work.runs >= 1


def test_many_threads_may_wake_it_and_none_is_forgotten(maintenance: Maintenance, work: Work) -> None:
    """Each thread leaves a task and wakes it; when all is quiet no task is left."""
    tasks: list[int] = []
    done: list[int] = []

    def drain() -> None:
        while tasks:
            done.append(tasks.pop())

    maintenance._work = drain

    def leave(first: int) -> None:
        for number in range(first, first + 500):
            tasks.append(number)
            maintenance.wake()

    threads = [threading.Thread(target=leave, args=(index * 500,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    maintenance.close()
    assert sorted(done) == list(range(2000))
