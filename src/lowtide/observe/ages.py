"""Which snapshots are worth a report: a rule over the clock, who lives, and what was reported before.

A snapshot is reported when it reaches the first age, when it reaches the critical one, and every interval after that.
Growth is reported while a snapshot has reached the first age: whenever there are at least so many superseded versions,
and twice as many as at the last report of any kind. The one that is named holds the most of them alone.

Counting what a snapshot holds takes time in proportion to all superseded versions. So it is done only for a report,
and reports of growth become rarer the more there is to count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from lowtide.engine.garbage.account import NOTHING, HolderId, Holding

MOST_REPORTS = 10
"""Old snapshots that are reported one by one at a time; of the others only the number is told."""

GROWTH_FLOOR = 1_000
"""Superseded versions from which their growth is worth a word."""

Kind = Literal["old", "critical", "growth", "more"]


class AgedSnapshot(Protocol):
    """What is asked of a live snapshot. ``begun`` is on the clock that ``now`` is read from."""

    @property
    def token(self) -> int: ...
    @property
    def ts(self) -> int: ...
    @property
    def begun(self) -> float: ...
    @property
    def origin(self) -> object: ...


@dataclass(frozen=True, slots=True)
class AgeLimits:
    """Ages in seconds at which a snapshot is reported, and how often after that."""

    warn_age: float
    critical_age: float
    interval: float


@dataclass(frozen=True, slots=True)
class AgeReport:
    """Something to tell of one snapshot. ``count`` is the superseded versions in all for "growth", the number of
    further snapshots for "more"."""

    kind: Kind
    snapshot: AgedSnapshot
    age: float
    held: Holding
    count: int = 0

    def __str__(self) -> str:
        if self.kind == "more":
            return f"{self.count} more snapshots are old, up to {self.age:.0f} s; see stats().snapshots"
        told = (
            f"the snapshot of commit {self.snapshot.ts} that was opened at {self.snapshot.origin} is {self.age:.0f} s "
            f"old; {self.held.versions} superseded versions, {self.held.bytes} bytes, are kept for it alone"
        )
        if self.kind == "growth":
            return f"superseded versions have grown to {self.count} while a snapshot is stuck: {told}"
        return told


@dataclass(frozen=True, slots=True)
class _Told:
    critical: bool
    at: float


class AgeWatch:
    """Remembers what was reported. Used by one thread."""

    def __init__(self, limits: AgeLimits) -> None:
        self._limits = limits
        self._told: dict[int, _Told] = {}
        self._mark = 0
        """The superseded versions at the last report, or fewer if there were fewer since."""

    def look(
        self,
        now: float,
        live: Iterable[AgedSnapshot],
        superseded: Callable[[], int],
        account: Callable[[], Mapping[HolderId, Holding]],
    ) -> list[AgeReport]:
        """What is to be reported now, oldest snapshot first. ``superseded`` counts all superseded versions and is asked
        only if a snapshot is old; ``account`` says what each token holds, and is asked only if there is a report."""
        least = min(self._limits.warn_age, self._limits.critical_age)
        old = sorted((each for each in live if now - each.begun >= least), key=lambda each: each.begun)
        self._told = {each.token: self._told[each.token] for each in old if each.token in self._told}
        if not old:
            self._mark = 0
            return []
        due = [each for each in old if self._is_due(each, now)]
        total = superseded()
        self._mark = min(self._mark, total)
        grown = total >= max(GROWTH_FLOOR, 2 * self._mark)
        if not due and not grown:
            return []
        held = account()
        reports = self._of_age(now, due, held) if due else [_growth(now, old, held, total)]
        for each in due:
            self._told[each.token] = _Told(self._is_critical(each, now), now)
        self._mark = total
        return reports

    def _is_critical(self, snapshot: AgedSnapshot, now: float) -> bool:
        return now - snapshot.begun >= self._limits.critical_age

    def _is_due(self, snapshot: AgedSnapshot, now: float) -> bool:
        told = self._told.get(snapshot.token)
        if told is None:
            return True
        return now - told.at >= self._limits.interval if told.critical else self._is_critical(snapshot, now)

    def _of_age(self, now: float, due: Sequence[AgedSnapshot], held: Mapping[HolderId, Holding]) -> list[AgeReport]:
        reports = [
            AgeReport(
                "critical" if self._is_critical(each, now) else "old",
                each,
                now - each.begun,
                held.get(each.token, NOTHING),
            )
            for each in due[:MOST_REPORTS]
        ]
        if further := due[MOST_REPORTS:]:
            reports.append(AgeReport("more", further[0], now - further[0].begun, NOTHING, len(further)))
        return reports


def _growth(now: float, old: Sequence[AgedSnapshot], held: Mapping[HolderId, Holding], total: int) -> AgeReport:
    """Name the snapshot that holds the most alone; of several, the oldest."""
    worst = max(old, key=lambda each: held.get(each.token, NOTHING).versions)
    return AgeReport("growth", worst, now - worst.begun, held.get(worst.token, NOTHING), total)
