"""Relaxed durability: the log is synced within an interval of the first commit that needs it."""

from __future__ import annotations

import threading

from lowtide.engine.log.writer import LogWriter
from lowtide.errors import StoreFailed
from lowtide.system.threads import join


class Syncer:
    """A thread that syncs the log ``interval`` seconds after it became dirty, and sleeps while it is clean.

    The committing leader calls ``tell`` after it wrote, unless ``told`` is set already. The thread clears ``told``
    before the sync begins, so a commit that the sync misses calls ``tell`` again.
    """

    def __init__(self, log: LogWriter, interval: float) -> None:
        self._log = log
        self._interval = interval
        self._stop = threading.Event()
        self._dirty = threading.Event()
        self.told = False
        self._thread = threading.Thread(target=self._run, name="lowtide-sync", daemon=True)

    def start(self) -> None:
        """Start the thread. The constructor does not: the caller first makes sure that it will be closed."""
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
                return  # the clear may have swallowed the wake-up of close, which sets this first
            try:
                self._log.sync()
            except StoreFailed:
                return  # the log keeps the error and refuses every further commit with it

    def close(self) -> None:
        self._stop.set()
        self._dirty.set()
        join(self._thread)
