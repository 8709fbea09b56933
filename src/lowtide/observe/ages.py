"""Which old snapshots to report: a rule over the clock, the live snapshots, and what was reported before.

A snapshot is reported when it reaches the warning age, when it reaches the critical age, and every interval after that.
Growth is reported while a snapshot has reached the warning age: when there are at least GROWTH_FLOOR superseded
versions, and twice as many as at the last report of any kind. That report names the snapshot that holds the most alone.

Counting what a snapshot holds takes time in proportion to all superseded versions. So it is done only for a report,
and reports of growth become rarer the more there is to count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from lowtide.engine.garbage.account import NOTHING, HolderId, Holding

MOST_REPORTS = 10
"""Old snapshots that are reported one by one at a time; of the others only the number is reported."""

GROWTH_FLOOR = 1_000
"""Superseded versions below which growth is not reported."""

Kind = Literal["old", "critical", "growth", "more"]


class LiveSnapshot(Protocol):
    """What the rule reads of a live snapshot. ``begun`` is a time on the same clock as ``now``."""

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
class SnapshotReport:
    """A report about one snapshot, whose ``str`` is the line that is logged. ``count`` is the number of all superseded
    versions for "growth", and the number of further snapshots for "more"."""

    kind: Kind
    snapshot: LiveSnapshot
    age: float
    held: Holding
    count: int = 0

    def __str__(self) -> str:
        if self.kind == "more":
            return f"{self.count} more snapshots are old, up to {self.age:.0f} s; see stats().snapshots"
        line = (
            f"the snapshot of commit {self.snapshot.ts} that was opened at {self.snapshot.origin} is {self.age:.0f} s "
            f"old; {self.held.versions} superseded versions, {self.held.bytes} bytes, are kept for it alone"
        )
        if self.kind == "growth":
            return f"superseded versions have grown to {self.count} while a snapshot is stuck: {line}"
        return line


@dataclass(frozen=True, slots=True)
class _Reported:
    """The last report of a snapshot: whether it was critical, and when it was made."""

    critical: bool
    at: float


class SnapshotReporter:
    """Decides what to report, and remembers what was reported. Used by one thread."""

    def __init__(self, limits: AgeLimits) -> None:
        self._limits = limits
        self._reported: dict[int, _Reported] = {}
        self._mark = 0
        """The number of superseded versions at the last report, or the lowest since, if that is lower."""

    def due(
        self,
        now: float,
        live: Iterable[LiveSnapshot],
        superseded: Callable[[], int],
        account: Callable[[], Mapping[HolderId, Holding]],
    ) -> list[SnapshotReport]:
        """The reports that are due now, oldest snapshot first. ``superseded`` counts all superseded versions; it is
        called only if a snapshot is old. ``account`` returns what each token holds; it is called only for a report."""
        least = min(self._limits.warn_age, self._limits.critical_age)
        old = sorted((each for each in live if now - each.begun >= least), key=lambda each: each.begun)
        self._reported = {each.token: self._reported[each.token] for each in old if each.token in self._reported}
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
            self._reported[each.token] = _Reported(self._is_critical(each, now), now)
        self._mark = total
        return reports

    def _is_critical(self, snapshot: LiveSnapshot, now: float) -> bool:
        return now - snapshot.begun >= self._limits.critical_age

    def _is_due(self, snapshot: LiveSnapshot, now: float) -> bool:
        reported = self._reported.get(snapshot.token)
        if reported is None:
            return True
        return now - reported.at >= self._limits.interval if reported.critical else self._is_critical(snapshot, now)

    def _of_age(
        self, now: float, due: Sequence[LiveSnapshot], held: Mapping[HolderId, Holding]
    ) -> list[SnapshotReport]:
        reports = [
            SnapshotReport(
                "critical" if self._is_critical(each, now) else "old",
                each,
                now - each.begun,
                held.get(each.token, NOTHING),
            )
            for each in due[:MOST_REPORTS]
        ]
        if further := due[MOST_REPORTS:]:
            reports.append(SnapshotReport("more", further[0], now - further[0].begun, NOTHING, len(further)))
        return reports


def _growth(now: float, old: Sequence[LiveSnapshot], held: Mapping[HolderId, Holding], total: int) -> SnapshotReport:
    """The report that names the snapshot that alone holds the most; of several, the oldest."""
    worst = max(old, key=lambda each: held.get(each.token, NOTHING).versions)
    return SnapshotReport("growth", worst, now - worst.begun, held.get(worst.token, NOTHING), total)
