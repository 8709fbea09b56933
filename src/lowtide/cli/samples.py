"""The contents of ``lowtide top``, computed from samples of the owner's figures: pure functions.

A sample is taken every interval. Rates are the differences of counters between two samples of one owner. When another
process took the store over, or none owns it, there is a gap. Trends cover the last minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from lowtide.observe.stats import PinStats, ProcessStats, SnapshotStats, Stats
from lowtide.system.quantities import size, span

SPAN = 60.0
"""The seconds that a trend covers."""

WIDTH = 30
"""Columns of a trend."""

_LEVELS = "▁▂▃▄▅▆▇█"

Point = tuple[float, float | None]
"""A moment and a figure; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures at the moment ``at`` (monotonic seconds), from process ``owner``; without figures, the reason in
    ``trouble``."""

    at: float
    owner: int | None = None
    stats: Stats | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the view: its name, its value now, and its trend, oldest first."""

    label: str
    value: str
    trend: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessRates:
    """One process, and its commits and conflicts per second; None if they are not known yet."""

    process: ProcessStats
    commits_per_second: float | None
    conflicts_per_second: float | None


@dataclass(frozen=True, slots=True)
class View:
    """One frame. Without an owner it shows the last figures that are known, and ``live`` is false."""

    path: str
    state: str
    live: bool
    owner: int | None
    stats: Stats | None
    commits_per_second: float | None
    conflicts_per_second: float | None
    figures: tuple[Figure, ...]
    snapshots: tuple[SnapshotStats, ...]
    pins: tuple[PinStats, ...]
    processes: tuple[ProcessRates, ...] = ()

    def as_plain(self) -> dict[str, Any]:
        """The frame for JSON."""
        return {
            "path": self.path,
            "owner": self.owner,
            "live": self.live,
            "state": self.state,
            "commits_per_second": self.commits_per_second,
            "conflicts_per_second": self.conflicts_per_second,
            "boundary_lag": _lag(self.stats) if self.stats is not None else None,
            "stats": msgspec.to_builtins(self.stats),
            "processes": msgspec.to_builtins(self.processes),
        }


def recent(samples: Iterable[Sample], now: float) -> list[Sample]:
    """The samples that a view needs: those of the last minute, and the last one that has figures."""
    every = list(samples)
    known = [each for each in every if each.stats is not None]
    return [each for each in every if each.at >= now - SPAN or (known and each is known[-1])]


def view(path: str, samples: Sequence[Sample]) -> View:
    """The frame after the last of the ``samples``, of which there is at least one, oldest first."""
    newest = samples[-1]
    live = newest.stats is not None
    stats = next((each.stats for each in reversed(samples) if each.stats is not None), None)
    commits, conflicts = rates(samples, lambda each: each.commits), rates(samples, lambda each: each.conflicts)
    made, refused = (series[-1][1] if live and series else None for series in (commits, conflicts))
    figures: tuple[Figure, ...] = ()
    if stats is not None:

        def figure(label: str, value: str, level: Callable[[Stats], float]) -> Figure:
            return Figure(label, value, trend(levels(samples, level), newest.at))

        figures = (
            Figure("commits/s", rate_in_words(made), trend(commits, newest.at)),
            Figure("conflicts/s", rate_in_words(refused), trend(conflicts, newest.at)),
            figure("snapshots", str(len(stats.snapshots)), lambda each: len(each.snapshots)),
            figure("versions in memory", f"{stats.versions} ({size(stats.version_bytes)})", lambda each: each.versions),
            figure("history", f"{stats.history} versions", lambda each: each.history),
            figure("log", size(stats.log_bytes), lambda each: each.log_bytes),
            figure("boundary lag", f"{_lag(stats)} commits", _lag),
            Figure("last checkpoint", _checkpoint(stats)),
        )
        if stats.failure is not None:
            figures += (Figure("FAILED", f"the store accepts no commits: {stats.failure}"),)
    return View(
        path=path,
        state=_state(newest),
        live=live,
        owner=newest.owner,
        stats=stats,
        commits_per_second=made,
        conflicts_per_second=refused,
        figures=figures,
        snapshots=tuple(sorted(stats.snapshots, key=lambda each: -each.age)) if stats is not None else (),
        pins=tuple(stats.pins) if stats is not None else (),
        processes=processes(samples),
    )


def processes(samples: Sequence[Sample]) -> tuple[ProcessRates, ...]:
    """The processes of the last sample that has figures, with their rates since the one before it."""
    known = [(each.at, each.stats) for each in samples if each.stats is not None][-2:]
    if not known:
        return ()
    at, stats = known[-1]
    before = {(each.pid, each.role, each.since): each for each in known[0][1].processes} if len(known) > 1 else {}
    passed = at - known[0][0]

    def rated(each: ProcessStats) -> ProcessRates:
        earlier = before.get((each.pid, each.role, each.since))
        if earlier is None or passed <= 0:
            return ProcessRates(each, None, None)
        commits, conflicts = each.commits - earlier.commits, each.conflicts - earlier.conflicts
        return ProcessRates(each, max(0, commits) / passed, max(0, conflicts) / passed)

    return tuple(rated(each) for each in stats.processes)


def rates(samples: Sequence[Sample], counter: Callable[[Stats], int]) -> list[Point]:
    """The growth of a counter per second, at each sample except the first."""
    found: list[Point] = []
    for earlier, later in pairwise(samples):
        rate = None
        if earlier.stats is not None and later.stats is not None and earlier.owner == later.owner:
            grown, passed = counter(later.stats) - counter(earlier.stats), later.at - earlier.at
            rate = grown / passed if grown >= 0 and passed > 0 else None
        found.append((later.at, rate))
    return found


def levels(samples: Sequence[Sample], level: Callable[[Stats], float]) -> list[Point]:
    return [(each.at, level(each.stats) if each.stats is not None else None) for each in samples]


def trend(points: Iterable[Point], now: float) -> tuple[float | None, ...]:
    """The means of the points in equal parts of the last minute, oldest first; None where there is no point."""
    parts: list[list[float]] = [[] for _ in range(WIDTH)]
    for at, value in points:
        ago = int((now - at) * WIDTH / SPAN)
        if value is not None and 0 <= ago < WIDTH:
            parts[WIDTH - 1 - ago].append(value)
    return tuple(sum(part) / len(part) if part else None for part in parts)


def sparkline(trend: Sequence[float | None]) -> str:
    """A trend as a row of blocks, from 0 to its highest value; blanks where nothing is known."""
    top = max((value for value in trend if value is not None), default=0.0)

    def block(value: float | None) -> str:
        if value is None:
            return " "
        return _LEVELS[round(value / top * (len(_LEVELS) - 1))] if top > 0 else _LEVELS[0]

    return "".join(map(block, trend))


def _lag(stats: Stats) -> int:
    return stats.last_commit - stats.boundary


def rate_in_words(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _checkpoint(stats: Stats) -> str:
    taken = "none yet" if stats.last_checkpoint_seconds is None else f"took {span(stats.last_checkpoint_seconds)}"
    if not stats.checkpoint_failures:
        return f"{taken}; {stats.checkpoints} made"
    return f"{taken}; {stats.checkpoints} made, {stats.checkpoint_failures} FAILED: {stats.last_checkpoint_failure}"


def _state(sample: Sample) -> str:
    return f"owned by process {sample.owner}" if sample.stats is not None else sample.trouble
