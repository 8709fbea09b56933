"""A clock that stands still until a test moves it."""

from __future__ import annotations


class ManualClock:
    """Its two times move together, and only by ``advance`` or ``sleep``."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def advance(self, seconds: float) -> None:
        self.now += seconds
