"""Which instants an archive can be read at, and which commit a moment in time means. Pure.

An instant is the state of the store at a commit. All commits up to that of the last run can be read, except

* those in a gap, whose versions the archive never had;
* those that a vacuum has thinned out: before the commit ``until`` of its entry, only the instants that it lists are
  left.

**Times.** A time means the last commit at or before it. The times of commits may be a little out of order, since a
clock can be set back. So the rule is exact: take the last run whose last commit is at or before the time; of the
following commits, take all before the first later one. Times are compared by the microsecond. A time after all archived
commits means the last one; if the archive may be incomplete by then, a warning says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from lowtide.errors import UsageError, shown
from lowtide.pipeline.errors import ArchiveBehind, ArchiveGap
from lowtide.pipeline.tables.ledger import BEFORE, GAP, RUN, TIMELINE, VACUUM, CommitGap, LedgerEntry

At = int | str | datetime
"""An instant as users give it: a commit, or a time as ``datetime`` or ISO text, in UTC if it has no zone."""

_LAST: Final = 2**63 - 1


@dataclass(frozen=True)
class Thinned:
    """What a vacuum has left of the commits before ``until``: ``instants``, of all tables, or only of some. ``times``
    tells when each of them was the last commit: from one moment on, and before another one, if that is known."""

    until: int
    instants: frozenset[int]
    tables: tuple[str, ...] | None = None
    times: Mapping[int, tuple[datetime, datetime | None]] = field(default_factory=dict)

    def hides(self, commit: int, table: str) -> bool:
        """Whether the state of a table at this commit was removed."""
        concerned = self.tables is None or table in self.tables
        return concerned and 0 < commit < self.until and commit not in self.instants

    def at(self, moment: datetime) -> int | None:
        """Return the instant that was the last commit at a moment; None if that one was removed, or is not known."""
        for commit, (begin, end) in self.times.items():
            if begin <= moment and end is not None and moment < end:
                return commit
        return None


@dataclass(frozen=True)
class Reached:
    """The last commit of a run, and when the store made it; at the latest, if that is not known."""

    commit: int
    time: datetime
    began: datetime
    """When the run began: it has all commits made before."""


@dataclass
class Instants:
    """What the ledger of an archive tells about its instants; ``name`` is the archive's, for messages."""

    name: str
    runs: list[Reached] = field(default_factory=list)
    gaps: list[CommitGap] = field(default_factory=list)
    thinned: list[Thinned] = field(default_factory=list)
    lost: list[LedgerEntry] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, entries: Iterable[LedgerEntry]) -> Instants:
        """Read the entries of a ledger, oldest first."""
        found = cls(name)
        for each in entries:
            if each.entry == RUN:
                found.runs.append(_reached(each))
            elif each.entry == GAP:
                found.gaps.append(_gap(each))
            elif each.entry == VACUUM:
                found.thinned.append(_thinned(each))
            elif each.entry == TIMELINE:
                found._undo(each)
        return found

    def _undo(self, timeline: LedgerEntry) -> None:
        """Forget what the store has undone. Its numbers are given to other commits."""
        shared = timeline.since or 0
        self.runs = [each for each in self.runs if each.commit <= shared]
        gaps = [each for each in self.gaps if each.since < shared]
        self.gaps = [replace(each, until=min(each.until, shared + 1)) for each in gaps]
        self.thinned = [replace(each, until=min(each.until, shared + 1)) for each in self.thinned]
        self.lost.append(timeline)

    @property
    def commit(self) -> int:
        """The commit that the archive has reached; 0 if none."""
        return self.runs[-1].commit if self.runs else 0

    # Commits

    def is_readable(self, commit: int, table: str) -> bool:
        """Whether the archive has the state of a table at a commit."""
        hidden = any(each.hides(commit, table) for each in self.gaps)
        removed = any(each.hides(commit, table) for each in self.thinned)
        return 0 <= commit <= self.commit and not hidden and not removed

    def nearest(self, commit: int, table: str) -> tuple[int | None, int | None]:
        """Return the nearest instants before and after a commit that can be read."""
        known = {0, self.commit}
        for gap in self.gaps:
            known |= {gap.since, gap.until}
        for each in self.thinned:
            known |= {each.until, *each.instants}
        readable = [each for each in known if self.is_readable(each, table)]
        return (
            max((each for each in readable if 0 < each < commit), default=None),
            min((each for each in readable if each > commit), default=None),
        )

    def check(self, commit: int, table: str) -> None:
        """Raise ArchiveBehind or ArchiveGap unless the state of a table at a commit can be read."""
        if commit > self.commit:
            raise ArchiveBehind(
                f"{self.name} has not reached commit {commit}: its last one is {self.commit}{self._undone(commit)}. "
                f"Run lowtide.pipeline.archive(...) first, or give a commit up to {self.commit}",
                self.commit,
            )
        for gap in self.gaps:
            if gap.hides(commit, table):
                raise ArchiveGap(
                    f"{self.name} does not have commit {commit}; it lacks {gap}. {self._hint(commit, table)}",
                    gap.since + 1,
                    gap.until - 1,
                )
        for each in self.thinned:
            if each.hides(commit, table):
                before, after = self.nearest(commit, table)
                raise ArchiveGap(
                    f"{self.name} no longer has commit {commit}: a vacuum removed it, and kept only some instants "
                    f"before commit {each.until}. {self._hint(commit, table)}",
                    1 if before is None else before + 1,
                    (each.until if after is None else after) - 1,
                )

    def _hint(self, commit: int, table: str) -> str:
        near = [str(each) for each in self.nearest(commit, table) if each is not None]
        if not near:
            return "There is no instant of it that can be read"
        return f"The nearest that can be read: commit {' and commit '.join(near)}"

    def _undone(self, commit: int) -> str:
        for each in reversed(self.lost):
            if (each.since or 0) < commit <= (each.until or 0):
                return (
                    f". Commit {commit} of before the store was restored, at commit {each.since}, is in the tables of "
                    f"{self.name}/{each.detail['lost']}"
                )
        return ""

    # Times

    def around(self, moment: datetime) -> tuple[int, int | None]:
        """Return the last commit that is known to be at or before a moment, and the next one that is known to be later;
        None if there is none. What lies between must be looked up."""
        low = max((number for number, each in enumerate(self.runs) if each.time <= moment), default=-1)
        high = self.runs[low + 1].commit if low + 1 < len(self.runs) else None
        return (self.runs[low].commit if low >= 0 else 0), high

    def kept_at(self, moment: datetime, table: str) -> int | None:
        """Return the commit that vacuums have noted as the last one at a moment; None if none that can be read."""
        found = (each.at(moment) for each in self.thinned if each.tables is None or table in each.tables)
        return next((each for each in found if each is not None and self.is_readable(each, table)), None)

    @property
    def complete_until(self) -> datetime | None:
        """The moment up to which the archive is known to have all commits."""
        return max((each.began for each in self.runs), default=None)

    def notes(self, table: str) -> Iterator[str]:
        """Yield what the history of a table lacks, in words."""
        for gap in self.gaps:
            if (gap.tables is None or table in gap.tables) and gap.until - gap.since > 1:
                yield str(gap)
        for each in self.thinned:
            if each.tables is None or table in each.tables:
                yield f"commits before {each.until}: a vacuum kept only what {len(each.instants)} instants see"
        for entry in self.lost:
            yield (
                f"commits {(entry.since or 0) + 1} to {entry.until} of before the store was restored from a backup: "
                f"moved to {self.name}/{entry.detail['lost']}"
            )


def parse_at(at: object) -> int | datetime:
    """Return the commit, or the time in UTC, that a user means.

    >>> parse_at("2026-05-01T12:00:00+02:00").isoformat()
    '2026-05-01T10:00:00+00:00'
    """
    if isinstance(at, str) and at.strip().isdecimal() and at.isascii():
        at = int(at)
    if isinstance(at, int) and not isinstance(at, bool):
        if not 0 <= at <= _LAST:
            raise UsageError(f"a commit is a number from 0 on, not {at}")
        return at
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at.strip())
        except ValueError as error:
            raise UsageError(
                f"an instant is a commit, such as 42, or an ISO time, such as 2026-05-01T12:00:00Z, not {shown(at)}: "
                f"{error}"
            ) from error
    if isinstance(at, datetime):
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    raise UsageError(f"an instant is a commit (int), a datetime or an ISO time (str), not {shown(at)}")


def _reached(entry: LedgerEntry) -> Reached:
    seconds = entry.detail.get("seconds", 0.0)
    began = entry.at - timedelta(seconds=seconds)
    return Reached(entry.until or 0, entry.time or entry.at, began)


def _gap(entry: LedgerEntry) -> CommitGap:
    reason = entry.detail["reason"]
    return CommitGap(entry.since or 0, entry.until or 0, reason, _tables(entry), lost=reason != BEFORE)


def _thinned(entry: LedgerEntry) -> Thinned:
    instants = sorted(entry.detail["instants"])
    times = [tuple(_moment(each) for each in pair) for pair in entry.detail.get("times") or ()]
    known = {commit: (begin, end) for commit, (begin, end) in zip(instants, times, strict=False) if begin is not None}
    return Thinned(entry.until or 0, frozenset(instants), _tables(entry), known)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _tables(entry: LedgerEntry) -> tuple[str, ...] | None:
    tables = entry.detail.get("tables")
    return None if tables is None else tuple(tables)
