"""Runs a job repeatedly, for users without another scheduler, and stops it when the process is asked to end.

Runs start at fixed intervals from the first one. A run that takes longer skips those it would overlap. A failed run is
retried after a pause that doubles each time, and the schedule continues.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

from lowtide.errors import Error, UsageError
from lowtide.system.clock import SYSTEM_CLOCK, Clock

FIRST_PAUSE: Final = 60.0
"""Seconds after the first failure, if runs are not closer to each other than that."""
LONGEST_PAUSE: Final = 3600.0
_SLICE: Final = 0.5
"""Seconds after which a wait checks whether it should end."""


class RunStopped(Error):
    """The run was asked to stop, and did so after a step. Nothing is lost: the next run continues from there."""


class Stop:
    """Whether a process was asked to end. Jobs check it between steps."""

    def __init__(self) -> None:
        self._requested = threading.Event()

    @property
    def requested(self) -> bool:
        return self._requested.is_set()

    def request(self) -> None:
        self._requested.set()

    def check(self) -> None:
        """Raise RunStopped if a stop was requested."""
        if self.requested:
            raise RunStopped("asked to stop, so it ended after a step; the next run continues from there")

    def between(self, progress: Callable[[str], None] | None) -> Callable[[str], None]:
        """A progress that also ends the work: reports come between two steps, where it is safe to."""

        def tell(what: str) -> None:
            self.check()
            if progress is not None:
                progress(what)

        return tell


@contextmanager
def stop_on_signal(*signals: signal.Signals) -> Iterator[Stop]:
    """A Stop that SIGTERM, or these signals, request. Their previous handlers are restored at the end. Only the main
    thread can handle signals; in other threads nothing requests the stop."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        stop.request()

    former = {each: signal.signal(each, handle) for each in signals or (signal.SIGTERM,)}
    try:
        yield stop
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)


@dataclass(frozen=True)
class ScheduledRuns:
    """What a schedule did until it was ended: how many runs were done and failed, and how many were skipped."""

    done: int = 0
    failed: int = 0
    skipped: int = 0


def run_every(
    work: Callable[[], object],
    every: float,
    *,
    stop: Stop,
    clock: Clock = SYSTEM_CLOCK,
    failed: Callable[[Exception, float], None] | None = None,
    most: int | None = None,
) -> ScheduledRuns:
    """Do ``work`` now, and then every ``every`` seconds, until ``stop`` is requested; at most ``most`` times.

    ``failed`` is called with each failure and the seconds until the next attempt. A run that another one overtook
    (TransientError) counts as failed; its next attempt has less to do.
    """
    if not every > 0:
        raise UsageError(f"every is a number of seconds above 0, not {every!r}")
    done = failures = skipped = in_a_row = 0
    due = clock.monotonic()
    while not stop.requested:
        try:
            work()
        except RunStopped:
            break
        except Exception as error:  # whatever it was: the next run may have better luck
            failures, in_a_row = failures + 1, in_a_row + 1
            pause = pause_after(in_a_row, every)
            if failed is not None:
                failed(error, pause)
            due = clock.monotonic() + pause
        else:
            done, in_a_row = done + 1, 0
            missed = max(0, int((clock.monotonic() - due) // every))
            skipped += missed
            due += (missed + 1) * every
        if most is not None and done + failures >= most:
            break
        wait_until(due, stop=stop, clock=clock)
    return ScheduledRuns(done, failures, skipped)


def pause_after(failures: int, every: float) -> float:
    """The seconds after so many failures in a row.

    >>> [pause_after(count, 3600) for count in (1, 2, 3, 7, 100)]
    [60.0, 120.0, 240.0, 3600.0, 3600.0]
    >>> [pause_after(count, 5) for count in (1, 2, 3)]
    [5.0, 10.0, 20.0]
    """
    first = min(FIRST_PAUSE, every)
    return float(min(LONGEST_PAUSE, first * 2.0 ** min(failures - 1, 30)))


def wait_until(due: float, *, stop: Stop, clock: Clock = SYSTEM_CLOCK) -> None:
    """Wait for a moment of the monotonic clock, or until ``stop`` is requested."""
    while not stop.requested and (left := due - clock.monotonic()) > 0:
        clock.sleep(min(_SLICE, left))
