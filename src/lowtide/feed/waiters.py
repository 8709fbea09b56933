"""Waits for the next commit without polling.

A waiting thread adds a gate of its own. A thread that commits or closes takes all gates and opens them. No wake-up is
lost: a waiter adds its gate and then reads the last commit, a committer publishes and then reads the gates, so the
later of the two sees the other. All gates are opened together, so each waiter checks why it woke.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable


class Waiters:
    """The threads that wait for a commit. ``published`` returns the last one."""

    def __init__(self, published: Callable[[], int]) -> None:
        self._published = published
        self.gates: deque[threading.Lock] = deque()
        self._closed = False

    def wait(self, after: int, timeout: float | None = None, stopped: Callable[[], bool] = bool) -> int:
        """Wait for a commit later than ``after`` and return the last commit.

        The result is not later than ``after`` if ``timeout`` seconds have passed, if ``stopped`` is true after a
        ``wake``, or if the waiters are closed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            gate = threading.Lock()
            gate.acquire()
            self.gates.append(gate)  # point: wait.added
            try:
                remaining = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
                if (published := self._published()) > after or self._closed or stopped() or remaining == 0.0:
                    return published
                gate.acquire(timeout=remaining)
            finally:
                with contextlib.suppress(ValueError):
                    self.gates.remove(gate)

    def wake(self) -> None:
        """Open all gates. Any thread may call this, even under the commit lock."""
        while self.gates:
            try:
                gate = self.gates.popleft()
            except IndexError:
                return
            gate.release()

    def close(self) -> None:
        """Wake all waiters and make every later wait return at once."""
        self._closed = True
        self.wake()
