"""When to collect: a little at the end of what may have left garbage, the rest in the background.

Chains are pruned by every commit that touches them. What is left to collect is what a snapshot held and then gave up:
the chains in ``held``, and rows of the history. ``released`` is called whenever a snapshot has ended. It prunes a few
chains on the spot if the commit lock is free, and otherwise leaves them to the background; it never waits.

A pass over all held chains that finds little is not repeated before as many snapshots have ended as it looked at
chains, unless the oldest one ends: so its cost stays in proportion, however many short transactions run beside a long
one.

The history is swept by rows. The ledger knows how many of its versions are seen and how many are garbage; as soon as
the garbage outnumbers what is seen by more than ``threshold``, it goes. So the history is at most twice what live
snapshots and pins see, plus ``threshold``, and the versions that a sweep walks are in proportion to those it drops.
Less than that goes when the oldest snapshot ends, or a pin, or ``threshold`` snapshots have.

Who writes: ``_released`` and ``_kept`` are appended to by anyone and drained by the one pass that runs, under
``_busy``, which alone uses the ledger; ``_everywhere``, ``_chains_wanted``, ``_history_wanted`` and ``_eager`` are set
by anyone and taken by it; ``_last_seers`` is replaced by it and added to by checkpoints; ``_patience`` is a hint that
may lose an update.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator

from lowtide.engine.base.environment import Base
from lowtide.engine.base.types import Txn
from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.garbage.ledger import Kept, Ledger
from lowtide.engine.garbage.living import Living, with_pins
from lowtide.engine.garbage.sweep import EVERYTHING, Stretch, stretches, sweep_history, sweep_tombstones
from lowtide.engine.versions.layers import VersionStore
from lowtide.errors import Error

logger = logging.getLogger("lowtide")

_AT_ONCE = 32
_SLICE = 512
_HISTORY_BUDGET = 20_000

_MOST_KEPT = 64
"""Checkpoints whose counts wait for the background before it is woken for them alone."""


class Collector:
    """Drops versions that no snapshot sees any more, from chains and from the history.

    ``prune`` drops from up to so many chains under the commit lock, waiting for it or not, and returns None if it was
    not to be had; ``sample`` reads the horizon; ``oldest_writer`` the oldest snapshot that may still commit.
    """

    def __init__(
        self,
        *,
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
        self._kept: deque[Kept] = deque()
        self._ledger = Ledger()
        self._last_seers: dict[int, int] = {}
        """The ledger's, for those who end: one that is not here left no garbage in the history."""
        self._rest: list[Stretch] = []
        self._everywhere = False
        self._eager = False
        self._chains_wanted = False
        self._history_wanted = False
        self._busy = threading.Lock()
        self._patience = 0
        self.wanted = False
        """Whether the background has something to do."""
        self.swept = 0
        self.failures = 0

    def released(self, ts: int, published: int, oldest: bool) -> None:
        """A snapshot at ``ts`` has ended; ``oldest`` if no older one lives. Cheap, never waits, never fails."""
        if self._note(ts):
            if len(self._released) >= self._threshold or oldest:
                self._eager = True
                self._want_history()
            elif ts in self._last_seers:
                self._want_history()
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
        if self._note(ts):
            self._eager = True
            self._want_history()

    def kept(self, kept: Kept | None) -> None:
        """A checkpoint has added versions to the history; None if it is not known which. Never waits."""
        if kept is None:
            self.look_everywhere()
        elif kept.cells:
            self._kept.append(kept)
            self._hint(kept)
            if len(self._kept) >= _MOST_KEPT:
                self._want_history()

    def look_everywhere(self) -> None:
        """Have the background sweep the whole history: a holder has ended of which nothing is known."""
        self._everywhere = True
        self._want_history()

    def look_at_chains(self) -> None:
        """Have the background prune the chains: a snapshot has ended for which they keep something."""
        self._want(True)

    def dropped(self, ts: int) -> None:
        """As ``released``, in a destructor or a begin: it takes no lock and leaves everything to the background."""
        if self._note(ts):
            self._eager = True
            self._want_history()
        self._want(bool(self._versions.active.held))

    def _note(self, ts: int) -> bool:
        """Note for the next sweep that a snapshot at ``ts`` has ended; true if the history may hold something for
        it."""
        if ts >= self._base.history_below:
            return False
        self._released.append(ts)
        return True

    def _hint(self, kept: Kept) -> None:
        for _, _, last in kept.cells:
            self._last_seers[last] = 1

    def _want(self, wanted: bool) -> None:
        """Have the background collect chains and history."""
        if wanted:
            self._chains_wanted = True
            self._call()

    def _want_history(self) -> None:
        """Have the background sweep the history, and the chains only if another request wants that."""
        self._history_wanted = True
        self._call()

    def _call(self) -> None:
        if not self.wanted:
            self.wanted = True
            self._wake()

    def collect(self, *, thorough: bool = False) -> int:
        """Make one pass over what may be garbage; returns how many versions were dropped. Skipped if one is running,
        unless it is ``thorough``, which examines everything."""
        if not thorough and self._busy.locked():
            return 0
        dropped = 0
        with self._busy:
            self.wanted = False  # point: collect.begun
            chains, history = self._chains_wanted, self._history_wanted
            self._chains_wanted = self._history_wanted = False
            try:
                if not thorough:
                    self._base.examine_once()
                if self._base.soundness.damage is not None:
                    return 0  # LMDB may end the process that walks a damaged table
                dropped = 0 if history and not (chains or thorough) else self._collect_chains()
                dropped += self._collect_history(thorough, history)
            except Error as error:
                self.failures += 1
                logger.warning("sweeping the history failed, nothing is lost, the next sweep tries again: %s", error)
        if self.wanted:  # point: collect.ended
            self._wake()  # a request that came meanwhile found this one running
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

    def _collect_history(self, thorough: bool, wanted: bool) -> int:
        ended = [self._released.popleft() for _ in range(len(self._released))]  # point: collect.history
        everywhere, self._everywhere = self._everywhere or thorough, False
        while self._kept:
            self._ledger.add(self._kept.popleft())
        if everywhere:
            self._count_again()
        elif not self._rest and (wanted or ended):
            self._decide()
        dropped = self._sweep(1 << 62 if thorough else _HISTORY_BUDGET)
        self._last_seers = self._ledger.last_seers
        for kept in self._kept.copy():  # those that came since would find their hints replaced
            self._hint(kept)
        bound = self._sample().bound  # before the question: a writer that the answer misses draws no less
        oldest = self._oldest_writer()  # point: sweep.writers
        sweep_tombstones(self._base, oldest if oldest is not None else bound, _HISTORY_BUDGET)
        return dropped

    def _count_again(self) -> None:
        self._ledger.count_again()
        self._rest = [EVERYTHING]

    def _decide(self) -> None:
        """Have the garbage swept if there is enough of it; have all versions counted if the ledger missed some."""
        ledger = self._ledger
        eager, self._eager = self._eager, False

        def look(txn: Txn) -> tuple[Living, int]:
            return with_pins(self._sample(), (row for _, row in self._base.pins.all(txn))), self._base.history.count(
                txn
            )

        living, count = self._base.read(look)
        ledger.settle(living)
        if ledger.total != count:
            self._count_again()
        elif ledger.unseen > 0 and (eager or living.nobody or ledger.unseen > ledger.seen + self._threshold):
            self._rest = stretches(ledger.take_left_by(), living.everywhere.live)

    def _sweep(self, budget: int) -> int:
        """Sweep what is left of the stretches, as far as the budget goes, and account for it."""
        ledger = self._ledger
        if not self._rest:
            return 0
        swept = sweep_history(self._base, self._sample, self._rest, budget, ledger)
        self._rest = swept.rest
        self.swept += swept.dropped
        if swept.emptied:
            ledger.count_again()
        elif ledger.counting:
            ledger.counted(swept.left)
        else:
            ledger.swept(swept.dropped)
        if self._rest:
            self._want_history()
        elif ledger.counting:
            ledger.all_counted(swept.boundary)
        if not self._rest and ledger.unseen > 0:
            # Of what ended meanwhile the last seers are known. If they are not, the counts were wrong.
            self._everywhere = self._everywhere or not ledger.left_by
            self._want_history()
        return swept.dropped
