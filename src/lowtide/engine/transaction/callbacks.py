"""Commit callbacks: called after publication, in commit order, by one thread at a time.

Who writes: the leader of a commit group queues them under the commit lock. A thread that has just committed runs them
when that lock is free again, unless another thread is running them. So a callback may itself commit.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

logger = logging.getLogger("lowtide")

Callback = Callable[[int], None]
"""Called with the timestamp of the commit."""


class Callbacks:
    """The callbacks that are due, oldest commit first."""

    def __init__(self) -> None:
        self.due: deque[tuple[int, Callback]] = deque()
        self._running = threading.Lock()

    def line_up(self, ts: int, callbacks: Iterable[Callback]) -> None:
        for callback in callbacks:
            self.due.append((ts, callback))

    def run(self) -> None:
        """Run the callbacks that are due. One that raises is logged; the others still run."""
        while self.due and self._run_if_free():
            pass  # callbacks queued after the last check, by a thread that found the lock taken

    def _run_if_free(self) -> bool:
        taken: list[bool] = []
        try:
            # One call into C: no interrupt can come between taking the lock and recording that it is taken.
            taken.extend(map(self._running.acquire, (False,)))
            while taken[0] and self.due:
                ts, callback = self.due.popleft()
                try:
                    callback(ts)
                except Exception:
                    logger.exception("a callback of commit %d failed; the commit itself succeeded", ts)
            return taken[0]
        finally:
            if True in taken:
                self._running.release()
