"""The background thread of a store: checkpoints, collections and spare log segments, one at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

logger = logging.getLogger("lowtide")


class Maintenance:
    """Runs ``work`` in a thread of its own whenever it is woken.

    ``wake`` is called by any thread, under the commit lock and in destructors too. It never waits and may interrupt
    itself: a SimpleQueue is made for that. ``_awake`` is a hint that spares most calls the queue; it is cleared
    before the work begins, so a wake-up that comes while it runs makes it run again.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._awake = False
        self._wishes: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lowtide-maintenance", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        if not self._awake:
            self._awake = True
            self._wishes.put(True)

    def _run(self) -> None:
        while self._wishes.get():
            self._awake = False
            try:
                self._work()
            except Exception:
                logger.exception("background work failed; it will be retried")

    def close(self) -> None:
        """Let running work finish, and end the thread."""
        self._wishes.put(False)
        if (
            threading.current_thread() is not self._thread
        ):  # as it is if the cyclic collector finds a dropped store here
            self._thread.join()
