"""The ledger of an archive: a Delta table that records every run, and everything else that changed the archive.

A run counts once it has its entry. Before that, some tables may already have its versions and others not. The entry of
a run is published with an application transaction, so it exists only once. Entries are never changed.

==========  =======================================================================================================
begin       which store the archive is of
run         the commits after ``since`` up to ``until`` are in all tables; detail: where collections had their
            documents then, and the report
gap         the commits after ``since`` up to ``until`` are not there, except for the state at ``until``; detail:
            why, of which tables, and whether they were lost or are from before the archive began
timeline    the store was restored from a backup that ends with ``since``: what the archive had after that, up to
            ``until``, was moved to the tables in ``lost/``
tag         ``until`` is kept by name; detail: the name. ``untag`` takes it back
vacuum      before ``until`` only some instants can be read; detail: which
erase       all versions of one ``_id`` were removed; detail: the proof
==========  =======================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from lowtide.pipeline.errors import ArchiveError, ConflictingRun
from lowtide.pipeline.tables.clearing import GRACE, clear_files
from lowtide.pipeline.tables.columns import TIMESTAMP
from lowtide.pipeline.tables.location import Location
from lowtide.system.clock import SYSTEM_CLOCK

RUN, GAP, BEGIN, TIMELINE, TAG, UNTAG, VACUUM, ERASE = (
    "run", "gap", "begin", "timeline", "tag", "untag", "vacuum", "erase",
)  # fmt: skip
FORMAT: Final = 1
_LEDGER: Final = "ledger"
BEFORE: Final = "made before the archive began"
"""The reason of a gap that is no loss."""
_COMPACT_EVERY: Final = 100
"""Entries after which the small files of the ledger are joined."""
_SCHEMA: Final = pa.schema(
    [
        pa.field("entry", pa.string(), nullable=False),
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("since", pa.int64()),
        pa.field("until", pa.int64()),
        pa.field("time", TIMESTAMP),
        pa.field("detail", pa.string()),
    ]
)


@dataclass(frozen=True)
class LedgerEntry:
    """One entry. ``time`` is when the store made the commit ``until``."""

    entry: str
    at: datetime
    since: int | None = None
    until: int | None = None
    time: datetime | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CommitGap:
    """Commits that are not in the archive: those after ``since`` and before ``until``, of all tables, or only of some.
    Their versions were ``lost``, or made before the archive began to follow the tables, which is no loss."""

    since: int
    until: int
    reason: str
    tables: tuple[str, ...] | None = None
    lost: bool = True

    def hides(self, commit: int, table: str) -> bool:
        """Whether the state of a table at this commit is not known."""
        return self.since < commit < self.until and (self.tables is None or table in self.tables)

    def __str__(self) -> str:
        return f"commits {self.since + 1} to {self.until - 1}: {self.reason}"


class ArchiveLedger:
    """The entries of an archive, as they are when this is made."""

    def __init__(self, archive: Location) -> None:
        self._location = archive / _LEDGER
        self.archive = archive
        self.entries = self._read()

    def _read(self) -> list[LedgerEntry]:
        try:
            files = pa.table(DeltaTable(self._location.uri).get_add_actions()).column("path").to_pylist()
        except TableNotFoundError:
            return []
        found = self._location.dataset(files, _SCHEMA).to_table().to_pylist()
        entries = [LedgerEntry(**{**each, "detail": msgspec.json.decode(each["detail"] or "{}")}) for each in found]
        return sorted(entries, key=lambda each: each.at)

    def of(self, *kinds: str) -> list[LedgerEntry]:
        """Return the entries of these kinds, oldest first."""
        return [each for each in self.entries if each.entry in kinds]

    @property
    def exists(self) -> bool:
        return bool(self.entries)

    def check(self) -> None:
        """Raise ArchiveError unless this is an archive that this release reads."""
        begun = self.of(BEGIN)
        if not begun:
            raise ArchiveError(
                f"there is no archive in {self.archive.uri}: check the path, or make one with "
                "lowtide.pipeline.archive(spark, store_path, archive_path)"
            )
        if begun[0].detail["format"] != FORMAT:
            raise ArchiveError(
                f"{self.archive.uri} is an archive of format {begun[0].detail['format']}; this release reads {FORMAT}"
            )

    @property
    def store(self) -> str | None:
        """The id of the store, in hexadecimal."""
        begun = self.of(BEGIN)
        return begun[0].detail["store"] if begun else None

    @property
    def selection(self) -> frozenset[str] | None:
        """The tables that the archive follows; None for all of the store."""
        found: set[str] = set()
        for each in self.of(BEGIN):
            if each.detail["tables"] is None:
                return None
            found.update(each.detail["tables"])
        return frozenset(found)

    @property
    def last_run(self) -> LedgerEntry | None:
        """The entry with the last commit of the archive."""
        found = None
        for each in self.of(RUN, TIMELINE):
            found = each if each.entry == RUN else None if found is None else self._before(found, each.since or 0)
        return found

    def _before(self, run: LedgerEntry, commit: int) -> LedgerEntry | None:
        """Return the last run up to a commit, of those made before ``run``."""
        found = [each for each in self.of(RUN) if each.at <= run.at and (each.until or 0) <= commit]
        return max(found, key=lambda each: each.until or 0, default=None)

    @property
    def commit(self) -> int:
        """The commit that the archive has reached; 0 if none."""
        run = self.last_run
        return (run.until or 0) if run is not None else 0

    def add(self, entry: str, *, application: tuple[str, int] | None = None, **values: Any) -> LedgerEntry:
        """Write an entry. With ``application``, a transaction's name and number, once only."""
        made = LedgerEntry(entry, datetime.fromtimestamp(SYSTEM_CLOCK.time(), UTC), **values)
        row = {**{name: getattr(made, name) for name in _SCHEMA.names}, "detail": _encode(made.detail)}
        transactions = [] if application is None else [Transaction(*application)]
        self._location.create()
        try:
            write_deltalake(
                self._location.uri,
                pa.Table.from_pylist([row], _SCHEMA),
                mode="append",
                commit_properties=CommitProperties(app_transactions=transactions),
            )
        except CommitFailedError as error:
            raise ConflictingRun(f"another run changed the archive {self.archive.uri}: {error}; run again") from error
        self.entries.append(made)
        self._tidy()
        return made

    def _tidy(self) -> None:
        """Join the small files, and delete those that were joined long ago."""
        table = DeltaTable(self._location.uri)
        if len(table.file_uris()) >= _COMPACT_EVERY:
            table.optimize.compact()
            clear_files(table, GRACE)

    def done(self, application: str) -> int | None:
        """Return the highest number of an application transaction; None if there was none."""
        try:
            return DeltaTable(self._location.uri).transaction_version(application)
        except TableNotFoundError:
            return None

    def has_run_to(self, until: int) -> LedgerEntry | None:
        """Return the run that ended with a commit."""
        return next((each for each in reversed(self.of(RUN)) if each.until == until), None)


def _encode(detail: Mapping[str, Any]) -> str:
    return msgspec.json.encode(dict(detail)).decode()


def names(tables: Iterable[str] | None) -> list[str] | None:
    """Return names as an entry keeps them."""
    return None if tables is None else sorted(tables)
