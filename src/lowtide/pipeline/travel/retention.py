"""Which past an archive keeps, and which versions that needs. Pure.

A policy (``Keep``) keeps everything for a while, then one instant per hour, day and month. An instant is a commit; that
of a period is the last one in it. Tags and pins hold more of them. From the times of commits and the policy follow the
``floor`` and the ``instants``: every commit from the floor on can be read, and before it only those instants.

A version is seen on ``[begin, end)``. It goes if that ended at or before the floor, and no instant is in it: the
engine's own rule (``engine/garbage/horizon.py``), with the floor as its bound and the instants as its live snapshots.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lowtide.errors import UsageError, shown
from lowtide.pipeline.tables.ledger import TIMELINE, VACUUM, LedgerEntry

FOREVER: Final = timedelta.max
_BEGINNING: Final = datetime.fromtimestamp(0, UTC)
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "mo": timedelta(days=30),
    "y": timedelta(days=365),
}
_WORDS: Final = {
    "second": "s",
    "min": "m",
    "minute": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
    "month": "mo",
    "year": "y",
}
_SPAN: Final = re.compile(r"(\d+)\s*([a-z]+)")
_CLAUSE: Final = re.compile(r"(?:(all|hourly|daily|monthly)\b)?\s*(.*)")
_HELP: Final = (
    "a policy is text such as '7d, hourly 30d, daily 1y, monthly' (units: s, m, h, d, w, mo, y; without a span: for "
    "ever), a timedelta for which everything is kept, a list of commits, or lowtide.pipeline.Keep(...)"
)

Period = Callable[[datetime], Any]
_PERIODS: Final[Mapping[str, Period]] = {
    "hourly": lambda time: (time.date(), time.hour),
    "daily": lambda time: time.date(),
    "monthly": lambda time: (time.year, time.month),
}


@dataclass(frozen=True)
class Keep:
    """A policy: everything younger than ``all``, and the last commit of each hour, day or month that is younger than
    ``hourly``, ``daily`` or ``monthly``; None for none of them. Hours and days are those of UTC. ``commits`` are kept
    besides.

    >>> Keep.of("7d, hourly 30d, daily 1y, monthly")
    Keep('7d, hourly 30d, daily 365d, monthly')
    """

    all: timedelta = timedelta(0)
    hourly: timedelta | None = None
    daily: timedelta | None = None
    monthly: timedelta | None = None
    commits: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("all", *_PERIODS):
            span = getattr(self, name)
            if not (isinstance(span, timedelta) or (span is None and name != "all")) or (span and span < timedelta(0)):
                raise UsageError(f"{name} is a timedelta of at least 0, not {shown(span)}: {_HELP}")

    @classmethod
    def of(cls, policy: object) -> Keep:
        """Return the policy that a user means."""
        if isinstance(policy, Keep):
            return policy
        if isinstance(policy, timedelta):
            return cls(all=policy)
        if isinstance(policy, str):
            return _parsed(policy)
        if isinstance(policy, Mapping):
            return _from_mapping(policy)
        if isinstance(policy, Sequence | set | frozenset) and all(
            isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in policy
        ):
            return cls(commits=tuple(sorted(policy)))
        raise UsageError(f"cannot keep {shown(policy)}: {_HELP}")

    def __str__(self) -> str:
        spans = {name: getattr(self, name) for name in ("all", *_PERIODS)}
        clauses = [
            name if span == FOREVER else _text(span) if name == "all" else f"{name} {_text(span)}"
            for name, span in spans.items()
            if (span if name == "all" else span is not None)
        ]
        clauses += ["commits " + " ".join(map(str, self.commits))] if self.commits else []
        return ", ".join(clauses) or "0d"

    def __repr__(self) -> str:
        return f"Keep({str(self)!r})"


def _parsed(text: str) -> Keep:
    found: dict[str, Any] = {}
    for clause in text.lower().split(","):
        match = _CLAUSE.fullmatch(clause.strip())
        name, span = (match[1] or "all", match[2].strip()) if match is not None else ("", "")
        named = match is not None and match[1] is not None
        if match is None or name in found or not (span or named):
            raise UsageError(f"cannot keep {shown(text)}, because of {clause.strip()!r}: {_HELP}")
        found[name] = _span(span, text) if span else FOREVER
    return Keep(**found)


def _span(text: str, whole: str) -> timedelta:
    match = _SPAN.fullmatch(text)
    word = "" if match is None else match[2]
    unit = _UNITS.get(_WORDS.get(word.removesuffix("s"), word))
    if match is None or unit is None:
        raise UsageError(f"cannot keep {shown(whole)}, because of {text!r}: {_HELP}")
    try:
        return int(match[1]) * unit
    except OverflowError:
        return FOREVER


def _text(span: timedelta) -> str:
    for unit in ("d", "h", "m"):
        if not span % _UNITS[unit]:
            return f"{span // _UNITS[unit]}{unit}"
    return f"{-(-span // _UNITS['s'])}s"


def _from_mapping(policy: Mapping[Any, Any]) -> Keep:
    known = {each.name for each in fields(Keep)}
    if unknown := [name for name in policy if name not in known]:
        raise UsageError(f"a policy has no {shown(unknown[0])}; it has {', '.join(sorted(known))}: {_HELP}")
    values: dict[str, Any] = {}
    for name, value in policy.items():
        if name == "commits":
            values[name] = Keep.of(value).commits
        elif isinstance(value, str):
            values[name] = _span(value.lower().strip(), value)
        else:
            values[name] = FOREVER if value is True else value
    return Keep(**values)


# Instants


@dataclass(frozen=True)
class Instant:
    """A commit, when it was made, and when the next one was, None if there is none: for any time between, this is the
    instant that is meant."""

    commit: int
    time: datetime
    until: datetime | None = None


@dataclass(frozen=True)
class Retained:
    """The commits that can be read: all from ``floor`` on, and before it ``instants``, which are sorted."""

    floor: int = 0
    instants: tuple[Instant, ...] = ()
    commits: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "commits", tuple(each.commit for each in self.instants))

    def has(self, commit: int) -> bool:
        """Whether a commit can be read."""
        return commit >= self.floor or commit in self.commits

    def newest_up_to(self, commit: int) -> int:
        """Return the newest commit up to this one that can be read; 0 if there is none."""
        if commit >= self.floor:
            return commit
        return max((each for each in self.commits if each <= commit), default=0)

    def to_detail(self) -> dict[str, Any]:
        """Return what the ledger keeps of it, besides the floor."""
        times = [[each.time.isoformat(), each.until and each.until.isoformat()] for each in self.instants]
        return {"instants": list(self.commits), "times": times}

    @classmethod
    def from_detail(cls, floor: int, detail: Mapping[str, Any]) -> Retained:
        commits = sorted(detail["instants"])
        times = detail.get("times") or [[_BEGINNING.isoformat()] * 2] * len(commits)
        moments = [
            (datetime.fromisoformat(time), None if until is None else datetime.fromisoformat(until))
            for time, until in times
        ]
        return cls(floor, tuple(Instant(commit, *each) for commit, each in zip(commits, moments, strict=True)))

    @property
    def floor_time(self) -> datetime:
        """When the floor was made: of later times, each commit can be read."""
        return next((each.time for each in self.instants if each.commit == self.floor), _BEGINNING)

    def at(self, moment: datetime) -> int | None:
        """Return the instant that a time before that of the floor means: the last commit at or before it; None if that
        one is gone."""
        found = (each for each in self.instants if each.time <= moment and (each.until is None or moment < each.until))
        return max((each.commit for each in found), default=None)


def choose(
    commits: Iterable[Instant], keep: Keep, *, now: datetime, held: Iterable[int] = (), before: Retained | None = None
) -> Retained:
    """Return what can still be read if the policy is applied at ``now``. ``commits`` are those that can be read: at
    least the last ones of each hour, and the last one that is older than ``keep.all``. ``held`` are kept in any case.
    ``before`` is what a former vacuum has left."""
    known = sorted(commits, key=lambda each: each.commit)
    floor = _floor(known, _ago(now, keep.all))
    left = before if before is not None else Retained()
    wanted = {*held, *keep.commits}
    for name, period in _PERIODS.items():
        span = getattr(keep, name)
        if span is not None:
            oldest = _ago(now, span)
            # The last commit of each period: later ones replace earlier ones.
            wanted.update({period(each.time): each.commit for each in known if each.time >= oldest}.values())
    # What a longer policy would keep, and a former vacuum has not, cannot come back.
    until = max(floor, left.floor)
    chosen = {each.commit: each for each in known if each.commit >= floor or each.commit in wanted}
    for commit in wanted - chosen.keys():
        # When it was made is not known exactly: no time means it.
        around = _time_of(commit, known)
        chosen[commit] = Instant(commit, around, around)
    readable = (each for each in chosen.values() if each.commit <= until and left.has(each.commit))
    return Retained(until, tuple(sorted(readable, key=lambda each: each.commit)))


def _floor(known: Sequence[Instant], cutoff: datetime) -> int:
    """Return the last commit before the first one that is younger than ``cutoff``; a clock may have been set back."""
    floor = 0
    for each in known:
        if each.time > cutoff:
            break
        floor = each.commit
    return floor


def _time_of(commit: int, known: Sequence[Instant]) -> datetime:
    """Return the time of the last known commit up to this one."""
    place = bisect_left(known, commit + 1, key=lambda each: each.commit)
    return known[place - 1].time if place else _BEGINNING


def _ago(now: datetime, span: timedelta) -> datetime:
    try:
        return now - span
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def retained(entries: Iterable[LedgerEntry]) -> Retained:
    """Return what vacuums have left, given the entries of a ledger. Each vacuum continues the one before. Numbers that
    a restored store has given back are given to new commits that no vacuum has seen."""
    found = Retained()
    for each in entries:
        if each.entry == VACUUM:
            found = Retained.from_detail(each.until or 0, each.detail)
        elif each.entry == TIMELINE:
            shared = each.since or 0
            instants = tuple(instant for instant in found.instants if instant.commit <= shared)
            found = Retained(min(found.floor, shared + 1), instants)
    return found


# Versions


def survives(begin: int, end: int | None, instants: Sequence[int], floor: int) -> bool:
    """Whether the version seen on ``[begin, end)`` stays; ``instants`` are sorted.

    >>> survives(3, 8, [5], floor=9), survives(6, 8, [5], floor=9), survives(6, None, [], floor=9)
    (True, False, True)
    """
    if end is None or end > floor:
        return True
    place = bisect_left(instants, begin)
    return place < len(instants) and instants[place] < end


@dataclass(frozen=True)
class Survivors:
    """The same for many versions at once, in tasks. ``instants`` are sorted."""

    instants: tuple[int, ...]
    floor: int

    def mask(self, begins: pa.Array, ends: pa.Array) -> pa.Array:
        """Return for each version whether it stays."""
        instants = np.append(np.array(self.instants, dtype=np.int64), np.iinfo(np.int64).max)
        began = begins.to_numpy(zero_copy_only=False)
        ended = ends.fill_null(np.iinfo(np.int64).max).to_numpy(zero_copy_only=False)
        following = instants[np.searchsorted(instants, began, side="left")]
        return pa.array((ended > self.floor) | (following < ended))
