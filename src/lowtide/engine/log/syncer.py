"""Relaxed durability: the log is synced within an interval of the first commit that needs it."""

from __future__ import annotations

import threading

from lowtide.engine.log.writer import LogWriter
from lowtide.errors import StoreFailed


class Syncer:
    """A thread that syncs the log ``interval`` seconds after it became dirty, and sleeps while it is not.

    ``tell`` is called by the committing leader after it wrote, unless ``told`` says that this thread knows; that is
    cleared here before the sync begins, so a commit that is missed by the sync tells again.
    """

    def __init__(self, log: LogWriter, interval: float) -> None:
        self._log = log
        self._interval = interval
        self._stop = threading.Event()
        self._dirty = threading.Event()
        self.told = False
        self._thread = threading.Thread(target=self._run, name="lowtide-sync", daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """Have the log synced within the interval."""
        self.told = True
        self._dirty.set()

    def _run(self) -> None:
        while self._dirty.wait() and not self._stop.wait(self._interval):
            self._dirty.clear()
            self.told = False
            if self._stop.is_set():
                return  # the clear may have swallowed the wake-up of close, which sets this before
            try:
                self._log.sync()
            except StoreFailed:
                return  # the log remembers, and every further commit is refused with the reason

    def close(self) -> None:
        self._stop.set()
        self._dirty.set()
        if (
            threading.current_thread() is not self._thread
        ):  # as it is if the cyclic collector finds a dropped store here
            self._thread.join()
