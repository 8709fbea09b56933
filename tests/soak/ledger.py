"""What the soak knows independently of the store: every acknowledged commit, and what the feed and snapshots showed.

Pure bookkeeping. Each method takes what a process reported, and raises :class:`Broken` if it contradicts earlier
reports. Memory is bounded: only the latest timestamps are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from tests.soak.telling import Broken

_REMEMBERED = 50_000
_Value = TypeVar("_Value")


class _Latest(Generic[_Value]):
    """A map that keeps only its most recent entries."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, _Value] = OrderedDict()

    def get(self, key: int) -> _Value | None:
        return self._entries.get(key)

    def put(self, key: int, value: _Value) -> None:
        self._entries[key] = value
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)


class _Place:
    """A consumer: how far it acknowledged, what it was shown last, and how far it was ever shown; and the threads'
    numbers up to there."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.shown = 0
        self.furthest = 0
        self.numbers: dict[int, int] = {}


class Ledger:
    """What the store must contain, and nothing else."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, int] = {}
        """The number of each thread's last acknowledged commit."""
        self.commits = 0
        self.highest = 0
        """The highest timestamp that was ever reported."""
        self._by_ts = _Latest[tuple[int, int]]()
        self._shown = _Latest[tuple[dict[int, int], str]]()
        self._digests = _Latest[str]()
        self._places: dict[str, _Place] = {}

    def ack(self, thread: int, number: int, ts: int) -> None:
        """A thread's commit was acknowledged, with its timestamp, or 0 if that is unknown."""
        if number != self.acknowledged.get(thread, 0) + 1:
            raise Broken("a thread counts its commits", f"thread {thread}: {number} after {self.acknowledged[thread]}")
        self.acknowledged[thread] = number
        self.commits += 1
        if ts:
            if (other := self._by_ts.get(ts)) is not None:
                raise Broken("a timestamp is given once", f"{ts} to {other} and to {(thread, number)}")
            self.highest = max(self.highest, ts)
            self._by_ts.put(ts, (thread, number))
            shown = self._shown.get(ts)
            if shown is not None:
                self._compare(ts, shown[0], (thread, number))

    def opened(self, last_commit: int, numbers: dict[int, int]) -> None:
        """What a new owner found: each thread's last acknowledged commit, or the one after it, which was in flight when
        the previous owner was killed."""
        for thread, number in numbers.items():
            known = self.acknowledged.get(thread, 0)
            if number < known:
                raise Broken("what was acknowledged is there", f"thread {thread} is at {number}, acknowledged {known}")
            if number > known + 1:
                raise Broken("the store holds only what was written", f"thread {thread} is at {number}, not {known}")
            self.acknowledged[thread] = number
        if last_commit < self.highest:
            raise Broken("time does not go back", f"the last commit is {last_commit}, but {self.highest} was told")

    def seen(self, ts: int, digest: str) -> None:
        """Some process read everything at ``ts``."""
        known = self._digests.get(ts)
        if known is not None and known != digest:
            raise Broken("an instant is the same in every process", f"commit {ts}: {known} and {digest}")
        self._digests.put(ts, digest)
        self.highest = max(self.highest, ts)

    # The feed

    def place(self, consumer: str, position: int) -> None:
        """A consumer begins to read after ``position``."""
        place = self._places.setdefault(consumer, _Place())
        if not place.acknowledged <= position <= place.furthest:
            raise Broken(
                "a consumer goes on where it was",
                f"{consumer} is at {position}, acknowledged {place.acknowledged}, was shown {place.furthest}",
            )
        place.shown = position

    def acked(self, consumer: str, position: int) -> None:
        self._places[consumer].acknowledged = position

    def commit(self, consumer: str, ts: int, numbers: dict[int, int], digest: str) -> None:
        """A consumer was shown commit ``ts``, in which these threads reached these numbers."""
        place = self._places[consumer]
        if ts != place.shown + 1:
            raise Broken("the feed shows each commit once, in order", f"{consumer}: {ts} after {place.shown}")
        place.shown = ts
        known = self._shown.get(ts)
        if known is not None and known != (numbers, digest):
            raise Broken("the feed shows all consumers the same", f"{ts}: {known} and {(numbers, digest)}")
        self._shown.put(ts, (numbers, digest))
        if (acknowledged := self._by_ts.get(ts)) is not None:
            self._compare(ts, numbers, acknowledged)
        if ts <= place.furthest:
            return
        place.furthest = ts
        for thread, number in numbers.items():
            if number != place.numbers.get(thread, -1) + 1:
                raise Broken(
                    "the feed has each commit of each thread",
                    f"{consumer}: thread {thread}, {number} after {place.numbers.get(thread)} at {ts}",
                )
            place.numbers[thread] = number

    def caught_up(self, last_commit: int) -> None:
        """At the end, when every consumer was shown all."""
        for name, place in self._places.items():
            if place.shown != last_commit:
                raise Broken("the feed ends with the last commit", f"{name} was shown {place.shown}, not {last_commit}")
            behind = {each: number for each, number in self.acknowledged.items() if place.numbers.get(each) != number}
            if behind:
                raise Broken("the feed has each commit of each thread", f"{name}: {behind}, but {place.numbers}")

    def _compare(self, ts: int, numbers: dict[int, int], acknowledged: tuple[int, int]) -> None:
        thread, number = acknowledged
        if numbers.get(thread) != number:
            raise Broken("the feed has what was acknowledged", f"commit {ts}: {numbers}, but {acknowledged}")
