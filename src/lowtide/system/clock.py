"""The clock: the only place where Lowtide reads the time. Tests replace it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    """What a store needs from a clock."""

    def time(self) -> float:
        """Seconds since the epoch, for the commit times that users see."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, for ages and intervals."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; used between two attempts of ``store.run``."""
        ...


class SystemClock:
    """The machine's own clock."""

    def __init__(self) -> None:
        # The functions themselves, without a wrapping method: every begin and every commit calls one.
        self.time = time.time
        self.monotonic = time.monotonic
        self.sleep = time.sleep
        self.time_ns = time.time_ns


SYSTEM_CLOCK: Final = SystemClock()
"""The real clock: for waits on other processes and threads, which take real time whatever clock the store has, and for
objects that exist without a store."""


def moment(time: float) -> datetime:
    """Return a time of the clock, in seconds since the epoch, as a datetime in UTC.

    >>> moment(0.5).isoformat()
    '1970-01-01T00:00:00.500000+00:00'
    """
    return datetime.fromtimestamp(time, UTC)
