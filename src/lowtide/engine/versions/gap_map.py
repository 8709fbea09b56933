"""The gaps of a store: what scans have noted, and what puts cut out again. See ``gaps`` for what a gap says.

A scan that comes through many deleted keys *watches* while it does, and notes the range that it came through as a gap
since its snapshot. The order of the steps is the argument that no gap hides a put:

    scan:     watch; take the layers and look at keys, chains and base; note; end the watch
    publish:  put the versions on their chains; look for watches, then for gaps; make the timestamp visible

A scan notes only keys whose newest version, as it saw it, is a tombstone at or before its snapshot, and only if the
snapshot is not below the boundary: then every later commit is in the layers that it took. A put after the snapshot into
the range is therefore one that the scan did not see on its chain. It was put there after the scan began to watch, so
its publisher, which looks for watches after that, finds the watch, or, if that has ended, the gap. It tells every watch
its keys and cuts them out of the gaps before its timestamp is visible; a scan at or after that timestamp takes the gaps
later, and does not find one that has the key.

No thread waits. ``_lock`` is only ever tried: by a scan that notes, which gives up if it is taken, and by the
publisher, which forgets all gaps then. What the scan that has the lock still notes goes into the table that was
forgotten: it took that before it looked at what publishers told it. If it took the new table instead, it was told
before, and leaves out the keys itself. Forgetting is one assignment, right at any time and by any thread.

Who writes: an entry of ``of``, under ``_lock``, a scan that notes or the one publisher; ``of`` itself, the publisher,
the checkpoint that drops a layer, and who closes the store. Readers take ``of`` and the tuple of a keyspace without a
lock.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from itertools import pairwise

from lowtide.engine.types import KEYSPACE_PREFIX, Range, Writes, after_prefix
from lowtide.engine.versions.gaps import MOST_KEYS, Gap, Gaps, bounded, covers, noted, past, without

MOST_GAPS = 256
"""Gaps that are kept of one keyspace."""
MOST_KEYSPACES = 1024
"""Keyspaces of which gaps are kept."""
MOST_PUTS = 1000
"""A watch that was told of more puts notes nothing."""


class ScanWatch:
    """What publishers tell a scan that is about to note a gap. ``puts`` grows at the publisher's hand."""

    __slots__ = ("lost", "puts")

    def __init__(self) -> None:
        self.puts: list[bytes] = []
        self.lost = False
        """Whether there were too many puts to tell."""


class GapMap:
    """The gaps by keyspace; see the module for who may do what."""

    __slots__ = ("_closed", "_lock", "_watches", "of")

    def __init__(self) -> None:
        self.of: dict[bytes, Gaps] = {}
        """The gaps of each keyspace, by its prefix; empty in the usual case."""
        self._lock = threading.Lock()
        self._watches: list[ScanWatch] = []
        self._closed = False

    def past(self, wanted: Range, ts: int) -> Range | None:
        """What is left of a range without the gaps at its beginning; see ``gaps.past``."""
        gaps = self.of.get(wanted.low[:KEYSPACE_PREFIX])
        return wanted if gaps is None else past(gaps, wanted, ts)

    def watch(self) -> ScanWatch:
        """Be told of puts from now on."""
        watch = ScanWatch()
        self._watches.append(watch)
        return watch

    def unwatch(self, watch: ScanWatch) -> None:
        """Be told no more. Harmless when repeated."""
        with contextlib.suppress(ValueError):
            self._watches.remove(watch)

    def note(self, watch: ScanWatch, dead: Range, since: int, live: Callable[[], list[int]]) -> None:
        """Note that nothing in ``dead`` is visible from ``since`` on, but for what the watch was told of. ``live`` says
        which snapshots live: a hint, see ``gaps.noted``."""
        low, high = dead.low, dead.high
        end = after_prefix(low[:KEYSPACE_PREFIX])
        if high is None or low >= high or len(low) < KEYSPACE_PREFIX or (end is not None and high > end):
            return
        self._try(lambda: self._note(watch, Gap(low, high, since), live))

    def _note(self, watch: ScanWatch, gap: Gap, live: Callable[[], list[int]]) -> None:
        of = self.of  # before reading what the watch was told, see the module
        prefix = gap.low[:KEYSPACE_PREFIX]
        gaps = noted(of.get(prefix, ()), gap, lambda low, high: any(low <= ts < high for ts in live()))
        gaps = bounded(without(gaps, watch.puts[:]), MOST_GAPS)  # point: gaps.note
        if watch.lost or self._closed:
            return
        if prefix not in of and len(of) >= MOST_KEYSPACES:
            del of[next(iter(of))]
        of[prefix] = gaps  # point: gaps.noted

    def put(self, writes: Writes) -> None:
        """Cut the keys that a commit puts out of the gaps, and tell those who watch. By the publisher, when the chains
        have the writes and before a reader may see them. May be repeated."""
        # Watches first: one that ended in between has noted its gap before, and that is found then.
        watches, of = self._watches[:], self.of
        if not watches and not of:
            return
        keys = [key for key, value in writes.items() if value is not None]
        if not keys or (not watches and not _any_inside(of, keys)):
            return
        for watch in watches:
            if len(watch.puts) + len(keys) > MOST_PUTS:
                watch.lost = True
                self.unwatch(watch)
            else:
                watch.puts += keys
        # Also if there is no gap yet: who holds the lock may be about to note one, and have looked before it was told.
        if not self._try(lambda: self._cut(keys)):  # point: gaps.cut
            self.of = {}

    def _cut(self, keys: list[bytes]) -> None:
        of = self.of
        by_prefix: dict[bytes, list[bytes]] = {}
        for key in keys:
            if (prefix := key[:KEYSPACE_PREFIX]) in of:
                by_prefix.setdefault(prefix, []).append(key)
        for prefix, inside in by_prefix.items():
            if gaps := without(of[prefix], inside):
                of[prefix] = gaps
            else:
                del of[prefix]

    def forget(self) -> None:
        """Forget all gaps."""
        self.of = {}

    def close(self) -> None:
        """Note nothing any more: a scan of a store that is closed is to fail, not to find nothing."""
        self._closed = True  # first, see ``_note``
        self.of = {}

    def _try(self, work: Callable[[], None]) -> bool:
        """Do ``work`` under the lock, unless it is taken."""
        taken: list[bool] = []
        try:
            # One call into C: no interrupt comes between taking the lock and noting that it was taken.
            taken.extend(map(self._lock.acquire, (False,)))
            if taken[0]:
                work()
            return taken[0]
        finally:
            if True in taken:
                self._lock.release()

    def check(self) -> None:
        """Assert what must hold of the gaps at rest; for tests."""
        for prefix, gaps in self.of.items():
            assert 0 < len(gaps) <= MOST_GAPS, gaps
            assert all(each.low < each.high and each.low[:KEYSPACE_PREFIX] == prefix for each in gaps), gaps
            assert all(one.high <= other.low for one, other in pairwise(gaps)), gaps


def _any_inside(of: dict[bytes, Gaps], keys: list[bytes]) -> bool:
    """Whether a gap may have one of the keys."""
    if len(keys) > MOST_KEYS:
        return True
    return any((gaps := of.get(key[:KEYSPACE_PREFIX])) is not None and covers(gaps, key) for key in keys)
