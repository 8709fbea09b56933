"""A range of commits as rows of changes, many at a time: what a reader needs that wants columns.

The rows of an update are the value before, if the log has it, and the value after; of a delete, the value that went, if
the log has it. The log is read from its files alone, in whatever process. Nothing is skipped: what is no longer there
is ChangesLost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from lowtide.engine import KEYSPACE_PREFIX, Commit, LogCursor, LogPosition, Released
from lowtide.errors import ChangesLost, UsageError
from lowtide.feed.differences import Difference, Swap

INSERT = "insert"
PREIMAGE = "update_preimage"
POSTIMAGE = "update_postimage"
DELETE = "delete"


class Preimages(StrEnum):
    """Whether values that were replaced or deleted are shown: where the log has them; always, or else an error; not."""

    AUTO = "auto"
    REQUIRE = "require"
    NONE = "none"


class CommitRange(NamedTuple):
    """The commits after ``since`` up to ``until``, which must have been published, in a log."""

    log: Path
    store_id: bytes
    since: int
    until: int


class Marks:
    """Where ranges that were read in this process have ended, so that who goes on there, or a little later, need not
    walk through the segment from its beginning.

    Any thread may write; a list is replaced whole, and one that is stale costs the walk. What a mark leads to is
    checked like everything in the log.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[Path, bytes], list[tuple[int, LogPosition]]] = {}

    def before(self, commits: CommitRange) -> tuple[int, LogPosition] | None:
        """The last mark no later than where the range begins."""
        ends = self._ends.get((commits.log, commits.store_id), [])
        return max((each for each in ends if each[0] <= commits.since), default=None)

    def add(self, commits: CommitRange, cursor: LogCursor) -> None:
        """Note where a cursor stands. The newest few are kept."""
        place, log = cursor.place, (commits.log, commits.store_id)
        if place is not None:
            others = [each for each in self._ends.get(log, []) if each[0] != cursor.position]
            self._ends[log] = [*others, (cursor.position, place)][-_MARKS:]
            while len(self._ends) > _MARKS:
                self._ends.pop(next(iter(self._ends)), None)


_MARKS = 8
_marks = Marks()


class Share(NamedTuple):
    """One of ``of`` shares of the keys, by number. All changes of a key are in the same one."""

    number: int = 0
    of: int = 1


@dataclass(slots=True)
class ChangeRows:
    """Rows of changes, column by column, in commit order. ``values`` has None for a delete whose value is not known."""

    kinds: list[str] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.kinds)


ALL = Share()


def read_rows(
    commits: CommitRange, prefix: bytes, preimages: str = Preimages.AUTO, share: Share = ALL, size: int = 8192
) -> Iterator[ChangeRows]:
    """The changes of the keyspace with this ``prefix``, in batches of ``size`` rows, more only to have a commit whole;
    none is empty."""
    rows = ChangeRows()
    for group in _groups_in(commits):
        at = 0
        while (at := add_rows(rows, group, prefix, preimages, share, size, at)) < len(group):
            yield rows
            rows = ChangeRows()
    if rows.kinds:
        yield rows


def rows_of(commit: Commit, prefix: bytes, preimages: str = Preimages.AUTO) -> ChangeRows:
    """The rows that ``read_rows`` makes of a commit."""
    rows = ChangeRows()
    add_rows(rows, [commit], prefix, preimages)
    return rows


def commits_in(commits: CommitRange) -> Iterator[Commit]:
    """The commits themselves, all of them or ChangesLost."""
    return (commit for group in _groups_in(commits) for commit in group)


def _groups_in(commits: CommitRange) -> Iterator[list[Commit]]:
    known = _marks.before(commits)
    cursor = LogCursor(commits.log, commits.store_id, commits.since if known is None else known[0], known and known[1])
    cursor.position = commits.since
    try:
        yield from cursor.read_many(commits.until)
    except Released as error:
        raise ChangesLost(error.wanted - 1, error.kept) from error
    finally:
        _marks.add(commits, cursor)
        cursor.close()


def add_rows(
    rows: ChangeRows,
    commits: list[Commit],
    prefix: bytes,
    preimages: str,
    share: Share = ALL,
    size: int = sys.maxsize,
    at: int = 0,
) -> int:
    """Add what commits changed in a keyspace, from the one ``at`` this place on, until there are ``size`` rows; returns
    the place to go on at. The deletion of a key that did not exist is no change."""
    images, required, (number, of) = preimages != Preimages.NONE, preimages == Preimages.REQUIRE, share
    kinds, stamps, times, keys, values = rows.kinds, rows.commits, rows.times, rows.keys, rows.values
    for index in range(at, len(commits)):
        if len(kinds) >= size:
            return index
        commit = commits[index]
        ts, time, existed = commit.ts, commit.time, commit.existed
        before = commit.before if images else None
        for place, (full_key, value) in enumerate(commit.writes.items()):
            if full_key[:KEYSPACE_PREFIX] != prefix:
                continue
            key = full_key[KEYSPACE_PREFIX:]
            if of > 1 and crc32(key) % of != number:
                continue
            if existed is not None and not existed[place]:
                if value is None:
                    continue
                kinds.append(INSERT)
            else:
                if required and before is None:
                    raise _without_images(ts)
                old = before[place] if before is not None else None
                if value is None:
                    kinds.append(DELETE)
                    value = old
                else:
                    if old is not None:
                        kinds.append(PREIMAGE)
                        stamps.append(ts)
                        times.append(time)
                        keys.append(key)
                        values.append(old)
                    kinds.append(POSTIMAGE)
            stamps.append(ts)
            times.append(time)
            keys.append(key)
            values.append(value)
    return len(commits)


def add_difference(rows: ChangeRows, swap: Swap, key: bytes, each: Difference, preimages: str) -> None:
    """Add what a swap did to a key."""
    kind, before = each.kind, each.before if preimages != Preimages.NONE else None
    if kind is None:
        return
    if kind != "insert" and before is None and preimages == Preimages.REQUIRE:
        raise _without_images(swap.ts)
    found = [(DELETE, before)] if kind == "delete" else [(INSERT if kind == "insert" else POSTIMAGE, each.value)]
    if kind == "update" and before is not None:
        found.insert(0, (PREIMAGE, before))
    for name, value in found:
        rows.kinds.append(name)
        rows.commits.append(swap.ts)
        rows.times.append(swap.time)
        rows.keys.append(key)
        rows.values.append(value)


def _without_images(ts: int) -> UsageError:
    return UsageError(
        f"commit {ts} was logged without the values that it replaced: open the store with before_images=True to have "
        "them in later ones, or ask for preimages 'auto'"
    )
