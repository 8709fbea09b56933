"""Repeated runs, with a clock that only the test advances."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from lowtide.errors import UsageError
from lowtide.pipeline.runs.schedule import RunStopped, ScheduledRuns, Stop, run_every, stop_on_signal
from tests.support.clocks import ManualClock


class Work:
    """Notes when it began; a number in ``takes`` is how long a run takes, an exception how it fails."""

    def __init__(self, clock: ManualClock, *takes: float | Exception) -> None:
        self._clock = clock
        self._takes = list(takes)
        self.begun: list[float] = []

    def __call__(self) -> None:
        self.begun.append(self._clock.now)
        taken = self._takes.pop(0) if self._takes else 0.0
        if isinstance(taken, Exception):
            raise taken
        self._clock.advance(taken)


def run(work: Work, every: float, most: int, clock: ManualClock) -> ScheduledRuns:
    return run_every(work, every, stop=Stop(), clock=clock, most=most)


def test_runs_begin_at_fixed_distances_however_long_they_take() -> None:
    clock = ManualClock(0)
    work = Work(clock, 3, 9, 1)
    assert run(work, 10, 4, clock) == ScheduledRuns(done=4)
    assert work.begun == [0, 10, 20, 30]


def test_a_run_that_takes_too_long_skips_those_it_would_overlap() -> None:
    clock = ManualClock(0)
    work = Work(clock, 35, 10)
    assert run(work, 10, 3, clock) == ScheduledRuns(done=3, skipped=4)
    assert work.begun == [0, 40, 60]


def test_a_failed_run_is_tried_again_after_pauses_that_double() -> None:
    clock = ManualClock(0)
    work = Work(clock, *(ValueError(str(number)) for number in range(3)))
    told: list[tuple[str, float]] = []
    found = run_every(
        work, 3600, stop=Stop(), clock=clock, most=5, failed=lambda error, pause: told.append((str(error), pause))
    )
    assert found == ScheduledRuns(done=2, failed=3)
    assert told == [("0", 60), ("1", 120), ("2", 240)]
    assert work.begun == [0, 60, 180, 420, 420 + 3600]


def test_the_pauses_begin_again_after_a_run_that_worked() -> None:
    clock = ManualClock(0)
    told: list[float] = []
    work = Work(clock, ValueError(), ValueError(), 0, ValueError())
    run_every(work, 3600, stop=Stop(), clock=clock, most=4, failed=lambda _, pause: told.append(pause))
    assert told == [60, 120, 60]


def test_a_request_to_stop_ends_the_wait_at_once() -> None:
    clock, stop = ManualClock(0), Stop()

    class Stopping(ManualClock):
        def sleep(self, seconds: float) -> None:
            clock.sleep(seconds)
            stop.request()

    waiting = Stopping(0)
    assert run_every(Work(clock), 3600, stop=stop, clock=waiting) == ScheduledRuns(done=1)
    assert clock.now < 1


def test_a_request_to_stop_ends_a_run_after_its_step() -> None:
    clock, stop = ManualClock(0), Stop()
    steps: list[str] = []

    def work() -> None:
        tell = stop.between(steps.append)
        tell("one")
        stop.request()
        tell("two")

    assert run_every(work, 10, stop=stop, clock=clock) == ScheduledRuns()
    assert steps == ["one"]
    with pytest.raises(RunStopped):
        stop.check()


@pytest.mark.parametrize("every", [0, -1, float("nan")])
def test_a_distance_must_be_above_zero(every: float) -> None:
    with pytest.raises(UsageError, match="above 0"):
        run_every(lambda: None, every, stop=Stop())


def test_sigterm_requests_to_stop_and_means_what_it_did_before_afterwards() -> None:
    former = signal.getsignal(signal.SIGTERM)
    with stop_on_signal() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        signal.sigpending()  # returns to Python, which runs the handler
        assert stop.requested
    assert signal.getsignal(signal.SIGTERM) is former


def test_another_thread_gets_a_stop_that_no_signal_requests() -> None:
    found: list[bool] = []

    def look() -> None:
        with stop_on_signal() as stop:
            found.append(stop.requested)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [False]
