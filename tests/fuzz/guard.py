"""Limits for fuzzed code: processor time and memory in proportion to the size of its input."""

from __future__ import annotations

import signal
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from lowtide.errors import Error

SECONDS = 10.0
"""Of processor time, so that a busy machine does not matter; what waits for ever is ended by the test's own limit."""

_CONSTANT, _TIMES = 1 << 20, 16

_Result = TypeVar("_Result")


class Hang(BaseException):
    """It computes for too long. Nothing between here and the test catches it."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise Hang(f"it computed for {SECONDS} seconds")


def bounded(size: int, work: Callable[[], _Result], *, more: int = 0) -> _Result:
    """The result of ``work``, which was given ``size`` bytes; ``more`` is memory that it needs whatever it is given."""
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    tracemalloc.start()
    try:
        result = work()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert peak <= _CONSTANT + more + _TIMES * size, f"{size} bytes of input took {peak} bytes of memory"
    return result


def ours(size: int, work: Callable[[], _Result], *, more: int = 0) -> _Result | Error:
    """The result of ``work``, or the error of Lowtide that it raised. Any other error goes to the test."""

    def guarded() -> _Result | Error:
        try:
            return work()
        except Error as error:
            return error

    return bounded(size, guarded, more=more)
