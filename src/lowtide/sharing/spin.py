"""Waits for the answer to a commit of a joined process: it spins for a moment before it sleeps, if that pays.

Sleeping and being woken costs both ends more than the owner needs for an unsynced commit: the sender's core goes idle,
and the owner has to wake it. Polling the socket in vain costs one system call.

Spinning pays while each end has a core and the answer comes soon. Neither can be known in advance, so it is tried:
after a spin in vain, the next commits sleep at once, twice as many each time, and half as many after a successful one.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Final

from lowtide.sharing.connection import Connection
from lowtide.system.clock import SYSTEM_CLOCK

_LONGEST: Final = 200e-6
"""Seconds for which a thread polls for an answer before it sleeps."""

_MOST_SKIPPED: Final = 255
"""The largest number of commits that sleep at once before spinning is tried again."""


class Spin:
    """Waits for answers to the commits of one process. Any thread. A thread spins only while no other one waits here:
    each look needs the GIL again, which the other threads of a busy process need as well. The counters are hints that
    may lose an update, and so is ``_waiting`` after an interrupt."""

    def __init__(self) -> None:
        self._possible = len(os.sched_getaffinity(0)) > 1
        self._waiting: deque[None] = deque()
        """An entry for each thread that waits; ``deque`` operations are atomic."""
        self._skipping = 0
        self._skipped = 0
        """How many commits sleep at once after a spin that found nothing, and how many of them did."""

    def receive(self, connection: Connection) -> bytes | None:
        """Wait for the next message; None when the other end is closed."""
        waiting = self._waiting
        waiting.append(None)
        try:
            if self._possible and len(waiting) == 1:
                if self._skipped < self._skipping:
                    self._skipped += 1
                elif (message := self._spin(connection)) is not None:
                    return message
            return connection.receive()
        except EOFError:
            return None
        finally:
            waiting.pop()

    def _spin(self, connection: Connection) -> bytes | None:
        """Poll for the next message; None if it does not come soon, or another thread starts to wait."""
        waiting = self._waiting
        until = SYSTEM_CLOCK.monotonic() + _LONGEST
        while SYSTEM_CLOCK.monotonic() < until:
            if (message := connection.receive_now()) is not None:
                self._skipping //= 2
                self._skipped = 0
                return message
            if len(waiting) > 1:
                return None
        self._skipping = min(2 * self._skipping + 1, _MOST_SKIPPED)
        self._skipped = 0
        return None
