"""When to collect: a little when a snapshot ends, the rest in the background.

Every commit prunes the chains it touches. What remains to be collected was held by a snapshot that has ended: the
chains in ``held``, and rows of the history. ``released`` is called whenever a snapshot has ended. If the commit lock is
free, it prunes a few chains at once, and otherwise leaves them to the background; it never waits.

A pass over all held chains that finds little is not repeated until as many snapshots have ended as it examined chains,
or until the oldest snapshot ends. So its cost stays proportional, however many short transactions run beside a long
one.

The history is swept by rows. The ledger counts how many of its versions are live and how many are garbage. The garbage
is swept once it outnumbers the live versions by more than ``threshold``. So the history is at most twice what live
snapshots and pins see, plus ``threshold``, and the number of versions that a sweep walks is proportional to the number
it drops. Smaller amounts are swept when the oldest snapshot or a pin ends, or after ``threshold`` snapshots have ended.

Who writes: any thread appends to ``_released`` and ``_kept``; the one running pass drains them, under ``_busy``, and is
the only user of the ledger. Any thread sets ``_everywhere``, ``_chains_wanted``, ``_history_wanted`` and ``_eager``;
the pass takes them. The pass replaces ``_last_seers``; checkpoints add to it. ``_patience`` is a hint that may lose an
update.
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
"""How many checkpoints' counts may wait before the background is woken just for them."""


class Collector:
    """Drops versions that no snapshot sees any more, from chains and from the history.

    ``prune`` drops versions from up to a given number of chains under the commit lock; it returns None if the lock is
    taken and it may not wait. ``sample`` reads the horizon, ``oldest_writer`` the oldest snapshot that may still
    commit.
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
        """A copy of the ledger's, for snapshots that end: one that is not in it left no garbage in the history."""
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
        """Called when a snapshot at ``ts`` has ended; ``oldest`` if no older one is live. Cheap; never waits or
        fails."""
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
        """Called when a pin at ``ts`` has ended. Pins are few, so the history is swept without waiting for more."""
        if self._note(ts):
            self._eager = True
            self._want_history()

    def kept(self, kept: Kept | None) -> None:
        """Called when a checkpoint has added versions to the history; None if it is not known which. Never waits."""
        if kept is None:
            self.look_everywhere()
        elif kept.cells:
            self._kept.append(kept)
            self._hint(kept)
            if len(self._kept) >= _MOST_KEPT:
                self._want_history()

    def look_everywhere(self) -> None:
        """Have the background sweep the whole history, because an unknown holder has ended."""
        self._everywhere = True
        self._want_history()

    def look_at_chains(self) -> None:
        """Have the background prune the chains, because a snapshot that they keep versions for has ended."""
        self._want(True)

    def dropped(self, ts: int) -> None:
        """The same as ``released``, for a destructor or a begin: takes no lock, and leaves everything to the
        background."""
        if self._note(ts):
            self._eager = True
            self._want_history()
        self._want(bool(self._versions.active.held))

    def _note(self, ts: int) -> bool:
        """Record for the next sweep that a snapshot at ``ts`` has ended; true if the history may hold versions for
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
        """Have the background sweep the history. It prunes the chains only if another call requests that."""
        self._history_wanted = True
        self._call()

    def _call(self) -> None:
        if not self.wanted:
            self.wanted = True
            self._wake()

    def collect(self, *, thorough: bool = False) -> int:
        """Make one pass over what may be garbage; return how many versions were dropped. Skipped if a pass is running.
        A ``thorough`` pass is never skipped, and examines everything."""
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
                    return 0  # LMDB may kill a process that walks a damaged table
                dropped = 0 if history and not (chains or thorough) else self._collect_chains()
                dropped += self._collect_history(thorough, history)
            except Error as error:
                self.failures += 1
                logger.warning("sweeping the history failed; nothing is lost, the next sweep will retry: %s", error)
        if self.wanted:  # point: collect.ended
            self._wake()  # a request that arrived meanwhile found this pass running
        return dropped

    @contextlib.contextmanager
    def held_off(self) -> Iterator[None]:
        """Run no sweep until the block ends. Commits still prune their chains."""
        with self._busy:
            yield

    def _collect_chains(self) -> int:
        """Prune every chain that is held now, a slice at a time, so that commits can run in between."""
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
        for kept in self._kept.copy():  # not those added meanwhile: their hints would be replaced
            self._hint(kept)
        bound = self._sample().bound  # read first: a writer that the next line misses draws no smaller timestamp
        oldest = self._oldest_writer()  # point: sweep.writers
        sweep_tombstones(self._base, oldest if oldest is not None else bound, _HISTORY_BUDGET)
        return dropped

    def _count_again(self) -> None:
        self._ledger.count_again()
        self._rest = [EVERYTHING]

    def _decide(self) -> None:
        """Request a sweep if there is enough garbage, or a count of all versions if the ledger missed some."""
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
        elif ledger.unseen > 0 and (eager or living.empty or ledger.unseen > ledger.seen + self._threshold):
            self._rest = stretches(ledger.take_left_by(), living.everywhere.live)

    def _sweep(self, budget: int) -> int:
        """Sweep the remaining stretches, within the budget, and update the ledger."""
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
            # The last seers of versions that ended meanwhile are known. Otherwise the counts were wrong.
            self._everywhere = self._everywhere or not ledger.left_by
            self._want_history()
        return swept.dropped
