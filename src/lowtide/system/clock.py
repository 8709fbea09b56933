"""The clock: the one place where Lowtide reads the time, so that tests can set it."""

from __future__ import annotations

import time
from typing import Final, Protocol


class Clock(Protocol):
    """What the store asks of a clock."""

    def time(self) -> float:
        """Seconds since the epoch, for the commit times that users see."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, for ages and intervals."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait between two attempts of ``store.run``."""
        ...


class SystemClock:
    """The machine's own clock."""

    def __init__(self) -> None:
        # The functions themselves, without a method around them: a begin and a commit each ask once.
        self.time = time.time
        self.monotonic = time.monotonic
        self.sleep = time.sleep


SYSTEM_CLOCK: Final[Clock] = SystemClock()
"""For waits on other processes and threads. These take real time, whatever clock the store was opened with."""
