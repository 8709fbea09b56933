"""Chooses which worker runs next: by enumeration, by a seed, or from a recorded schedule.

A *preemption* is a choice that takes the turn from a worker that could have continued. Most faults need very few, so an
enumeration may be bounded by their number. A choice after the last worker has ended or waits for a lock is free.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from tests.support.attack import SAMPLE


class Choices(Protocol):
    """Called for every step. ``enabled`` are the workers that can run, in a fixed order. ``current`` is the worker that
    ran last, None if it cannot continue."""

    def pick(self, current: str | None, enabled: Sequence[str]) -> str: ...


class Diverged(Exception):
    """The same choices led to a different run: something other than the schedule decides, so nothing can be
    replayed."""


class InTurn:
    """No preemption at all: each worker runs until it ends or must wait."""

    def pick(self, current: str | None, enabled: Sequence[str]) -> str:
        return current if current is not None else enabled[0]


class DepthFirst:
    """All schedules, one after the other, with at most ``bound`` preemptions each; None for no bound.

    >>> for choices in DepthFirst(bound=2).all():
    ...     run(choices)
    """

    def __init__(self, bound: int | None = None) -> None:
        self._bound = bound
        self._path: list[tuple[list[str], int]] = []
        self._depth = 0
        self._preemptions = 0
        self.count = 0
        """Schedules so far."""

    def all(self) -> Iterator[DepthFirst]:
        """Yields itself once per schedule. Each schedule makes a choice that was not made before."""
        while True:
            self._depth = self._preemptions = 0
            self.count += 1
            yield self
            del self._path[self._depth :]
            while self._path and self._path[-1][1] + 1 == len(self._path[-1][0]):
                self._path.pop()
            if not self._path:
                return
            options, index = self._path[-1]
            self._path[-1] = options, index + 1

    def pick(self, current: str | None, enabled: Sequence[str]) -> str:
        options = self._options(current, enabled)
        if len(options) > 1:
            if self._depth == len(self._path):
                self._path.append((options, 0))
            known, index = self._path[self._depth]
            if known != options:
                raise Diverged(f"{options} can run where {known} could before")
            self._depth += 1
            chosen = options[index]
        else:
            chosen = options[0]
        self._preemptions += current is not None and chosen != current
        return chosen

    def _options(self, current: str | None, enabled: Sequence[str]) -> list[str]:
        if current is None:
            return list(enabled)
        if self._bound is not None and self._preemptions >= self._bound:
            return [current]
        return [current, *(each for each in enabled if each != current)]


class Seeded:
    """Choices by a seed, which also decides how often the turn is taken away: some faults need many switches, most need
    a few in the right places."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._stay = self._random.choice((0.0, 0.5, 0.8, 0.9))

    def pick(self, current: str | None, enabled: Sequence[str]) -> str:
        if len(enabled) == 1:
            return enabled[0]
        if current is not None and self._random.random() < self._stay:
            return current
        return self._random.choice(list(enabled))


class Scattered:
    """``count`` schedules with ``bound`` preemptions at random steps: a sample of what :class:`DepthFirst` would try,
    spread over all of it. Another ``sample`` has other ones.

    >>> for choices in Scattered(bound=2, count=50).all():
    ...     run(choices)
    """

    def __init__(self, bound: int, count: int, sample: int = SAMPLE) -> None:
        self._bound = bound
        self._count = count
        self._sample = sample
        self._random = random.Random()
        self._steps = 0
        """Of the longest schedule so far, those with a choice."""
        self._step = 0
        self._preempted: set[int] = set()

    def all(self) -> Iterator[Scattered]:
        """Yields itself once per schedule. The first one has no preemption, and tells how many steps there are."""
        for number in range(self._count):
            self._random.seed(self._sample * 100_000 + number)
            self._preempted = set(self._random.sample(range(self._steps), min(self._bound, self._steps)))
            self._step = 0
            yield self
            self._steps = max(self._steps, self._step)

    def pick(self, current: str | None, enabled: Sequence[str]) -> str:
        if len(enabled) == 1:
            return enabled[0]
        self._step += 1
        if current is not None and self._step - 1 not in self._preempted:
            return current
        return self._random.choice([each for each in enabled if each != current])


class Replay:
    """The choices of a recorded schedule, step by step."""

    def __init__(self, steps: Sequence[str]) -> None:
        self._steps = list(steps)
        self._next = 0

    def pick(self, current: str | None, enabled: Sequence[str]) -> str:
        if self._next == len(self._steps):
            raise Diverged(
                f"the recorded schedule ends after {self._next} steps, this one goes on with {list(enabled)}"
            )
        chosen = self._steps[self._next]
        self._next += 1
        if chosen not in enabled:
            raise Diverged(f"step {self._next} is of {chosen}, but only {list(enabled)} can run")
        return chosen


class Roughly:
    """The choices of a recorded schedule, as far as they are possible, for a program that was shrunk."""

    def __init__(self, steps: Sequence[str]) -> None:
        self._steps = deque(steps)

    def pick(self, current: str | None, enabled: Sequence[str]) -> str:
        while self._steps:
            chosen = self._steps.popleft()
            if chosen in enabled:
                return chosen
        return current if current is not None else enabled[0]
