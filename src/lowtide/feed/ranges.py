"""A range of commits as rows of changes, many at a time: what a reader needs that wants columns.

The rows of an update are the value before, if the log has it, and the value after; of a delete, the value that went, if
the log has it. The log is read from its files alone, in whatever process. Nothing is skipped: what is no longer there
is ChangesLost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from lowtide.base.codec import KEYSPACE_PREFIX
from lowtide.errors import ChangesLost, UsageError
from lowtide.log.cursor import LogCursor, Released
from lowtide.log.frame import Commit

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


class Share(NamedTuple):
    """One of ``of`` shares of the keys, by number. All changes of a key are in the same one."""

    number: int = 0
    of: int = 1


@dataclass(slots=True)
class Rows:
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
) -> Iterator[Rows]:
    """The changes of the keyspace with this ``prefix``, in batches of about ``size`` rows; none is empty."""
    rows = Rows()
    for commit in commits_in(commits):
        add_rows(rows, commit, prefix, preimages, share)
        if len(rows.kinds) >= size:
            yield rows
            rows = Rows()
    if rows.kinds:
        yield rows


def count_rows(commit: Commit, prefix: bytes, preimages: str = Preimages.AUTO) -> int:
    """How many rows ``read_rows`` makes of a commit."""
    rows = Rows()
    add_rows(rows, commit, prefix, preimages)
    return len(rows.kinds)


def commits_in(commits: CommitRange) -> Iterator[Commit]:
    """The commits themselves, all of them or ChangesLost."""
    cursor = LogCursor(commits.log, commits.store_id, commits.since)
    try:
        yield from cursor.read(commits.until)
    except Released as error:
        raise ChangesLost(error.wanted - 1, error.kept) from error
    finally:
        cursor.close()


def add_rows(rows: Rows, commit: Commit, prefix: bytes, preimages: str, share: Share = ALL) -> None:
    """Add what a commit changed in a keyspace. The deletion of a key that did not exist is no change."""
    writes, existed = commit.writes, commit.existed
    before = commit.before if preimages != Preimages.NONE else None
    ts, time, (number, of) = commit.ts, commit.time, share
    kinds, stamps, times, keys, values = rows.kinds, rows.commits, rows.times, rows.keys, rows.values
    for place, full_key in enumerate(writes):
        if full_key[:KEYSPACE_PREFIX] != prefix:
            continue
        key = full_key[KEYSPACE_PREFIX:]
        if of > 1 and crc32(key) % of != number:
            continue
        value = writes[full_key]
        if existed is not None and not existed[place]:
            if value is None:
                continue
            kinds.append(INSERT)
        else:
            if before is None and preimages == Preimages.REQUIRE:
                raise UsageError(
                    f"commit {ts} was logged without the values that it replaced: open the store with "
                    "before_images=True to have them in later ones, or ask for preimages 'auto'"
                )
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
