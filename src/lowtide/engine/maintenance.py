"""The background thread of a store: checkpoints, collections and spare log segments, one at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from lowtide.system.threads import join

logger = logging.getLogger("lowtide")


class Maintenance:
    """Runs ``work`` in a thread of its own whenever it is woken.

    Any thread may call ``wake``, even under the commit lock and in destructors. It never waits and is reentrant, like
    SimpleQueue. ``_awake`` is a hint that spares most calls the queue. It is cleared before the work begins, so a
    wake-up during the work makes it run again.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._awake = False
        self._wishes: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lowtide-maintenance", daemon=True)

    def start(self) -> None:
        """Start the thread. The constructor does not: the caller first makes sure that it will be closed."""
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
        """Wait for running work, and end the thread."""
        self._wishes.put(False)
        join(self._thread)
