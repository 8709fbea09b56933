"""The time limit of one evaluation."""

from __future__ import annotations

from lowtide.errors import QueryTimeout, UsageError
from lowtide.system.clock import SYSTEM_CLOCK, Clock


class Deadline:
    """When an evaluation must be done. Without a limit it never is late."""

    def __init__(self, timeout: float | None, clock: Clock = SYSTEM_CLOCK) -> None:
        if timeout is not None and not timeout > 0:
            raise UsageError(f"timeout is a number of seconds above 0, or None for no limit, not {timeout!r}")
        self._timeout = timeout
        self._clock = clock
        self._end = None if timeout is None else clock.monotonic() + timeout

    def check(self) -> None:
        """Raise QueryTimeout if the time is up."""
        if self._end is not None and self._clock.monotonic() > self._end:
            assert self._timeout is not None
            raise QueryTimeout(self._timeout)
