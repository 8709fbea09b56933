"""The gaps of a store: scans record them, puts cut them. See ``gaps`` for what a gap means.

A scan that passes many deleted keys *watches* for puts meanwhile, and then notes the range that it passed as a gap
since its snapshot. The order of the steps guarantees that no gap hides a put:

    scan:     watch; take the layers and read keys, chains and base; note; end the watch
    publish:  put the versions on their chains; look for watches, then for gaps; make the timestamp visible

A scan notes only keys whose newest version, as it saw it, is a tombstone at or before its snapshot, and only if the
snapshot is not below the boundary: then every later commit is in the layers that it took. So if a put into the range
was committed after the snapshot, the scan did not see it on its chain: the put reached its chain after the scan began
to watch. Its publisher looks for watches after that, so it finds the watch or, if the watch has ended, the gap. It
passes its keys to every watch and cuts them out of the gaps before its timestamp is visible. A scan at or after that
timestamp takes the gaps later, and finds none that contains the key.

No thread ever waits for ``_lock``. If it is taken, a scan gives up noting, and a publisher forgets all gaps. A scan
takes the table before it reads the keys that publishers passed to its watch. So a scan that holds the lock at that
moment either notes into the forgotten table, or takes the new one. In the second case its watch already has the
publisher's keys, and the scan leaves them out itself. Forgetting is one assignment; any thread may do it at any time.

Who writes: an entry of ``of`` is written under ``_lock``, by a scan that notes or by the one publisher. ``of`` itself
is replaced by the publisher, by the checkpoint that drops a layer, and by the thread that closes the store. Readers
take ``of`` and the tuple of a keyspace without a lock.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from itertools import pairwise

from lowtide.engine.types import KEYSPACE_PREFIX, Range, Writes, after_prefix
from lowtide.engine.versions.gaps import MOST_KEYS, Gap, Gaps, bounded, covers, noted, past, without

MOST_GAPS = 256
"""The largest number of gaps of one keyspace."""
MOST_KEYSPACES = 1024
"""The largest number of keyspaces with gaps."""
MOST_PUTS = 1000
"""The largest number of puts that a watch records; with more, its scan notes nothing."""


class ScanWatch:
    """What publishers report to a scan that is about to note a gap. Only the publisher adds to ``puts``."""

    __slots__ = ("lost", "puts")

    def __init__(self) -> None:
        self.puts: list[bytes] = []
        self.lost = False
        """Whether there were too many puts to record."""


class GapMap:
    """The gaps by keyspace; see the module for who may do what."""

    __slots__ = ("_closed", "_lock", "of", "watches")

    def __init__(self) -> None:
        self.of: dict[bytes, Gaps] = {}
        """The gaps of each keyspace, by its prefix; empty in the usual case."""
        self._lock = threading.Lock()
        self.watches: list[ScanWatch] = []
        """The scans that are about to note a gap; empty in the usual case."""
        self._closed = False

    def past(self, wanted: Range, ts: int) -> Range | None:
        """A range without the gaps at its beginning; see ``gaps.past``."""
        gaps = self.of.get(wanted.low[:KEYSPACE_PREFIX])
        return wanted if gaps is None else past(gaps, wanted, ts)

    def watch(self) -> ScanWatch:
        """Start to record puts."""
        watch = ScanWatch()
        self.watches.append(watch)
        return watch

    def unwatch(self, watch: ScanWatch) -> None:
        """Stop recording puts. A second call does nothing."""
        with contextlib.suppress(ValueError):
            self.watches.remove(watch)

    def note(self, watch: ScanWatch, dead: Range, since: int, live: Callable[[], list[int]]) -> None:
        """Note that nothing in ``dead`` is visible from ``since`` on, except the puts that the watch recorded. ``live``
        returns the live snapshots, as a hint: see ``gaps.noted``."""
        low, high = dead.low, dead.high
        end = after_prefix(low[:KEYSPACE_PREFIX])
        if high is None or low >= high or len(low) < KEYSPACE_PREFIX or (end is not None and high > end):
            return
        self._try(lambda: self._note(watch, Gap(low, high, since), live))

    def _note(self, watch: ScanWatch, gap: Gap, live: Callable[[], list[int]]) -> None:
        of = self.of  # before reading what the watch recorded, see the module
        prefix = gap.low[:KEYSPACE_PREFIX]
        gaps = noted(of.get(prefix, ()), gap, lambda low, high: any(low <= ts < high for ts in live()))
        gaps = bounded(without(gaps, watch.puts[:]), MOST_GAPS)  # point: gaps.note
        if watch.lost or self._closed:
            return
        if prefix not in of and len(of) >= MOST_KEYSPACES:
            del of[next(iter(of))]
        of[prefix] = gaps  # point: gaps.noted

    def put(self, writes: Writes) -> None:
        """Cut the keys that a commit puts out of the gaps, and report them to the watches. The publisher calls this
        when the chains have the writes, before a reader may see them. It may be repeated."""
        # Watches first: one that ended in between has noted its gap already, and that is found next.
        watches, of = self.watches[:], self.of
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
        # Even if there is no gap yet: a scan that holds the lock may have read its watch, and be about to note one.
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
        """Refuse further notes: a scan of a closed store must fail, not find nothing."""
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
        """Assert the invariants of the gaps at rest; for tests."""
        for prefix, gaps in self.of.items():
            assert 0 < len(gaps) <= MOST_GAPS, gaps
            assert all(each.low < each.high and each.low[:KEYSPACE_PREFIX] == prefix for each in gaps), gaps
            assert all(one.high <= other.low for one, other in pairwise(gaps)), gaps


def _any_inside(of: dict[bytes, Gaps], keys: list[bytes]) -> bool:
    """Whether a gap may contain one of the keys."""
    if len(keys) > MOST_KEYS:
        return True
    return any((gaps := of.get(key[:KEYSPACE_PREFIX])) is not None and covers(gaps, key) for key in keys)
