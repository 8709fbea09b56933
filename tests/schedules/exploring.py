"""Searches for a schedule with a wrong outcome, repeats it, and shrinks it."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from tests.schedules.oracle import Complaint, complaints
from tests.schedules.program import Program, random_program, smaller
from tests.schedules.running import Laboratory
from tests.support.attack import FULL
from tests.support.choices import Choices, DepthFirst, Replay, Roughly, Scattered, Seeded
from tests.support.scheduler import Trace, tell, workers_of

Stops = Collection[str] | None

_EFFORT = 8
"""Random schedules tried for one smaller program, and twice as many with one preemption."""

_MOST = 500
"""Schedules that are tried in search of fewer preemptions."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A schedule with a wrong outcome."""

    program: Program
    trace: Trace
    complaint: Complaint
    seed: int | None = None

    @property
    def preemptions(self) -> int:
        """How often the turn was taken from a worker that later continued from a point, not from a lock."""
        count = 0
        for index, step in enumerate(self.trace[:-1]):
            later = self.trace[index + 1 :]
            again = next((each.place for each in later if each.worker == step.worker), "lock")
            count += later[0].worker != step.worker and not again.startswith("lock")
        return count

    def __str__(self) -> str:
        steps = " ".join(workers_of(self.trace))
        again = f"replay: LOWTIDE_SCHEDULE={self.seed} python -m pytest tests/schedules/test_seeds.py\n"
        return (
            f"{self.complaint}\n{self.program}\n{tell(self.trace)}\nsteps: {steps}\n"
            f"{again if self.seed is not None else ''}"
        )


@dataclass(frozen=True, slots=True)
class Exploration:
    """How many schedules were tried, whether these were all of them within the bound or all of the sample, and the
    first wrong one."""

    schedules: int
    complete: bool
    finding: Finding | None

    def check(self) -> Exploration:
        """Fail if something was found."""
        assert self.finding is None, f"after {self.schedules} schedules\n{self.finding}"
        return self


def attempt(laboratory: Laboratory, program: Program, choices: Choices, stops: Stops = None) -> Finding | None:
    """Run one schedule; the finding if its outcome is wrong."""
    outcome = laboratory.run(program, choices, stops)
    found = complaints(outcome)
    return Finding(program, outcome.trace, found[0]) if found else None


def explore(
    laboratory: Laboratory,
    program: Program,
    *,
    bound: int | None = None,
    stops: Stops = None,
    most: int | None = None,
    sample: int | None = None,
    kind: str | None = None,
) -> Exploration:
    """All schedules of ``program`` with at most ``bound`` preemptions, up to the first that is wrong (in a ``kind`` of
    way, if that is given), and ``most`` in number.

    With a ``sample``, so many of those with ``bound`` preemptions, and all with fewer. The full attack tries all."""
    searches: list[Iterator[Choices]] = [DepthFirst(bound).all()]
    if sample is not None and not FULL:
        assert bound
        searches = [DepthFirst(bound - 1).all(), Scattered(bound, sample).all()]
    count = 0
    for count, choices in enumerate(chain.from_iterable(searches), 1):
        finding = attempt(laboratory, program, choices, stops)
        if finding is not None and kind in (None, finding.complaint.kind):
            return Exploration(count, False, finding)
        if most is not None and count >= most:
            return Exploration(count, False, None)
    return Exploration(count, True, None)


def explore_seeds(laboratory: Laboratory, seeds: Iterable[int], stops: Stops = None) -> Exploration:
    """One random program under one random schedule for each of ``seeds``, up to the first that is wrong."""
    count = 0
    for seed in seeds:
        count += 1
        program = random_program(random.Random(seed))
        finding = attempt(laboratory, program, Seeded(seed), stops)
        if finding is not None:
            return Exploration(count, False, Finding(program, finding.trace, finding.complaint, seed))
    return Exploration(count, True, None)


def replay(laboratory: Laboratory, finding: Finding, stops: Stops = None) -> Finding | None:
    """Run the same schedule again, in a new store. Raises Diverged if it cannot be followed."""
    laboratory.discard()
    laboratory.thorough |= finding.complaint.kind == "store"
    again = attempt(laboratory, finding.program, Replay(workers_of(finding.trace)), stops)
    laboratory.discard()
    return again


def shrink(laboratory: Laboratory, finding: Finding, stops: Stops = None) -> Finding:
    """The same kind of fault in a minimal program, with the fewest preemptions."""
    kind, best = finding.complaint.kind, finding
    laboratory.thorough |= kind == "store"
    while True:
        for candidate, gone in smaller(best.program):
            found = _search(laboratory, candidate, kind, _without(gone, best), stops)
            if found is not None:
                best = found
                break
        else:
            return _fewest_preemptions(laboratory, best, stops)


def _without(gone: str | None, finding: Finding) -> list[str]:
    """The choices of a finding, without those of a worker that is gone; those behind it have moved up."""
    if gone is None:
        return workers_of(finding.trace)
    names = finding.program.names
    others = [name for name in names if name != gone]
    renamed = dict(zip(others, names, strict=False))
    return [renamed[name] for name in workers_of(finding.trace) if name != gone]


def _search(laboratory: Laboratory, program: Program, kind: str, like: list[str], stops: Stops) -> Finding | None:
    """A schedule with this kind of fault: one like the one that is known, a random one, or one with few preemptions."""
    if not program.workers:
        return None
    tries: list[Choices] = [Roughly(like), *map(Seeded, range(_EFFORT))]
    for choices in tries:
        found = attempt(laboratory, program, choices, stops)
        if found is not None and found.complaint.kind == kind:
            return found
    return explore(laboratory, program, bound=1, stops=stops, most=_EFFORT * 2, kind=kind).finding


def _fewest_preemptions(laboratory: Laboratory, finding: Finding, stops: Stops) -> Finding:
    for bound in range(finding.preemptions):
        found = explore(laboratory, finding.program, bound=bound, stops=stops, most=_MOST, kind=finding.complaint.kind)
        if found.finding is not None:
            return found.finding
        if not found.complete:
            break
    return finding
