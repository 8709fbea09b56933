"""Relaxed durability: the log is synced within an interval of the first commit that needs it."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue

from lowtide.engine.log.writer import LogWriter
from lowtide.errors import StoreFailed
from lowtide.system.threads import join


class Syncer:
    """A thread that syncs the log ``interval`` seconds after it became dirty, and sleeps while it is clean.

    The committing leader calls ``tell`` after it wrote, unless ``told`` is set already. The thread clears ``told``
    before the sync begins, so a commit that the sync misses calls ``tell`` again.

    ``_wishes`` has True for a log to sync, and False to end. It is a SimpleQueue, whose ``put`` is one call into C: an
    interrupt of the committing thread comes before it or after it. Inside the ``set`` of an Event it could leave the
    event's lock taken, and every later commit would wait for it.
    """

    def __init__(self, log: LogWriter, interval: float) -> None:
        self._log = log
        self._interval = interval
        self._wishes: SimpleQueue[bool] = SimpleQueue()
        self.told = False
        self._thread = threading.Thread(target=self._run, name="lowtide-sync", daemon=True)

    def start(self) -> None:
        """Start the thread. The constructor does not: the caller first makes sure that it will be closed."""
        self._thread.start()

    def tell(self) -> None:
        """Have the log synced within the interval."""
        self.told = True
        self._wishes.put(True)

    def _run(self) -> None:
        while self._wishes.get() and not self._ends_within_interval():
            self.told = False
            try:
                self._log.sync()
            except StoreFailed:
                return  # the log keeps the error and refuses every further commit with it

    def _ends_within_interval(self) -> bool:
        try:
            return not self._wishes.get(timeout=self._interval)
        except Empty:
            return False

    def close(self) -> None:
        """End the thread. Can be called more than once."""
        self._wishes.put(False)
        join(self._thread)
