"""When to collect: a little at the end of what may have left garbage, the rest in the background.

Chains are pruned by every commit that touches them. What is left to collect is what a snapshot held and then gave up:
the chains in ``held``, and rows of the history. ``released`` is called whenever a snapshot has ended. It prunes a few
chains on the spot if the commit lock is free, and otherwise leaves them to the background; it never waits.

A pass over all held chains that finds little is not repeated before as many snapshots have ended as it looked at
chains, unless the oldest one ends: so its cost stays in proportion, however many short transactions run beside a long
one.

Who writes: ``_released`` is appended to by anyone and drained by the one sweep that runs, under ``_busy``;
``_everywhere`` is set by anyone and taken by it; ``_patience`` is a hint that may lose an update.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator

from lowtide.base.environment import Base
from lowtide.errors import Error
from lowtide.garbage.horizon import Exact
from lowtide.garbage.living import with_pins
from lowtide.garbage.sweep import EVERYTHING, Stretch, stretches, sweep_history, sweep_tombstones
from lowtide.versions.layers import VersionStore

logger = logging.getLogger("lowtide")

_AT_ONCE = 32
_SLICE = 512
_HISTORY_BUDGET = 20_000


class Collector:
    """Drops versions that no snapshot sees any more, from chains and from the history.

    ``prune`` drops from up to so many chains under the commit lock, waiting for it or not, and returns None if it was
    not to be had; ``sample`` reads the horizon; ``oldest_writer`` the oldest snapshot that may still commit.
    """

    def __init__(
        self,
        versions: VersionStore,
        base: Base,
        threshold: int,
        prune: Callable[[int, bool], int | None],
        sample: Callable[[], Exact],
        oldest_writer: Callable[[], int | None],
        wake: Callable[[], None],
    ) -> None:
        self._versions = versions
        self._base = base
        self._threshold = threshold
        self._prune = prune
        self._sample = sample
        self._oldest_writer = oldest_writer
        self._wake = wake
        self._released: deque[int] = deque()
        self._rest: list[Stretch] = []
        self._everywhere = False
        self._busy = threading.Lock()
        self._patience = 0
        self.wanted = False
        """Whether the background has something to do."""
        self.swept = 0
        self.failures = 0

    def released(self, ts: int, published: int, oldest: bool) -> None:
        """A snapshot at ``ts`` has ended; ``oldest`` if no older one lives. Cheap, never waits, never fails."""
        if self._note(ts):
            self._want(len(self._released) >= self._threshold or oldest)
        held = len(self._versions.active.held)
        if held == 0 or ts >= published:
            return
        pruned = self._prune(_AT_ONCE, False)
        if held <= _AT_ONCE:
            self._want(pruned is None)
            return
        self._patience -= 1
        superseded = self._versions.active.versions - len(self._versions.active.chains)
        self._want(superseded >= self._threshold and (oldest or self._patience <= 0))

    def unpinned(self, ts: int) -> None:
        """A pin at ``ts`` has ended: pins are few, so the history is looked at without waiting for more."""
        self._want(self._note(ts))

    def look_everywhere(self) -> None:
        """Have the background look at the whole history: somebody ended of whom nothing is known."""
        self._everywhere = True
        self._want(True)

    def look_at_chains(self) -> None:
        """Have the background look at the chains: one for which they keep something has ended."""
        self._want(True)

    def dropped(self, ts: int) -> None:
        """As ``released``, in a destructor or a begin: it takes no lock and leaves everything to the background."""
        self._want(self._note(ts) or bool(self._versions.active.held))

    def _note(self, ts: int) -> bool:
        """Note for the next sweep that a snapshot at ``ts`` has ended; true if the history may hold something for
        it."""
        if ts >= self._base.history_below:
            return False
        self._released.append(ts)
        return True

    def _want(self, wanted: bool) -> None:
        if wanted and not self.wanted:
            self.wanted = True
            self._wake()

    def collect(self, *, thorough: bool = False) -> int:
        """One pass over what may be garbage; returns how many versions went. Skipped if one is running, unless it
        shall be ``thorough``, which looks at everything."""
        if not thorough and self._busy.locked():
            return 0
        dropped = 0
        with self._busy:
            self.wanted = False  # point: collect.begun
            try:
                dropped = self._collect_chains() + self._collect_history(thorough)
            except Error as error:
                self.failures += 1
                logger.warning("sweeping the history failed, nothing is lost, the next sweep tries again: %s", error)
        if self.wanted:  # point: collect.ended
            self._wake()  # a wish that came meanwhile found this one running
        return dropped

    @contextlib.contextmanager
    def held_off(self) -> Iterator[None]:
        """No sweep runs meanwhile. Commits prune their chains as always."""
        with self._busy:
            yield

    def _collect_chains(self) -> int:
        """Prune every chain that is held now, a slice at a time, so that commits come in between."""
        looked_at = remaining = len(self._versions.active.held)
        dropped = 0
        while remaining > 0:
            dropped += self._prune(min(_SLICE, remaining), True) or 0
            remaining -= _SLICE
        self._patience = looked_at if dropped * 4 < looked_at else 0
        return dropped

    def _live_everywhere(self) -> tuple[int, ...]:
        """The timestamps that are live in all keyspaces: between two of them lies what the end of one leaves."""
        rows = self._base.read(self._base.pins.all)
        return with_pins(self._sample(), (row for _, row in rows)).everywhere.live

    def _collect_history(self, thorough: bool) -> int:
        released = [self._released.popleft() for _ in range(len(self._released))]  # point: collect.history
        everywhere, self._everywhere = self._everywhere or thorough, False
        self._rest = [EVERYTHING] if everywhere else self._rest + stretches(released, self._live_everywhere())
        swept = sweep_history(self._base, self._sample, self._rest, 1 << 62 if thorough else _HISTORY_BUDGET)
        self._rest = swept.rest
        if swept.rest:
            self._want(True)
        bound = self._sample().bound  # before the question: a writer that the answer misses draws no less
        oldest = self._oldest_writer()  # point: sweep.writers
        sweep_tombstones(self._base, oldest if oldest is not None else bound, _HISTORY_BUDGET)
        self.swept += swept.dropped
        return swept.dropped
