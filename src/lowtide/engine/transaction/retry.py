"""When a failed transaction is retried: the only retry policy of Lowtide.

A conflict is followed by a short random pause, so that the same transactions do not collide again. After ``PATIENCE``
failures, or after one failure although it had given way, a transaction takes a place in the line (see ``line``). From
then on its attempts go first. Retries end after a number of attempts or after a time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from math import inf
from random import uniform
from typing import Final, TypeVar

from lowtide.engine.transaction.line import Footprint, Line, Place
from lowtide.engine.transaction.read_set import RangeSet
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.engine.types import Range
from lowtide.errors import ADVICE, ConflictError, TransientError, UsageError

TIMEOUT: Final = 60.0
"""Seconds for which ``store.run`` retries by default."""
PATIENCE: Final = 3
"""Failures after which a transaction takes a place in the line."""
_FIRST_PAUSE: Final = 0.0002
_LONGEST_PAUSE: Final = 0.05
_SHORTEST_TURN: Final = 0.1
_LONGEST_TURN: Final = 5.0
_ATTEMPTS_IN_A_TURN: Final = 4
"""A turn lasts this many times the longest attempt so far, within these bounds in seconds."""

_Tx = TypeVar("_Tx", bound=EngineTransaction)
_Result = TypeVar("_Result")


def pauses(longest: float = _LONGEST_PAUSE) -> Iterator[float]:
    """Random pauses between attempts, in seconds. They grow up to ``longest``."""
    most = _FIRST_PAUSE
    while True:
        yield uniform(0, most)
        most = min(most * 2, longest)


def footprint_of(tx: EngineTransaction) -> Footprint:
    """The keys that a transaction, including a refused one, has written and relied on so far."""
    read: list[Set[bytes]] = []
    ranges: list[Range] = []
    if tx.reads is not None:
        read.append(tx.reads.keys)
        ranges += tx.reads.ranges
    if tx.guards is not None:
        read.append(tx.guards.keys.keys())
        ranges += [each for each, _ in tx.guards.ranges]
    return Footprint(tx.writes.keys(), read, RangeSet(ranges))


class Retry:
    """The attempts of one call, which began at ``begun``. Used by the calling thread. ``attempts`` and ``timeout``, in
    seconds, limit them. The time limit applies only after an attempt that was made in the line."""

    def __init__(self, line: Line, begun: float, attempts: int | None = None, timeout: float = inf) -> None:
        self._line = line
        self._now = line.clock.monotonic
        self._attempts = attempts
        self._begun = self._attempt = begun
        self._deadline = begun + timeout
        self._longest = 0.0
        self._failures = 0
        self._gave_way = False
        self._pauses = pauses()
        self._place: Place | None = None

    def give_way(self, tx: EngineTransaction) -> None:
        """Let retries whose turn it is go first. Called before the commit of an attempt."""
        if tx.writes and not tx.state:
            now = self._now()
            self._longest = max(self._longest, now - self._attempt)
            self._gave_way = self._line.give_way(tx.writes.keys(), now + _LONGEST_TURN)

    def failed(self, error: TransientError, tx: EngineTransaction | None = None) -> None:
        """Wait until the next attempt may start, or raise ``error`` if there is none. Called when an attempt has
        failed. ``tx`` is the refused transaction, if the attempt had its own."""
        now = self._now()
        self._failures += 1
        if not self._gave_way:  # otherwise the time was recorded before it waited
            self._longest = max(self._longest, now - self._attempt)
        if self._attempts is not None and self._failures >= self._attempts:
            raise self._gave_up(error)
        if self._failures > PATIENCE and now >= self._deadline:
            raise self._gave_up(error)
        impatient = self._failures >= PATIENCE or self._gave_way
        if not (impatient and tx is not None and isinstance(error, ConflictError) and self._line_up(tx)):
            self._line.clock.sleep(next(self._pauses))
        self._attempt, self._gave_way = self._now(), False

    def _line_up(self, tx: EngineTransaction) -> bool:
        """Wait for a turn; false if this thread already has one. If it is this call's own turn, the attempt failed
        because of a commit that is not retried."""
        line, place = self._line, self._place
        if place is not None and line.holds(place):
            place.footprint = footprint_of(tx)
            return False
        if line.has_place():
            return False
        seconds = min(max(self._longest * _ATTEMPTS_IN_A_TURN, _SHORTEST_TURN), _LONGEST_TURN)
        self._place = place = Place(footprint_of(tx), seconds)
        line.enter(place)
        line.wait(place, max(self._deadline, self._now() + seconds))
        return True

    def _gave_up(self, error: TransientError) -> TransientError:
        """The error, with the number of attempts and the time in its message if there was more than one attempt."""
        if self._failures > 1:
            tried = f"given up after {self._failures} attempts in {self._now() - self._begun:.1f} s"
            error.args = (f"{str(error).removesuffix(ADVICE)}; {tried}",)
        return error

    def end(self) -> None:
        """End the call: leave the line. A second call does nothing."""
        if self._place is not None:
            self._line.leave(self._place)


def run(
    line: Line,
    begin: Callable[[], _Tx],
    work: Callable[[_Tx], _Result],
    attempts: int | None = None,
    timeout: float = inf,
) -> _Result:
    """Run ``work`` in a transaction and commit it, with a new transaction for each attempt; return its result."""
    retry: Retry | None = None
    begun = line.clock.monotonic()
    try:
        while True:
            tx = begin()
            try:
                with tx:
                    result = work(tx)
                    if line.busy:
                        retry = retry or Retry(line, begun, attempts, timeout)
                        retry.give_way(tx)
                return result
            except TransientError as error:
                retry = retry or Retry(line, begun, attempts, timeout)
                retry.failed(error, tx)
    finally:
        if retry is not None:
            retry.end()


def bounds(attempts: int | None, timeout: float | None) -> tuple[int | None, float]:
    """The limits of attempts and time: the default time applies unless a number of attempts is given."""
    if attempts is not None and (isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1):
        raise UsageError(f"attempts must be a whole number of at least 1, not {attempts!r}")
    if timeout is None:
        return attempts, TIMEOUT if attempts is None else inf
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:  # also refuses NaN
        raise UsageError(f"timeout must be a number of seconds, 0 or more, not {timeout!r}")
    return attempts, timeout
