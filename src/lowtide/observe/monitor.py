"""The monitor of a store: a thread that checks the live snapshots every few seconds.

It ends those that are older than ``max_snapshot_age``, and reports those that are old (see ``ages``). It holds no
reference to the Store, so a dropped store is closed. In a forked child the thread does not exist.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue

from lowtide.engine.garbage.account import HolderId, Holding
from lowtide.engine.transaction.registration import Entry
from lowtide.engine.transaction.registry import Registry
from lowtide.observe.ages import AgeLimits, SnapshotReporter
from lowtide.options import Options
from lowtide.system.threads import join

logger = logging.getLogger("lowtide")

Hook = Callable[[float], object]
"""Called at each tick with the clock's monotonic time."""


class Monitor:
    """Calls each of ``hooks`` every ``interval`` seconds, in its own thread, until it is closed.

    The interval is real time; the hooks get the time of the store's clock. A hook that raises is logged once, with its
    traceback, and is called again at the next tick. It is logged again when it fails in another way, or after it has
    succeeded.

    ``_endings`` wakes the thread when it is closed. It is a SimpleQueue for the same reason as that of the ``Syncer``:
    an interrupt of ``close`` must not leave a lock taken.
    """

    def __init__(self, interval: float, now: Callable[[], float], hooks: Iterable[Hook]) -> None:
        self._interval = interval
        self._now = now
        self._hooks = list(hooks)
        self._failing: dict[Hook, str] = {}
        self._closed = False
        self._endings: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lowtide-monitor", daemon=True)

    def start(self) -> None:
        """Start the thread. The constructor does not: the caller first makes sure that it will be closed."""
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                self._endings.get(timeout=self._interval)
                return
            except Empty:
                self.tick()

    def tick(self) -> None:
        """Call every hook once. Called by the thread, and by tests."""
        for hook in self._hooks:
            if self._closed:
                return
            try:
                hook(self._now())
            except Exception as error:
                if self._failing.get(hook) != repr(error) and not self._closed:
                    self._failing[hook] = repr(error)
                    logger.exception("the monitor failed; it continues, and does not report the same error again")
            else:
                self._failing.pop(hook, None)

    def close(self) -> None:
        """Stop the thread, and wait for a hook that is running, unless that hook called this."""
        self._closed = True
        self._endings.put(None)
        join(self._thread)


class SnapshotMonitor:
    """The two hooks for snapshots. ``superseded`` counts the superseded versions. ``held`` returns what each snapshot
    alone holds, by token. ``released`` is called with the timestamp of each snapshot that was ended."""

    def __init__(
        self,
        options: Options,
        registry: Registry,
        superseded: Callable[[], int],
        held: Callable[[list[Entry]], Mapping[HolderId, Holding]],
        released: Callable[[int], None],
    ) -> None:
        self._limit = options.max_snapshot_age
        self._registry = registry
        self._superseded = superseded
        self._held = held
        self._released = released
        limits = AgeLimits(options.snapshot_warn_age, options.snapshot_critical_age, options.snapshot_warn_interval)
        self._reporter = SnapshotReporter(limits)

    def expire(self, now: float) -> None:
        """End the snapshots whose objects are gone, and those that are too old. What they held is then collected."""
        self._registry.reap()
        if (limit := self._limit) is None:
            return
        for entry in self._registry.entries():
            age = now - entry.begun
            if age >= limit and self._registry.expire(entry, age, limit):
                logger.warning(
                    "the snapshot of commit %d that was opened at %s was ended at the age of %.0f s: "
                    "max_snapshot_age is %g s",
                    entry.ts,
                    entry.origin,
                    age,
                    limit,
                )
                self._released(entry.ts)

    def report(self, now: float) -> None:
        """Log the reports that are due."""
        entries = self._registry.entries()
        for report in self._reporter.due(now, entries, self._superseded, lambda: self._held(entries)):
            if report.kind == "critical":
                logger.error("%s; close it, or set max_snapshot_age", report)
            else:
                logger.warning("%s", report)
