"""The owner's line, for the retries of joined processes: all processes take turns in one line.

Without it a process that reaches the owner by a message would lose against the owner's own threads for ever, if both
change the same keys. See ``engine.transaction.line``.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections.abc import Callable, KeysView
from typing import Any, Final

from lowtide.engine.recovery.members import Members
from lowtide.engine.transaction.line import Footprint, Line, Place
from lowtide.engine.transaction.read_set import RangeSet
from lowtide.engine.types import Range
from lowtide.errors import Error
from lowtide.system.clock import Clock

_LONGEST: Final = 60.0
"""Seconds for which one request waits in the owner at most."""


class RemoteLine(Line):
    """The line as a joined process sees it. ``ask`` sends a request to the owner. The places here are those of this
    process's threads; their order is decided by the owner."""

    def __init__(self, clock: Clock, members: Members, ask: Callable[..., Any]) -> None:
        super().__init__(clock)
        self._members = members
        self._ask = ask
        self._tokens: dict[Place, int] = {}

    @property
    def busy(self) -> bool:
        return self._members.lined_up > 0

    def holds(self, place: Place) -> bool:
        if place.until is not None and place.until <= self.clock.monotonic():
            self.leave(place)
        return super().holds(place)

    def wait(self, place: Place, deadline: float) -> None:
        seconds = min(deadline - self.clock.monotonic(), _LONGEST)
        writes, read, ranges = place.footprint.parts
        with contextlib.suppress(Error):  # without a turn the next attempt may fail as well
            turn = {"writes": writes, "read": read, "ranges": ranges, "seconds": place.seconds, "patience": seconds}
            self._tokens[place] = int(self._ask("take_turn", **turn))
        place.until = self.clock.monotonic() + place.seconds

    def leave(self, place: Place) -> None:
        super().leave(place)
        token = self._tokens.pop(place, None)
        if token is not None:
            with contextlib.suppress(Error):  # its time will be up
                self._ask("leave_turn", token=token)

    def give_way(self, writes: KeysView[bytes], deadline: float) -> bool:
        if not self.busy or self.has_place():
            return False
        with contextlib.suppress(Error):
            return bool(self._ask("give_way", writes=list(writes), patience=deadline - self.clock.monotonic()))
        return False


class JoinedLine:
    """The owner's side: places of other processes in its line. One that dies is skipped when its turn is over. Any
    thread; ``_places`` is changed under ``_lock``."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._places: dict[int, Place] = {}
        self._tokens = itertools.count(1)

    def take_turn(
        self,
        writes: list[bytes],
        read: list[bytes],
        ranges: list[tuple[bytes, bytes | None]],
        seconds: float,
        patience: float,
    ) -> int:
        """Take a place, and wait until it is its turn; returns a token, by which it is left."""
        relied_on = RangeSet([Range(low, high) for low, high in ranges])
        place = Place(Footprint(dict.fromkeys(writes).keys(), [set(read)], relied_on), _within(seconds))
        place.thread = 0  # this thread takes it for another process
        with self._lock:
            for each in [token for token, place in self._places.items() if place.left.is_set()]:
                del self._places[each]
            token = next(self._tokens)
            self._places[token] = place
        self._line.enter(place)
        self._line.wait(place, self._line.clock.monotonic() + _within(patience))
        return token

    def leave_turn(self, token: int) -> None:
        """Give up a place."""
        with self._lock:
            place = self._places.pop(token, None)
        if place is not None:
            self._line.leave(place)

    def give_way(self, writes: list[bytes], patience: float) -> bool:
        """Wait while a place has its turn that a commit of these keys would make fail."""
        deadline = self._line.clock.monotonic() + _within(patience)
        return self._line.give_way(dict.fromkeys(writes).keys(), deadline)


def _within(seconds: float) -> float:
    """A number of seconds that another process has sent, within bounds."""
    return min(max(float(seconds), 0.0), _LONGEST) if not math.isnan(seconds) else 0.0
