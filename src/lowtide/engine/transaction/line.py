"""The line: a queue in which retries that failed several times take turns, while other retries give way to them.

Transactions never block each other: the first to commit wins, and the others retry. A long transaction could lose
against short ones forever. So a retry that has failed a few times takes a place in the line, with the keys that its
last attempt wrote and relied on. It gets its turn when no earlier place touches the same keys. During its turn, other
retried transactions whose writes would make it fail wait before they commit. Commits to other keys never wait, and
neither do transactions that are not retried: those of ``store.begin`` and ``store.transaction``.

Nothing waits forever. A turn has a time limit, so a holder that hangs, sleeps or dies is skipped. A thread that has a
place never waits for another turn, so there are no deadlocks; a retry inside a retry is such a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, KeysView, Set
from threading import get_ident

from lowtide.engine.transaction.read_set import RangeSet
from lowtide.system.clock import Clock, SystemClock

_LOOK_AGAIN = 0.05
"""Seconds after which a waiter looks again, in case a place was left without a notification."""


class Footprint:
    """The full keys that a transaction wrote and relied on. Immutable."""

    __slots__ = ("_ranges", "_read", "writes")

    def __init__(self, writes: KeysView[bytes], read: Collection[Set[bytes]], ranges: RangeSet) -> None:
        self.writes = writes
        self._read = read
        self._ranges = ranges

    @property
    def parts(self) -> tuple[list[bytes], list[bytes], list[tuple[bytes, bytes | None]]]:
        """The written keys, and the keys and ranges relied on, in a form to send to another process."""
        read = [key for keys in self._read for key in keys]
        return list(self.writes), read, [(each.low, each.high) for each in self._ranges.ranges]

    def disturbed_by(self, writes: KeysView[bytes]) -> bool:
        """Whether a commit of these keys makes the transaction fail if it repeats the same reads and writes."""
        return (
            not self.writes.isdisjoint(writes)
            or any(not writes.isdisjoint(keys) for keys in self._read)
            or self._ranges.find(writes) is not None
        )

    def meets(self, other: Footprint) -> bool:
        """Whether a commit of either transaction makes the other fail."""
        return self.disturbed_by(other.writes) or other.disturbed_by(self.writes)


class Place:
    """A place in the line. Its thread writes ``footprint``. ``until`` is the end of its turn, None before the turn
    begins; it is written under the lock of the line. ``left`` is set when the place has left or was skipped."""

    __slots__ = ("footprint", "left", "seconds", "thread", "until")

    def __init__(self, footprint: Footprint, seconds: float) -> None:
        self.footprint = footprint
        self.seconds = seconds
        self.thread = get_ident()
        self.until: float | None = None
        self.left = threading.Event()


class Line:
    """The places, in the order in which they were taken. ``places`` is replaced under the lock, and read without it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.places: tuple[Place, ...] = ()
        self.notify: Callable[[int], None] = _ignore
        """Called with the number of places when it changes, for the retries of other processes."""
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether a retry may have to give way to a place."""
        return bool(self.places)

    def holds(self, place: Place) -> bool:
        """Whether a place is still in the line: neither left nor skipped."""
        return not place.left.is_set()

    def has_place(self) -> bool:
        """Whether this thread has a place."""
        here = get_ident()
        return any(place.thread == here for place in self.places)

    def enter(self, place: Place) -> None:
        """Take a place at the end."""
        with self._lock:
            self.places = (*self.places, place)
            self.notify(len(self.places))

    def leave(self, place: Place) -> None:
        """Give up the place. A second call does nothing."""
        with self._lock:
            self._remove(place)

    def _remove(self, place: Place) -> None:
        self.places = tuple(each for each in self.places if each is not place)
        self.notify(len(self.places))
        place.left.set()

    def wait(self, place: Place, deadline: float) -> None:
        """Wait until it is this place's turn, until it is skipped, or until the time ``deadline``."""
        while (now := self.clock.monotonic()) < deadline and not place.left.is_set():
            with self._lock:
                before = self._before(place, now)
                if before is None:
                    return
            before.left.wait(min(_LOOK_AGAIN, deadline - now))

    def _before(self, place: Place, now: float) -> Place | None:
        """The first earlier place that touches the same keys. If there is none, the turn begins. Skips places whose
        time is up, and begins the turn of a place whose thread has not noticed yet."""
        for each in self.places:
            if each is place:
                break
            if each.footprint.meets(place.footprint) and not self._passed_over(each, now):
                if each.until is None:
                    self._before(each, now)
                return each
        if place.until is None:
            place.until = now + place.seconds
        return None

    def _passed_over(self, place: Place, now: float) -> bool:
        if place.until is None or place.until > now:
            return False
        self._remove(place)
        return True

    def give_way(self, writes: KeysView[bytes], deadline: float) -> bool:
        """Wait until the time ``deadline`` for turns that a commit of these keys would make fail. Returns whether it
        had to wait."""
        waited = False
        while self.places and not self.has_place() and (now := self.clock.monotonic()) < deadline:
            with self._lock:
                turns = [
                    place for place in self.places if place.until is not None and not self._passed_over(place, now)
                ]
            holder = next((place for place in turns if place.footprint.disturbed_by(writes)), None)
            if holder is None:
                break
            waited = True
            holder.left.wait(min(_LOOK_AGAIN, deadline - now))
        return waited


def _ignore(places: int) -> None:
    """Do nothing: for a line that no other process observes."""
