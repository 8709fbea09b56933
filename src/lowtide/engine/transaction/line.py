"""The line: retries that have failed often go first, one after another, and others give way to them.

Transactions never block each other: the first to commit wins, and the others retry. A long transaction could lose
against short ones for ever. So a retry that has failed a few times takes a place in the line, with what its last
attempt wrote and relied on. It has its turn when no earlier place touches the same keys. During its turn other retried
transactions whose writes would make it fail wait before they commit. Commits to other keys are never held up, and
neither are transactions that are not retried: those of ``store.begin`` and ``store.transaction``.

Nothing waits for ever. A turn has a time of its own, so a holder that hangs, sleeps or dies is passed over. A thread
that has a place never waits for another turn, so there are no circles; a retry inside a retry is such a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, KeysView, Set
from threading import get_ident

from lowtide.engine.transaction.read_set import RangeSet
from lowtide.system.clock import Clock, SystemClock

_LOOK_AGAIN = 0.05
"""Seconds after which a waiter looks again, in case that a place was left without a word."""


class Footprint:
    """What a transaction wrote and relied on; keys are full keys. Immutable."""

    __slots__ = ("_ranges", "_read", "writes")

    def __init__(self, writes: KeysView[bytes], read: Collection[Set[bytes]], ranges: RangeSet) -> None:
        self.writes = writes
        self._read = read
        self._ranges = ranges

    def disturbed_by(self, writes: KeysView[bytes]) -> bool:
        """Whether a commit of these keys makes the transaction fail, if it does the same again."""
        return (
            not self.writes.isdisjoint(writes)
            or any(not writes.isdisjoint(keys) for keys in self._read)
            or self._ranges.find(writes) is not None
        )

    def meets(self, other: Footprint) -> bool:
        """Whether one of the two commits makes the other one fail."""
        return self.disturbed_by(other.writes) or other.disturbed_by(self.writes)


class Place:
    """A place in the line. ``footprint`` is written by its thread, ``until`` under the lock of the line: the end of its
    turn, None before that has begun. ``left`` is set when it has left, or was passed over."""

    __slots__ = ("footprint", "left", "seconds", "thread", "until")

    def __init__(self, footprint: Footprint, seconds: float) -> None:
        self.footprint = footprint
        self.seconds = seconds
        self.thread = get_ident()
        self.until: float | None = None
        self.left = threading.Event()


class Line:
    """The places, in the order in which they were taken. ``places`` is replaced under the lock, and read without."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.places: tuple[Place, ...] = ()
        self._lock = threading.Lock()

    def has_place(self) -> bool:
        """Whether this thread has one."""
        here = get_ident()
        return any(place.thread == here for place in self.places)

    def enter(self, place: Place) -> None:
        """Take a place at the end."""
        with self._lock:
            self.places = (*self.places, place)

    def leave(self, place: Place) -> None:
        """Give it up. Harmless when repeated."""
        with self._lock:
            self._remove(place)

    def _remove(self, place: Place) -> None:
        self.places = tuple(each for each in self.places if each is not place)
        place.left.set()

    def wait(self, place: Place, deadline: float) -> None:
        """Until it is this place's turn, or it was passed over, or the time ``deadline`` has come."""
        while (now := self.clock.monotonic()) < deadline and not place.left.is_set():
            with self._lock:
                before = self._before(place, now)
                if before is None:
                    return
            before.left.wait(min(_LOOK_AGAIN, deadline - now))

    def _before(self, place: Place, now: float) -> Place | None:
        """The first of the earlier places that touches the same keys. None begins the turn. Passes over those whose
        time is up, and begins the turn of one whose thread has not noticed yet."""
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
        """Wait until no one has its turn whom a commit of these keys would make fail, or until the time ``deadline``.
        Returns whether it had to."""
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
