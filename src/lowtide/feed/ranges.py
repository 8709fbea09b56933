"""Reads a range of commits as batches of change rows, for readers that build columns.

An update has a row for the value before, if the log has it, and a row for the value after. A delete has a row with the
deleted value, if the log has it. Only the log's files are read, so any process can do it. Missing commits raise
ChangesLost and are never skipped.
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
    """Whether rows have the replaced or deleted values: if the log has them; always, or raise an error; never."""

    AUTO = "auto"
    REQUIRE = "require"
    NONE = "none"


class CommitRange(NamedTuple):
    """The commits of a log after ``since`` up to ``until``, which must have been published."""

    log: Path
    store_id: bytes
    since: int
    until: int


class Marks:
    """Remembers where ranges read in this process ended, so that the next one need not walk the segment from its start.

    Any thread may write. A list is replaced whole; a stale one costs only the walk. The frame at a mark is checked like
    any other.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[Path, bytes], list[tuple[int, LogPosition]]] = {}

    def before(self, commits: CommitRange) -> tuple[int, LogPosition] | None:
        """Return the last mark at or before the start of the range."""
        ends = self._ends.get((commits.log, commits.store_id), [])
        return max((each for each in ends if each[0] <= commits.since), default=None)

    def add(self, commits: CommitRange, cursor: LogCursor) -> None:
        """Remember the position of a cursor. The newest few are kept."""
        place, log = cursor.place, (commits.log, commits.store_id)
        if place is not None:
            others = [each for each in self._ends.get(log, []) if each[0] != cursor.position]
            self._ends[log] = [*others, (cursor.position, place)][-_MARKS:]
            while len(self._ends) > _MARKS:
                self._ends.pop(next(iter(self._ends)), None)


_MARKS = 8
_marks = Marks()


class Share(NamedTuple):
    """One of ``of`` shares of the keys. All changes of a key are in the same share."""

    number: int = 0
    of: int = 1


@dataclass(slots=True)
class ChangeRows:
    """Columns of change rows, in commit order. ``values`` has None for a delete whose value is unknown."""

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
    """Yield the changes of the keyspace with this ``prefix`` in batches of ``size`` rows or of whole commits.

    No batch is empty.
    """
    rows = ChangeRows()
    for group in _groups_in(commits):
        at = 0
        while (at := add_rows(rows, group, prefix, preimages, share, size=size, at=at)) < len(group):
            yield rows
            rows = ChangeRows()
    if rows.kinds:
        yield rows


def rows_of(commit: Commit, prefix: bytes, preimages: str = Preimages.AUTO) -> ChangeRows:
    """Return the rows that ``read_rows`` yields for a commit."""
    rows = ChangeRows()
    add_rows(rows, [commit], prefix, preimages)
    return rows


def commits_in(commits: CommitRange) -> Iterator[Commit]:
    """Yield the commits. Raises ChangesLost if one is missing."""
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
    """Add the changes of commits in a keyspace, from position ``at`` on, until there are ``size`` rows.

    Returns the position to continue at. Deleting a key that did not exist is not a change.
    """
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
    """Add the change of a key by a swap."""
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
