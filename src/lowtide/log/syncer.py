"""Relaxed durability: the log is synced within an interval of the first commit that needs it."""

from __future__ import annotations

import threading

from lowtide.errors import StoreFailed
from lowtide.log.writer import LogWriter


class Syncer:
    """A thread that syncs the log ``interval`` seconds after it became dirty, and sleeps while it is not.

    ``dirty`` is set by the committing leader after it wrote, and cleared here before the sync begins: a commit that is
    missed by the sync sets it again.
    """

    def __init__(self, log: LogWriter, interval: float) -> None:
        self._log = log
        self._interval = interval
        self._stop = threading.Event()
        self.dirty = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lowtide-sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self.dirty.wait() and not self._stop.wait(self._interval):
            self.dirty.clear()
            if self._stop.is_set():
                return  # the clear may have swallowed the wake-up of close, which sets this before
            try:
                self._log.sync()
            except StoreFailed:
                return  # the log remembers, and every further commit is refused with the reason

    def close(self) -> None:
        self._stop.set()
        self.dirty.set()
        if (
            threading.current_thread() is not self._thread
        ):  # as it is if the cyclic collector finds a dropped store here
            self._thread.join()
