"""The targets of Lowtide as a data source of Spark, and what is derived from the timings.

A target compares two jobs by the medians of the ratios within each round. A job that failed misses its targets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from bench.figures import BASE, Figure, Figures, Summary, paired
from bench.section import Data, Finding
from bench.spark.jobs import (
    ALONE,
    ARROW,
    CACHED,
    FILL,
    FILTER,
    GROWTH,
    LINES,
    NOTHING,
    PARQUET,
    PROJECT,
    SCAN,
    TUPLES,
    WRITE,
    Timing,
)

MOST_GROWTH = 1.3
Key = tuple[str, str]
"""A line and a source."""

TITLES = {
    SCAN: "full scan",
    FILL: "full scan that fills the columnar cache",
    CACHED: "full scan again, from the cache",
    PROJECT: "two columns of six",
    FILTER: "1 % by an indexed field",
    ALONE: "full scan, one partition",
    NOTHING: "no rows at all, which is what a job costs",
    WRITE: "bulk write",
}
"""In the order of the tables."""


@dataclass(frozen=True)
class Target:
    """A bound on how fast one job is relative to another."""

    ours: Key
    theirs: Key
    least: float
    """The rate of ours is at least this many times that of theirs."""
    words: str
    why: str
    """Said where it is missed, or where another source is ahead."""

    @property
    def about_time(self) -> bool:
        """Whether it bounds the time from above, and not the rate from below."""
        return self.least < 1

    @property
    def target(self) -> str:
        bound = f"at most {1 / self.least:.1f}x the time of" if self.about_time else f"at least {self.least:.1f}x"
        return f"{TITLES[self.ours[0]]}: {bound} {self.words}"

    def told(self, ratio: float) -> str:
        return f"{1 / ratio:.2f}x" if self.about_time else f"{ratio:.2f}x"


TARGETS = (
    Target(
        (SCAN, BASE), (SCAN, ARROW), 1.5, ARROW,
        "both make rows in Python's process, and sqlite3 keeps values apart that are decoded here",
    ),
    Target(
        (SCAN, BASE), (SCAN, TUPLES), 3.0, TUPLES,
        "what Spark needs for each job and task is the same for both",
    ),
    Target(
        (SCAN, BASE), (SCAN, LINES), 1.0, f"{LINES} by Spark's own reader",
        "it parses in the JVM, with no other process beside it",
    ),
    Target(
        (SCAN, BASE), (SCAN, PARQUET), 1 / 3.5, PARQUET,
        "every document is decoded from its stored bytes, where Parquet has columns already",
    ),
    Target(
        (CACHED, BASE), (SCAN, PARQUET), 1 / 1.5, f"{PARQUET}, which is read in the JVM",
        "batches still go from Python's process to the JVM",
    ),
    Target(
        (FILTER, BASE), (SCAN, BASE), 20.0, "Lowtide's full scan",
        "a job of a Python source takes more than a twentieth of the scan before its first row: see that of no rows",
    ),
    Target(
        (SCAN, BASE), (ALONE, BASE), 1.6, "one partition",
        "the JVM needs a part of the second core for the batches that arrive",
    ),
)  # fmt: skip


def timings_of(data: Data) -> list[Timing]:
    return [Timing(**dict(zip(data["timings"]["fields"], row, strict=True))) for row in data["timings"]["rows"]]


def figures_of(timings: Iterable[Timing]) -> Figures:
    """Documents of the source a second, without growth, whose stores differ."""
    return Figures(
        Figure(each.line, each.peer, each.round, each.documents / each.seconds)
        for each in timings
        if each.line != GROWTH
    )


def ratio(figures: Figures, ours: Key, theirs: Key) -> Summary | None:
    return paired(figures.of(*ours), figures.of(*theirs))


def nanoseconds_per_row(timings: Iterable[Timing]) -> dict[int, float]:
    """Of the stores of several sizes, smallest first: the medians."""
    by_size: dict[int, list[float]] = {}
    for each in timings:
        if each.line == GROWTH:
            by_size.setdefault(each.documents, []).append(each.seconds / each.documents * 1e9)
    return {size: median(by_size[size]) for size in sorted(by_size)}


def growth(costs: dict[int, float]) -> float:
    """The most by which a row of a larger store costs more than a row of a smaller one.

    >>> growth({10: 8.0, 100: 4.0, 1000: 5.0})
    1.25
    """
    values = list(costs.values())
    return max(later / earlier for at, earlier in enumerate(values) for later in values[at + 1 :])


def findings(data: Data) -> list[Finding]:
    """Every target that was measured, at least in part, or should have been."""
    timings = timings_of(data)
    figures = figures_of(timings)
    failures = {(each["line"], each["peer"]): each["why"] for each in data["failed"].values()}
    found = []
    known = {(each.line, each.peer) for each in timings} | failures.keys()
    for target in TARGETS:
        if not {target.ours, target.theirs} <= known:
            continue
        measured = ratio(figures, target.ours, target.theirs)
        failure = failures.get(target.ours) or failures.get(target.theirs)
        if failure is not None:
            found.append(Finding(target.target, "failed", False, failure))
        elif measured is not None:
            met = measured.middle >= target.least
            why = "" if met and not _behind(target, measured) else target.why
            found.append(Finding(target.target, target.told(measured.middle), met, why))
    return found + _growth_findings(timings, failures)


def _behind(target: Target, measured: Summary) -> bool:
    return target.theirs[1] != BASE and measured.middle < 1


def _growth_findings(timings: Iterable[Timing], failures: dict[Key, str]) -> list[Finding]:
    costs = nanoseconds_per_row(timings)
    failure = failures.get((GROWTH, BASE))
    if failure is None and len(costs) < 2:
        return []
    sizes = f" from {min(costs):,} to {max(costs):,} documents" if costs else ""
    target = f"scan time of a row{sizes}: grows by at most {MOST_GROWTH}x"
    if failure is not None:
        return [Finding(target, "failed", False, failure)]
    most = growth(costs)
    why = "" if most <= MOST_GROWTH else "the larger store does not stay in the processor's and the system's caches"
    return [Finding(target, f"{most:.2f}x", most <= MOST_GROWTH, why)]
