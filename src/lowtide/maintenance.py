"""The background thread of a store: checkpoints, collections and spare log segments, one at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("lowtide")


class Maintenance:
    """Runs ``work`` whenever it is woken. Started when first woken, so that a small store has no thread.

    ``wake`` is called by any thread, often under the commit lock, and never waits: ``_awake`` is an Event, and a
    wake-up that comes while ``work`` runs makes it run once more.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._awake = threading.Event()
        self._stopping = False
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        if not self._awake.is_set():
            self._awake.set()
        if self._thread is None and self._starting.acquire(blocking=False):
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="lowtide-maintenance", daemon=True)
                self._thread.start()
            self._starting.release()

    def _run(self) -> None:
        while self._awake.wait() and not self._stopping:
            self._awake.clear()
            try:
                self._work()
            except Exception:
                logger.exception("background work failed; it will be tried again")

    def close(self) -> None:
        """Let running work finish, and end the thread."""
        with self._starting:
            self._stopping = True
            self._awake.set()
        if self._thread is not None:
            self._thread.join()
