"""A consistent view of an archive for reading: its instants and its tables.

The ledger is read before a table, so the table has everything that the ledger lists. It is read again afterwards, to
learn what a vacuum or a restored store has removed since. Readers and runs never block each other.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lowtide.errors import UsageError
from lowtide.pipeline.errors import ArchiveBehindWarning, ArchiveGap, ArchiveGapWarning, NotArchived
from lowtide.pipeline.tables.ledger import ArchiveLedger, CommitGap
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import table_at, tables_in
from lowtide.pipeline.tables.names import COLLECTIONS, KEYSPACES, QUAD_STORES, TableName
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.travel.instants import At, Instants, parse_at
from lowtide.pipeline.travel.retention import retained
from lowtide.system.clock import SYSTEM_CLOCK

ArchivePath = str | os.PathLike[str]


@dataclass(frozen=True)
class Moments:
    """What of an archive may tell the times of the commits between two others: the files that have any of them."""

    low: int
    high: int
    moment: datetime
    files: list[tuple[Location, list[str]]]


FirstLater = Callable[[Moments], int | None]
"""Finds the first commit after ``low`` and before ``high`` that is later than ``moment``."""


class ArchiveReader:
    """An archive. ``first_later`` looks up the times of commits in its tables."""

    def __init__(self, path: ArchivePath, first_later: FirstLater) -> None:
        self.location = Location.of(path)
        self._first_later = first_later
        ledger = ArchiveLedger(self.location)
        ledger.check()
        self._selection = ledger.selection
        self.instants = Instants.of(self.location.uri, ledger.entries)
        self._retained = retained(ledger.entries)

    def names(self, folder: str = COLLECTIONS) -> list[str]:
        """Return the names of the collections, or keyspaces, that have a table."""
        return [each for each in (self.location / folder).names() if not TableName(folder, each).is_internal]

    def table(self, collection: str | None, keyspace: str | None = None, quads: str | None = None) -> VersionTable:
        """Return the table of a collection, a keyspace or a quad store. Raises NotArchived if the archive does not
        follow it; it need not exist if nothing was ever written to it."""
        given = {COLLECTIONS: collection, KEYSPACES: keyspace, QUAD_STORES: quads}
        named = [TableName(folder, name) for folder, name in given.items() if name is not None]
        if len(named) != 1:
            raise UsageError(
                "give the name of a collection, keyspace=... for a keyspace, or quads=... for a quad store, and only "
                "one of them"
            )
        name = named[0]
        if not isinstance(name.name, str) or not name.name:
            raise UsageError(f"a collection, keyspace or quad store is named by a string, not {name.name!r}")
        table = table_at(self.location, name)
        if not table.exists and (self._selection is None or str(name) not in self._selection):
            raise NotArchived(self._unknown(name))
        self._look_again()
        return table

    def _look_again(self) -> None:
        """Learn what was removed until now. Commits that a run has added since are left out: other tables may lack
        them."""
        reached = self.instants.commit
        entries = ArchiveLedger(self.location).entries
        now = Instants.of(self.location.uri, entries)
        self._retained = retained(entries)
        now.runs = [each for each in now.runs if each.commit <= reached]
        self.instants = now

    def _unknown(self, name: TableName) -> str:
        known = self.names(name.folder)
        kind = {KEYSPACES: "keyspace", QUAD_STORES: "quad store"}.get(name.folder, "collection")
        near = difflib.get_close_matches(name.name, known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        listed = ", ".join(map(repr, known[:10])) or "none"
        return (
            f"{self.location.uri} does not know the {kind} {name.name!r}: {hint}It has the {kind}s {listed}"
            f"{' and more' if len(known) > 10 else ''}. What has never had anything in it is not known either"
        )

    # Instants

    def instant(self, at: At | None, table: VersionTable | str) -> int:
        """Return the commit that ``at`` means, None for the last one. Raises ArchiveGap or ArchiveBehind if the state
        of the table at that commit cannot be read."""
        name = str(table)
        given = self.instants.commit if at is None else parse_at(at)
        commit = self._at(given, name) if isinstance(given, datetime) else given
        self.instants.check(commit, name)
        return commit

    def _at(self, moment: datetime, table: str) -> int:
        if moment.timestamp() > SYSTEM_CLOCK.time():
            raise UsageError(f"{moment.isoformat()} lies in the future; without a time, the last commit is read")
        if moment < self._retained.floor_time:
            return self._thinned_at(moment)
        low, high = self.instants.around(moment)
        if high is None:
            self._warn_if_behind(moment)
            return low
        commit = (self._later(moment, low, high) or high) - 1
        if self.instants.is_readable(commit, table):
            return commit
        kept = self.instants.kept_at(moment, table)
        if kept is not None:
            return kept
        before, _ = self.instants.nearest(commit + 1, table)
        if before is not None and self._is_time_of(before, moment):
            return before
        try:
            self.instants.check(commit, table)
        except ArchiveGap as error:
            message = f"the last commit at {moment.isoformat()} is not known: {error}"
            raise ArchiveGap(message, error.first, error.last) from None
        return commit

    def _thinned_at(self, moment: datetime) -> int:
        """Return the instant that a vacuum has left for a time. The rows no longer tell what was committed when."""
        commit = self._retained.at(moment)
        if commit is not None:
            return commit
        before = max((each.commit for each in self._retained.instants if each.time <= moment), default=0)
        after = min((each.commit for each in self._retained.instants if each.time > moment), default=before + 2)
        near = " and ".join(f"commit {each}" for each in (before, after) if each)
        raise ArchiveGap(
            f"{self.location.uri} no longer has the last commit at {moment.isoformat()}: a vacuum removed it. The "
            f"nearest that can be read: {near}",
            before + 1,
            after - 1,
        )

    def _later(self, moment: datetime, low: int, high: int) -> int | None:
        return self._first_later(Moments(low, high, moment, list(self._files(low, high)))) if high - low > 1 else None

    def _is_time_of(self, commit: int, moment: datetime) -> bool:
        """Whether a commit is known to have been made at this very moment. What came after it was made later."""
        around = commit - 1, commit + 1
        just_before = moment - timedelta(microseconds=1)
        return self._later(just_before, *around) == commit and self._later(moment, *around) is None

    def _files(self, low: int, high: int) -> Iterable[tuple[Location, list[str]]]:
        """Yield the files of all tables that may have commits between two others."""
        for table in tables_in(self.location).values():
            chosen = [each.name for each in table.files if each.last_version > low and each.first_version < high]
            if chosen:
                yield table.location, chosen

    def _warn_if_behind(self, moment: datetime) -> None:
        known = self.instants.complete_until
        if known is not None and known < moment:
            has, asked = known.astimezone(UTC).isoformat(timespec="seconds"), moment.isoformat(timespec="seconds")
            warnings.warn(
                f"{self.location.uri} has all commits up to {has} only, and {asked} is later: this is its last commit, "
                f"{self.instants.commit}. Run lowtide.pipeline.archive(...) for what came since",
                ArchiveBehindWarning,
                stacklevel=5,
            )

    def warn_of_gaps(self, table: VersionTable) -> None:
        """Warn of what the history of a table lacks."""
        found = list(self.instants.notes(str(table)))
        if found:
            message = f"the history of {table} in {self.location.uri} is not complete; it lacks {'; '.join(found)}"
            warnings.warn(message, ArchiveGapWarning, stacklevel=4)


def gaps(archive_path: ArchivePath) -> list[CommitGap]:
    """Return what the archive lacks: ranges of commits whose versions it never had, with the reasons.

    ``lost`` is false for those from before the archive began to follow a table. What a vacuum removed is not among
    them.
    """
    ledger = ArchiveLedger(Location.of(archive_path))
    ledger.check()
    return Instants.of(ledger.archive.uri, ledger.entries).gaps
